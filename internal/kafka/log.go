package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// LogReaderConfig says which log to read.
type LogReaderConfig struct {
	// Topic is the log: its partition 0.
	Topic string
	// TopicID, when set, is what the topic must be: see FetcherConfig.TopicIDs.
	TopicID [16]byte
	// Offset is the first offset wanted.
	Offset int64
	// MaxWait is how long a broker may hold an answer; new records come at
	// once. Default 500 ms.
	MaxWait time.Duration
	// Sink gets the batches in order, on a goroutine of the reader. It must not
	// block.
	Sink func(LogBatch)
	// OnState is as in FetcherConfig.
	OnState func(broker string, err error)
}

// LogRecord is one record of the log.
type LogRecord struct {
	Offset    int64
	Timestamp int64 // milliseconds since the epoch
	Value     []byte
}

// LogBatch says that the offsets from First to before Next were read. Offsets
// without a record in Records are gaps.
type LogBatch struct {
	Records     []LogRecord
	First, Next int64
	// End is the offset behind the last record, LogStart the first there is.
	End, LogStart int64
	// AskedAt is when the request was sent, AnsweredAt when the answer came.
	AskedAt, AnsweredAt time.Time
	// Err is an *OffsetOutOfRangeError: the log is shorter than what was read
	// before, or trimmed above it; or an *Error. Reading stopped until SeekTo.
	Err error
}

// CaughtUp reports whether everything that was there is read.
func (b LogBatch) CaughtUp() bool { return b.Err == nil && b.Next >= b.End }

// LogReader follows the control log.
type LogReader struct {
	f   *Fetcher
	sub *Subscription
	tp  ids.TopicPartition

	mu  sync.Mutex
	gen uint64
}

// NewLogReader starts to read a log. It has its own connection.
func (c *Client) NewLogReader(cfg LogReaderConfig) (*LogReader, error) {
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = 500 * time.Millisecond
	}
	if cfg.Sink == nil {
		return nil, errors.New("log reader: no sink")
	}
	r := &LogReader{tp: ids.TopicPartition{Topic: cfg.Topic}, gen: 1}
	r.f = c.NewFetcher(FetcherConfig{
		MaxWait: cfg.MaxWait, OnState: cfg.OnState, TopicIDs: map[string][16]byte{cfg.Topic: cfg.TopicID},
	})
	sub, err := r.f.Subscribe(SubscribeOptions{
		TP: r.tp, Isolation: ReadUncommitted, Offset: cfg.Offset,
		Sink: func(b *Batch) { r.deliver(b, cfg.Sink) },
	})
	if err != nil {
		return nil, errors.Join(err, r.f.Close())
	}
	r.sub = sub
	return r, nil
}

func (r *LogReader) deliver(b *Batch, sink func(LogBatch)) {
	r.mu.Lock()
	old := b.Generation != r.gen
	r.mu.Unlock()
	if old {
		b.Release()
		return
	}
	out := LogBatch{
		First: b.FirstOffset, Next: b.NextOffset, End: b.End, LogStart: b.LogStart,
		AskedAt: b.AskedAt, AnsweredAt: b.FetchedAt, Err: b.Err,
	}
	if len(b.Records) > 0 {
		out.Records = make([]LogRecord, len(b.Records))
		for i, rec := range b.Records {
			out.Records[i] = LogRecord{Offset: rec.Offset, Timestamp: rec.Timestamp, Value: rec.Value}
		}
	}
	sink(out)
	b.Release()
}

// Want asks for a LogBatch from the next answer, even if nothing changed.
func (r *LogReader) Want() { r.sub.Want() }

// SeekTo reads on from another offset. A LogBatch that is being delivered may
// still come.
func (r *LogReader) SeekTo(offset int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gen = r.sub.SeekTo(offset)
}

// Close stops reading; no Sink is called after it returned.
func (r *LogReader) Close() error { return r.f.Close() }

// LogWriter appends records to a log, one at a time. It has its own connection.
type LogWriter struct {
	c    *Client
	pool *pool
	tp   ids.TopicPartition
}

// NewLogWriter makes a writer for partition 0 of a topic.
func (c *Client) NewLogWriter(topic string) *LogWriter {
	w := &LogWriter{c: c, pool: c.newPool(0), tp: ids.TopicPartition{Topic: topic}}
	c.own(w)
	return w
}

// Close cuts the connection; an Append under way is in doubt.
func (w *LogWriter) Close() error {
	w.pool.close()
	w.c.disown(w)
	return nil
}

// Append writes one record, acknowledged by all replicas, and returns its
// offset. What certainly was not written is tried again until ctx ends. With
// InDoubt(err) it may have been written: the caller repeats it under the same
// number, and readers drop the second.
func (w *LogWriter) Append(ctx context.Context, value []byte) (offset int64, err error) {
	again := func(err error) bool { return retriable(err) && !InDoubt(err) }
	err = retry(ctx, again, func() error {
		l, err := w.c.meta.findLeader(ctx, w.tp)
		if err != nil {
			return notSent(err)
		}
		offset, err = w.produce(ctx, l.node, value)
		if err != nil && needsLeader(err) {
			w.c.meta.forget(w.tp)
		}
		return err
	})
	if err != nil {
		return -1, newError("append to log", w.tp, err)
	}
	return offset, nil
}

func (w *LogWriter) produce(ctx context.Context, n node, value []byte) (int64, error) {
	now := time.UnixMilli(time.Now().UnixMilli())
	req := &sarama.ProduceRequest{Version: 10, RequiredAcks: sarama.WaitForAll, Timeout: int32(adminTimeout / time.Millisecond)}
	req.AddBatch(w.tp.Topic, w.tp.Partition, &sarama.RecordBatch{
		Version: 2, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		Records: []*sarama.Record{{Value: value}},
	})
	res, err := request(ctx, w.pool, n, func(b *sarama.Broker) (*sarama.ProduceResponse, error) { return b.Produce(req) })
	if err != nil {
		return -1, err
	}
	block := res.GetBlock(w.tp.Topic, w.tp.Partition)
	if block == nil {
		return -1, &transportError{node: n, err: sarama.ErrIncompleteResponse}
	}
	if block.Err != sarama.ErrNoError {
		return -1, fmt.Errorf("%w", withMessage(block.Err, deref(block.ErrorMessage)))
	}
	return block.Offset, nil
}
