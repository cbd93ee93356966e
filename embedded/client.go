package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/testkit"
)

// Record is a record that Produce writes or Consume reads.
type Record struct {
	// Key and Value are nil for Kafka's null.
	Key, Value []byte
	// Timestamp has milliseconds; Produce takes the present time where it is
	// zero.
	Timestamp time.Time
	// Partition and Offset say where Consume found it; Produce ignores them.
	Partition int32
	Offset    int64
}

// Produce writes records to a topic and returns when they are acknowledged. A
// key decides the partition as in Kafka's own producers; records without a key
// take turns. (Kafka Streams' counterpart is TestInputTopic.)
func (b *Broker) Produce(ctx context.Context, topic string, records ...Record) error {
	n, err := b.partitions(topic)
	if err != nil {
		return err
	}
	c, err := testkit.Dial(b.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	list := make([]testkit.Message, len(records))
	for i, r := range records {
		m := testkit.Message{Partition: int32(i) % n, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp.UnixMilli()}
		if r.Key != nil {
			m.Partition = ids.Partition(r.Key, n)
		}
		if r.Timestamp.IsZero() {
			m.Timestamp = time.Now().UnixMilli()
		}
		list[i] = m
	}
	if err := c.Produce(ctx, topic, list); err != nil {
		return fmt.Errorf("produce to %s: %w", topic, err)
	}
	return nil
}

// Consume calls f with every record of a topic from its start, as a
// read_committed consumer sees them, until ctx ends; it then returns nil. The
// order is that of the offsets within a partition. f must not keep the bytes.
// (Kafka Streams' counterpart is TestOutputTopic.)
func (b *Broker) Consume(ctx context.Context, topic string, f func(Record)) error {
	n, err := b.partitions(topic)
	if err != nil {
		return err
	}
	c, err := testkit.Dial(b.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Follow(topic, n, true, func(m testkit.Message) {
		f(Record{Key: m.Key, Value: m.Value, Timestamp: time.UnixMilli(m.Timestamp), Partition: m.Partition, Offset: m.Offset})
	})
	if err != nil {
		return fmt.Errorf("consume %s: %w", topic, err)
	}
	defer r.Close()
	if err := r.Await(ctx, func() bool { return false }); ctx.Err() == nil {
		return fmt.Errorf("consume %s: %w", topic, err)
	}
	return nil
}

func (b *Broker) partitions(topic string) (int32, error) {
	if b.cluster.TopicInfo(topic) == nil {
		return 0, fmt.Errorf("topic %s does not exist: name it in Options.Topics or call CreateTopic", topic)
	}
	return int32(len(b.cluster.PartitionInfos(topic))), nil
}
