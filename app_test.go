package tidegate_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

// counting is the count workload: re-key, count, every update written.
func counting(t *testing.T, in, out string) *tidegate.Topology {
	t.Helper()
	b := tidegate.NewBuilder()
	b.Stream(in, serde.String(), serde.String()).
		GroupBy("by-word", func(_, v string) string { return v }, serde.String()).
		Count("counts").
		ToStream().
		To(out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

type cluster struct {
	t      *testing.T
	broker *embedded.Broker
	client *testkit.Client
	dir    string
}

func newCluster(t *testing.T, topics map[string]int32) *cluster {
	t.Helper()
	b, err := embedded.Start(embedded.Options{Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	c, err := testkit.Dial(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &cluster{t, b, c, t.TempDir()}
}

func testLogger() *slog.Logger {
	level := slog.LevelError + 4
	if os.Getenv("TIDEGATE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// app makes an instance of application "app" with short timeouts.
func (c *cluster) app(topo *tidegate.Topology, name string, opts ...tidegate.Option) *tidegate.App {
	c.t.Helper()
	app, err := tidegate.New(topo, append([]tidegate.Option{
		tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()),
		tidegate.WithCheckpointDir(filepath.Join(c.dir, "checkpoints")),
		tidegate.WithStateDir(filepath.Join(c.dir, name)), tidegate.WithInstanceName(name),
		tidegate.WithCheckpointInterval(200 * time.Millisecond), tidegate.WithCheckpointTimeout(10 * time.Second),
		tidegate.WithSessionTimeout(2 * time.Second), tidegate.WithLogger(testLogger().With("app", name)),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return app
}

func words(n, distinct, partitions int) []testkit.Message {
	var out []testkit.Message
	for i := range n {
		out = append(out, testkit.Message{
			Partition: int32(i % partitions), Value: fmt.Appendf(nil, "w%d", i*7919%distinct), Timestamp: int64(i),
		})
	}
	return out
}

// checkRunning checks that per key the counts are 1, 2, … each once, in order.
func checkRunning(t *testing.T, got map[int32][]testkit.Message) (records int) {
	t.Helper()
	last := map[string]uint64{}
	for _, list := range got {
		for _, m := range list {
			n := binary.BigEndian.Uint64(m.Value)
			if want := last[string(m.Key)] + 1; n != want {
				t.Fatalf("key %s at offset %d: count %d, want %d", m.Key, m.Offset, n, want)
			}
			last[string(m.Key)] = n
			records++
		}
	}
	return records
}

func TestCountEndToEnd(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 4, "out": 4})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	const n = 20000
	if err := c.client.Produce(ctx, "in", words(n, 100, 4)); err != nil {
		t.Fatal(err)
	}
	app := c.app(counting(t, "in", "out"), "a")
	runCtx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- app.Run(runCtx) }()
	out, err := c.client.Read("out", 4, true)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	failed := false
	err = out.Await(ctx, func() bool {
		select {
		case err := <-done:
			failed = true
			t.Errorf("run ended: %v", err)
			return true
		default:
		}
		return out.Count() >= n
	})
	if err != nil || failed {
		t.Fatal(err)
	}
	if got := checkRunning(t, out.All()); got != n {
		t.Fatalf("read %d records, want %d", got, n)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s := app.State(); s != tidegate.Stopped {
		t.Fatalf("state %v", s)
	}
}
