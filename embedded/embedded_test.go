package embedded_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
)

func client(t *testing.T, addr string) *kafka.Client {
	t.Helper()
	c, err := kafka.NewClient(kafka.Config{Brokers: []string{addr}, Guard: kafka.Loopback})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestTopicsAndRecordsSurviveARestartFromTheFolder(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	dir := t.TempDir()
	b, err := embedded.Start(embedded.Options{Dir: dir, Topics: map[string]int32{"in": 3}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.Addr(), "127.0.0.1:") {
		t.Fatalf("listens on %s", b.Addr())
	}
	c := client(t, b.Addr())
	w := c.NewLogWriter("in")
	if _, err := w.Append(ctx, []byte("one")); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	port := b.Port()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}

	b, err = embedded.Start(embedded.Options{Dir: dir, Port: port, Topics: map[string]int32{"in": 3, "out": 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c = client(t, b.Addr())
	tp := ids.TopicPartition{Topic: "in"}
	ends, err := c.Admin().ListOffsets(ctx, kafka.Latest, tp)
	if err != nil || ends[tp] != 1 {
		t.Fatalf("end %v, error %v, want 1", ends, err)
	}
	topics, err := c.Admin().DescribeTopics(ctx, true, "in", "out")
	if err != nil || topics["in"].Partitions != 3 || topics["out"].Configs["retention.ms"] != "-1" {
		t.Fatalf("topics %+v, error %v", topics, err)
	}
	if err := b.CreateTopic("in", 4); err == nil {
		t.Fatal("a topic with another number of partitions was accepted")
	}
}
