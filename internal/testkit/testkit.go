// Package testkit produces to and reads from a broker in tests: records in, and
// what a read_committed (or read_uncommitted) consumer sees out. It refuses any
// address but loopback.
package testkit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/record"
)

// Client is a connection for tests.
type Client struct {
	K *kafka.Client
}

// Dial makes a client of brokers on this machine.
func Dial(brokers ...string) (*Client, error) {
	k, err := kafka.NewClient(kafka.Config{Brokers: brokers, Guard: kafka.Loopback})
	if err != nil {
		return nil, err
	}
	return &Client{K: k}, nil
}

// Close closes everything.
func (c *Client) Close() { _ = c.K.Close() }

// CreateTopics creates topics that keep their records for ever.
func (c *Client) CreateTopics(ctx context.Context, partitions int32, names ...string) error {
	var specs []kafka.TopicSpec
	for _, n := range names {
		specs = append(specs, kafka.TopicSpec{Name: n, Partitions: partitions, Replication: -1, Configs: kafka.InternalConfigs(0)})
	}
	_, err := c.K.Admin().EnsureTopics(ctx, specs...)
	return err
}

// Message is a record to produce or that was read.
type Message struct {
	Partition  int32
	Key, Value []byte
	Headers    record.Headers
	Timestamp  int64
	Offset     int64
}

// Produce writes messages with an idempotent producer, in order per partition,
// and waits for them.
func (c *Client) Produce(ctx context.Context, topic string, messages []Message) error {
	id, epoch, err := c.K.Transactions().InitProducer(ctx)
	if err != nil {
		return err
	}
	w := c.K.NewWriter(kafka.WriterConfig{})
	defer func() { _ = w.Close() }()
	p := w.NewProducer(kafka.ProducerOptions{ID: id, Epoch: epoch})
	open := map[int32]*kafka.Builder{}
	for _, m := range messages {
		b := open[m.Partition]
		if b == nil {
			b = w.NewBatch(ids.TopicPartition{Topic: topic, Partition: m.Partition})
			open[m.Partition] = b
		}
		b.Append(m.Key, m.Value, m.Headers, m.Timestamp)
		if b.Full() {
			p.Enqueue(b, kafka.Token{})
			delete(open, m.Partition)
			if w.Full() {
				<-w.Room()
			}
		}
	}
	for n := range int32(1 << 10) {
		if b := open[n]; b != nil {
			p.Enqueue(b, kafka.Token{})
		}
	}
	return p.Wait(ctx)
}

// Reader collects what a topic holds, in the background.
type Reader struct {
	f  *kafka.Fetcher
	mu sync.Mutex
	// by partition, in order of offset
	got   map[int32][]Message
	each  func(Message)
	n     int
	err   error
	moved chan struct{}
}

// Read begins to read a topic from its start and keeps what it reads.
func (c *Client) Read(topic string, partitions int32, committed bool) (*Reader, error) {
	return c.Follow(topic, partitions, committed, nil)
}

// Follow is Read that gives each message to f instead of keeping it; f is
// called in order of offset per partition.
func (c *Client) Follow(topic string, partitions int32, committed bool, f func(Message)) (*Reader, error) {
	iso := kafka.ReadUncommitted
	if committed {
		iso = kafka.ReadCommitted
	}
	r := &Reader{f: c.K.NewFetcher(kafka.FetcherConfig{}), each: f, got: map[int32][]Message{}, moved: make(chan struct{}, 1)}
	for p := range partitions {
		_, err := r.f.Subscribe(kafka.SubscribeOptions{
			TP: ids.TopicPartition{Topic: topic, Partition: p}, Isolation: iso, Sink: r.take,
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Reader) take(b *kafka.Batch) {
	r.mu.Lock()
	if b.Err != nil && r.err == nil {
		r.err = b.Err
	}
	for _, rec := range b.Records {
		m := Message{Partition: b.TP.Partition, Key: rec.Key, Value: rec.Value, Headers: rec.Headers, Timestamp: rec.Timestamp, Offset: rec.Offset}
		r.n++
		if r.each != nil {
			r.each(m)
			continue
		}
		r.got[b.TP.Partition] = append(r.got[b.TP.Partition], m)
	}
	r.mu.Unlock()
	b.Release()
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

// All returns what was read so far, by partition.
func (r *Reader) All() map[int32][]Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[int32][]Message, len(r.got))
	for p, list := range r.got {
		out[p] = append([]Message(nil), list...)
	}
	return out
}

// Count returns the number of records read so far.
func (r *Reader) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// Await waits until done says so of what was read.
func (r *Reader) Await(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; read %d records", ctx.Err(), r.Count())
		case <-r.moved:
		case <-tick.C:
		}
		r.mu.Lock()
		err := r.err
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Close ends the reading.
func (r *Reader) Close() { _ = r.f.Close() }
