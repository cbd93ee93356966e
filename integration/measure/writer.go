package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	writerBytes   = 900_000 // of one batch, below the default max.message.bytes
	writerRecords = 8_000
	writerOpen    = 8 // requests without an answer
)

// Writer writes records with given timestamps to one topic, each to the
// partition that Kafka's default partitioner would take. It belongs to one
// goroutine. Not idempotent: it is for servers that do not fail.
type Writer struct {
	topic string
	parts []*openBatch
	slots chan struct{}
	wait  sync.WaitGroup

	mu  sync.Mutex
	err error
}

type openBatch struct {
	broker  *sarama.Broker
	first   int64 // timestamp
	last    int64
	records []sarama.Record
	bytes   int
}

// NewWriter opens connections of its own.
func NewWriter(client sarama.Client, topic string) (*Writer, error) {
	partitions, err := client.Partitions(topic)
	if err != nil {
		return nil, fmt.Errorf("partitions of %s: %w", topic, err)
	}
	w := &Writer{topic: topic, parts: make([]*openBatch, len(partitions)), slots: make(chan struct{}, writerOpen)}
	brokers := map[string]*sarama.Broker{}
	for _, p := range partitions {
		leader, err := client.Leader(topic, p)
		if err != nil {
			return nil, fmt.Errorf("leader of %s-%d: %w", topic, p, err)
		}
		b := brokers[leader.Addr()]
		if b == nil {
			b = sarama.NewBroker(leader.Addr())
			if err := b.Open(client.Config()); err != nil {
				return nil, fmt.Errorf("open %s: %w", leader.Addr(), err)
			}
			brokers[leader.Addr()] = b
		}
		w.parts[p] = &openBatch{broker: b}
	}
	return w, nil
}

// Add appends a record; it keeps key and value. timestamp is in milliseconds.
func (w *Writer) Add(timestamp int64, key, value []byte) error {
	p := int32(Murmur2(key)&0x7fffffff) % int32(len(w.parts))
	o := w.parts[p]
	if len(o.records) == writerRecords || o.bytes+len(key)+len(value) > writerBytes {
		if err := w.send(p); err != nil {
			return err
		}
	}
	if len(o.records) == 0 {
		o.first, o.last = timestamp, timestamp
	}
	o.last = max(o.last, timestamp)
	o.bytes += len(key) + len(value) + 20
	o.records = append(o.records, sarama.Record{
		Key: key, Value: value, OffsetDelta: int64(len(o.records)),
		TimestampDelta: time.Duration(timestamp-o.first) * time.Millisecond,
	})
	return nil
}

// Flush sends what is open.
func (w *Writer) Flush() error {
	for p := range w.parts {
		if err := w.send(int32(p)); err != nil {
			return err
		}
	}
	return nil
}

// Close sends what is open and waits for all answers.
func (w *Writer) Close(ctx context.Context) error {
	err := w.Flush()
	done := make(chan struct{})
	go func() { w.wait.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.Join(err, context.Cause(ctx))
	}
	seen := map[*sarama.Broker]bool{}
	for _, o := range w.parts {
		if !seen[o.broker] {
			seen[o.broker] = true
			err = errors.Join(err, o.broker.Close())
		}
	}
	return errors.Join(err, w.failure())
}

func (w *Writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *Writer) send(p int32) error {
	o := w.parts[p]
	if err := w.failure(); err != nil || len(o.records) == 0 {
		return err
	}
	batch := &sarama.RecordBatch{
		Version: 2, LastOffsetDelta: int32(len(o.records) - 1),
		FirstTimestamp: time.UnixMilli(o.first), MaxTimestamp: time.UnixMilli(o.last),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, PartitionLeaderEpoch: -1,
		Records: make([]*sarama.Record, len(o.records)),
	}
	for i := range o.records {
		batch.Records[i] = &o.records[i]
	}
	o.records, o.bytes = nil, 0
	req := &sarama.ProduceRequest{Version: 7, RequiredAcks: sarama.WaitForAll, Timeout: 30_000}
	req.AddBatch(w.topic, p, batch)
	w.slots <- struct{}{}
	w.wait.Add(1)
	err := o.broker.AsyncProduce(req, func(resp *sarama.ProduceResponse, err error) {
		defer func() { <-w.slots; w.wait.Done() }()
		if err == nil && resp.Blocks[w.topic][p].Err != sarama.ErrNoError {
			err = resp.Blocks[w.topic][p].Err
		}
		if err != nil {
			w.fail(fmt.Errorf("write %s-%d: %w", w.topic, p, err))
		}
	})
	if err != nil {
		<-w.slots
		w.wait.Done()
		return fmt.Errorf("write %s-%d: %w", w.topic, p, err)
	}
	return nil
}
