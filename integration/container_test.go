package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/integration/servers"
)

// TestContainerKeepsPortAndRecords goes through Docker whenever an engine runs: what was
// written before a stop is read back, on the same port, after the start.
func TestContainerKeepsPortAndRecords(t *testing.T) {
	k := servers.RequireOwnKafka(t, servers.KafkaOptions{From: servers.Docker})
	stopAndStart(t, k, k.Stop)
}

// TestBrokerKeepsRecordsOverKill is the same with kill -9, on whatever broker there is.
func TestBrokerKeepsRecordsOverKill(t *testing.T) {
	k := servers.RequireOwnKafka(t, servers.KafkaOptions{})
	stopAndStart(t, k, k.Kill)
}

func stopAndStart(t *testing.T, k *servers.KafkaServer, end func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	before := k.Brokers()[0]
	if err := k.CreateTopic(ctx, "kept", 1, nil); err != nil {
		t.Fatal(err)
	}
	produce(t, k, "kept", "a", "b")
	if err := end(ctx); err != nil {
		t.Fatal(err)
	}
	if client, err := sarama.NewClient(k.Brokers(), quickConfig()); err == nil {
		client.Close()
		t.Fatal("the broker still answers after it was stopped")
	}
	if err := k.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if after := k.Brokers()[0]; after != before {
		t.Fatalf("address %s before, %s after", before, after)
	}
	produce(t, k, "kept", "c")
	got := consume(t, k, "kept", 3)
	if fmt.Sprint(got) != "[a b c]" {
		t.Fatalf("read %v, want [a b c]", got)
	}
}

// TestPausedBrokerAnswersAgain: a client's request spans the pause.
func TestPausedBrokerAnswersAgain(t *testing.T) {
	k := servers.RequireOwnKafka(t, servers.KafkaOptions{})
	if err := k.CreateTopic(t.Context(), "paused", 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := k.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if client, err := sarama.NewClient(k.Brokers(), quickConfig()); err == nil {
		client.Close()
		t.Fatal("a paused broker answered")
	}
	if err := k.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	produce(t, k, "paused", "a")
	if got := consume(t, k, "paused", 1); got[0] != "a" {
		t.Fatalf("read %v", got)
	}
}

// TestTransactionTimeoutLimit: a setting given to the broker is in force. The limit is
// what R22 reads at start.
func TestTransactionTimeoutLimit(t *testing.T) {
	k := servers.RequireOwnKafka(t, servers.KafkaOptions{
		Config: map[string]string{"transaction.max.timeout.ms": "60000"},
	})
	begin := func(timeout time.Duration) error {
		config := servers.SaramaConfig()
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Net.MaxOpenRequests = 1
		config.Producer.Transaction.ID = "limit"
		config.Producer.Transaction.Timeout = timeout
		p, err := sarama.NewSyncProducer(k.Brokers(), config)
		if err == nil {
			err = p.Close()
		}
		return err
	}
	if err := begin(time.Minute); err != nil {
		t.Fatalf("a timeout at the limit: %v", err)
	}
	if err := begin(2 * time.Minute); !errors.Is(err, sarama.ErrInvalidTransactionTimeout) {
		t.Fatalf("a timeout above the limit: %v", err)
	}
}

// quickConfig gives up at once.
func quickConfig() *sarama.Config {
	config := servers.SaramaConfig()
	config.Metadata.Retry.Max = 0
	config.Net.DialTimeout = time.Second
	config.Net.ReadTimeout = time.Second
	return config
}

func produce(t *testing.T, k *servers.KafkaServer, topic string, values ...string) {
	t.Helper()
	config := servers.SaramaConfig()
	config.Producer.RequiredAcks = sarama.WaitForAll
	p, err := sarama.NewSyncProducer(k.Brokers(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, v := range values {
		if _, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(v)}); err != nil {
			t.Fatal(err)
		}
	}
}

func consume(t *testing.T, k *servers.KafkaServer, topic string, n int) []string {
	t.Helper()
	c, err := sarama.NewConsumer(k.Brokers(), servers.SaramaConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	deadline := time.After(30 * time.Second)
	var got []string
	for len(got) < n {
		select {
		case m := <-p.Messages():
			got = append(got, string(m.Value))
		case <-deadline:
			t.Fatalf("read %v, then nothing for 30 s", got)
		}
	}
	return got
}
