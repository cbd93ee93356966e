package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
)

// controlShell reads and writes the control log.
type controlShell struct {
	i      *instance
	reader *kafka.LogReader
	writer *kafka.LogWriter
	queue  chan barrier.Record
	once   sync.Once
}

// openControl finds the log's ends and begins to read. A cluster that does not
// answer is waited for, until ctx ends: this may be an instance that begins anew
// in the middle of an outage.
func openControl(ctx context.Context, i *instance) (*controlShell, error) {
	tp := ids.TopicPartition{Topic: i.controlTopic, Partition: 0}
	var first, last map[ids.TopicPartition]int64
	for {
		err := i.attempt(ctx, func(ctx context.Context) (err error) {
			if first, err = i.admin.ListOffsets(ctx, kafka.Earliest, tp); err == nil {
				last, err = i.admin.ListOffsets(ctx, kafka.Latest, tp)
			}
			return err
		})
		if err == nil {
			break
		}
		if ctx.Err() != nil || permanent(err) {
			return nil, fmt.Errorf("find the ends of the control log: %w", err)
		}
		if err := i.controlThere(ctx); err != nil {
			return nil, err
		}
		i.log.Warn("the control log cannot be reached; retrying", "error", err)
	}
	var err error
	c := &controlShell{i: i, writer: i.client.NewLogWriter(i.controlTopic), queue: make(chan barrier.Record, 64)}
	i.post(barrier.EvLogOpened{Start: first[tp], End: last[tp]})
	c.reader, err = i.client.NewLogReader(kafka.LogReaderConfig{
		Topic: i.controlTopic, TopicID: i.topicIDs[i.controlTopic], Offset: first[tp], Sink: c.read, MaxWait: min(500*time.Millisecond, i.cfg.SessionTimeout/4),
	})
	if err != nil {
		return nil, fmt.Errorf("read the control log: %w", err)
	}
	i.background(c.write)
	return c, nil
}

// unknownTopic is Kafka's code for a topic that is not there.
const unknownTopic = 3

// controlThere returns an error when brokers that answer do not have the control
// log that was there when the process began.
func (i *instance) controlThere(ctx context.Context) error {
	for begun := time.Now(); ; {
		var t kafka.Topic
		err := i.attempt(ctx, func(ctx context.Context) error {
			found, err := i.admin.DescribeTopics(ctx, false, i.controlTopic)
			t = found[i.controlTopic]
			return err
		})
		switch want := i.topicIDs[i.controlTopic]; {
		case err != nil:
			return nil //nolint:nilerr // nobody answers: that is another trouble
		case t.Exists && t.ID != want && t.ID != [16]byte{}:
			return i.controlLost(&kafka.TopicRemadeError{Topic: i.controlTopic, Had: want, Has: t.ID})
		case t.Exists:
			return nil
		case time.Since(begun) > goneFor:
			return i.controlLost(fmt.Errorf("topic %s does not exist any more", i.controlTopic))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// goneFor is how long brokers must say that a topic is not there: one that
// started a moment ago may not know it yet.
const goneFor = 10 * time.Second

// attempt bounds one try.
func (i *instance) attempt(ctx context.Context, op func(context.Context) error) error {
	try, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return op(try)
}

// read hands records to the machine, on the reader's goroutine.
func (c *controlShell) read(b kafka.LogBatch) {
	if b.Err != nil {
		var out *kafka.OffsetOutOfRangeError
		if errors.As(b.Err, &out) {
			if out.Offset < out.LogStart {
				c.i.post(barrier.EvLogTrimmed{Start: out.LogStart})
				return
			}
			c.i.post(barrier.EvLogLost{Detail: out.Error()})
			return
		}
		var remade *kafka.TopicRemadeError
		err := fmt.Errorf("read the control log: %w", b.Err)
		if code, _ := kafka.Code(b.Err); code == unknownTopic || errors.As(err, &remade) {
			err = c.i.controlLost(err)
		}
		c.i.loop.post(func() { c.i.end(err) })
		return
	}
	type read struct {
		offset int64
		record barrier.Record
		size   int
	}
	records := make([]read, 0, len(b.Records))
	for _, r := range b.Records {
		rec, err := barrier.DecodeRecord(r.Value)
		if err != nil {
			c.i.loop.post(func() {
				c.i.end(fmt.Errorf("control log %s, offset %d: %w; only tidegate of this or an earlier version may write it", c.i.controlTopic, r.Offset, err))
			})
			return
		}
		records = append(records, read{r.Offset, rec, len(r.Value)})
	}
	c.i.loop.post(func() {
		for _, r := range records {
			c.i.step(barrier.EvRecord{Offset: r.offset, Record: r.record, Size: r.size})
		}
		c.i.step(barrier.EvLogRead{End: b.Next})
	})
}

// tick asks for a sign of life of the log: an answer counts as read even when
// nothing new is there. Without it a quiet log would pass for one that cannot
// be read (R26).
func (c *controlShell) tick() { c.reader.Want() }

// append queues a record; the machine has one of its own in flight.
func (c *controlShell) append(r barrier.Record) {
	select {
	case c.queue <- r:
	default:
		c.i.post(barrier.EvAppendFailed{Seq: r.Seq})
	}
}

func (c *controlShell) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-c.queue:
			value, err := barrier.AppendRecord(nil, r)
			if err != nil {
				c.i.loop.post(func() { c.i.end(fmt.Errorf("encode a control record: %w", err)) })
				return
			}
			try, cancel := context.WithTimeout(ctx, 10*time.Second)
			_, err = c.writer.Append(try, value)
			cancel()
			if err == nil {
				continue
			}
			if ctx.Err() != nil {
				return // the instance ended; nobody waits for the record
			}
			if kafka.Classify(err) == kafka.ClassAuthorization || kafka.Classify(err) == kafka.ClassInvalid {
				c.i.loop.post(func() { c.i.end(fmt.Errorf("write the control log: %w", err)) })
				return
			}
			c.i.log.Warn("writing the control log failed; it is repeated", "record", r.Body.Kind(), "error", err)
			c.i.post(barrier.EvAppendFailed{Seq: r.Seq})
		}
	}
}

func (c *controlShell) close() {
	c.once.Do(func() {
		if c.reader != nil {
			_ = c.reader.Close()
		}
		_ = c.writer.Close()
	})
}

// logEnd asks for the end of the control log as of now: what was seen outside
// the log is judged only once the log was read to it.
func (i *instance) logEnd(ctx context.Context) (int64, error) {
	tp := ids.TopicPartition{Topic: i.controlTopic}
	ends, err := i.admin.ListOffsets(ctx, kafka.Latest, tp)
	return ends[tp], err
}
