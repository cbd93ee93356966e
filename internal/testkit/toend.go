package testkit

import (
	"context"
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
)

// ReadToEnd reads a topic from its start to where it ends now: for a
// read_committed reader, to the last stable offset. It returns the records by
// partition in order.
func (c *Client) ReadToEnd(ctx context.Context, topic string, partitions int32, committed bool) (map[int32][]Message, error) {
	at, iso := kafka.Latest, kafka.ReadUncommitted
	if committed {
		at, iso = kafka.LastStable, kafka.ReadCommitted
	}
	var tps []ids.TopicPartition
	for p := range partitions {
		tps = append(tps, ids.TopicPartition{Topic: topic, Partition: p})
	}
	ends, err := c.K.Admin().ListOffsets(ctx, at, tps...)
	if err != nil {
		return nil, err
	}
	f := c.K.NewFetcher(kafka.FetcherConfig{})
	defer func() { _ = f.Close() }()
	batches := make(chan *kafka.Batch)
	done := make(chan struct{})
	defer close(done)
	for _, tp := range tps {
		if _, err := f.Subscribe(kafka.SubscribeOptions{TP: tp, Isolation: iso, Sink: func(b *kafka.Batch) {
			select {
			case batches <- b:
			case <-done:
				b.Release()
			}
		}}); err != nil {
			return nil, err
		}
	}
	out, open := map[int32][]Message{}, 0
	for _, tp := range tps {
		if ends[tp] > 0 {
			open++
		}
	}
	for open > 0 {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("read %s to its end: %w", topic, ctx.Err())
		case b := <-batches:
			if b.Err != nil {
				return nil, b.Err
			}
			for _, r := range b.Records {
				if r.Offset < ends[b.TP] {
					out[b.TP.Partition] = append(out[b.TP.Partition], Message{
						Partition: b.TP.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp, Offset: r.Offset,
					})
				}
			}
			if b.FirstOffset < ends[b.TP] && b.NextOffset >= ends[b.TP] {
				open--
			}
			b.Release()
		}
	}
	return out, nil
}
