package operators

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// InvalidTimestamp says what becomes of a record whose event time is invalid.
type InvalidTimestamp uint8

const (
	// InvalidFails hands the record to the failure handler. The default.
	InvalidFails InvalidTimestamp = iota
	// InvalidSkipped drops the record and counts it.
	InvalidSkipped
	// InvalidTakesPartitionTime gives the record the highest event time of its
	// partition before it; a record without one before it fails.
	InvalidTakesPartitionTime
)

// String returns a word for descriptions.
func (p InvalidTimestamp) String() string {
	switch p {
	case InvalidFails:
		return "fail"
	case InvalidSkipped:
		return "skip"
	case InvalidTakesPartitionTime:
		return "partition time"
	}
	return fmt.Sprintf("InvalidTimestamp(%d)", uint8(p))
}

// maxTimestamp is the last millisecond that an output can write.
const maxTimestamp = (1<<63 - 1) / 1_000_000

// TimestampFactory makes a source's way to find event times; topology.Timestamps
// carries it.
type TimestampFactory func() timestamps

// timestamps finds the event time of records. find is nil where the record's
// own timestamp counts; wall says that the wall clock does.
type timestamps struct {
	find    func(c *Context, r *record.Raw) (ts int64, readable bool, err error)
	wall    bool
	invalid InvalidTimestamp
}

// RecordTimestamps takes the records' own timestamps.
func RecordTimestamps(invalid InvalidTimestamp) TimestampFactory {
	return func() timestamps { return timestamps{invalid: invalid} }
}

// WallClockTimestamps takes the time at which a record is queued.
func WallClockTimestamps() TimestampFactory {
	return func() timestamps { return timestamps{wall: true} }
}

// UserTimestamps asks f. A record that cannot be decoded gets no time of its
// own: it is reported when its turn comes.
func UserTimestamps[K, V any](
	ks serde.Serde[K], vs serde.Serde[V], f func(*record.RecordContext, K, record.Opt[V]) (int64, error), invalid InvalidTimestamp,
) TimestampFactory {
	keyNull, valueNull := nullsOf(ks), nullsOf(vs)
	find := func(c *Context, r *record.Raw) (int64, bool, error) {
		var k K
		var v record.Opt[V]
		var err error
		if r.Key == nil {
			k, _ = keyNull.null(0)
		} else if k, err = ks.Decode(r.Key); err != nil {
			return 0, false, nil //nolint:nilerr // the source reports what it cannot read, once
		}
		if r.Value != nil {
			d, err := vs.Decode(r.Value)
			if err != nil {
				return 0, false, nil //nolint:nilerr // as above
			}
			v = record.Some(d)
		} else if valueNull.s != nil {
			v = record.Some(valueNull.s.Null())
		}
		c.Offset, c.Timestamp, c.Headers = r.Offset, r.Timestamp, r.Headers
		ts, err := f(&c.RecordContext, k, v)
		return ts, true, err
	}
	return func() timestamps { return timestamps{find: find, invalid: invalid} }
}

// Stamper gives the records of an input topic their event time (Kafka Streams'
// TimestampExtractor). The task applies it once, when a batch is queued: what
// it finds rules the choice of input, stream time and all that is downstream.
type Stamper struct {
	timestamps
	c Context
}

// Stamper returns the stamper of an external input topic.
func (g *Graph) Stamper(ctx context.Context, topic string, partition int32) *Stamper {
	src := g.stamps[topic]
	s := &Stamper{}
	if src.make != nil {
		s.timestamps = src.make()
	}
	s.c = Context{g: g, node: src.node, StreamTime: -1}
	s.c.Ctx, s.c.Topic, s.c.Partition = ctx, topic, partition
	return s
}

// Stamp sets the timestamps of records, in order. It returns how many were set:
// less than all when the next one is dropped (no fault) or has failed. known is
// the partition time, -1 without one, and is kept up to date.
func (s *Stamper) Stamp(records []record.Raw, wall int64, known *int64) (n int, fault *RecordError) {
	highest := *known
	defer func() { *known = highest }()
	for i := range records {
		r := &records[i]
		ts := r.Timestamp
		switch {
		case s.wall:
			ts = wall
		case s.find != nil:
			var readable bool
			if ts, readable, fault = s.ask(r); !readable {
				// Its source will say what is wrong with it.
				r.Timestamp = max(highest, 0)
				continue
			}
		}
		if fault == nil && (ts < 0 || ts > maxTimestamp) {
			if s.invalid != InvalidSkipped { // skipping must not allocate
				fault = s.fault(r, fmt.Errorf("timestamp %d is outside what Kafka can store (0 to %d milliseconds)", ts, int64(maxTimestamp)))
			}
			ts = -1
		}
		if ts < 0 || fault != nil {
			if s.invalid == InvalidTakesPartitionTime && highest >= 0 {
				ts, fault = highest, nil
			} else {
				r.Timestamp = max(highest, 0)
				if s.invalid == InvalidSkipped {
					s.c.g.env.Metrics().TimestampDropped.Add(1)
					return i, nil
				}
				return i, fault
			}
		}
		r.Timestamp, highest = ts, max(highest, ts)
	}
	return len(records), nil
}

// ask calls the user's function.
func (s *Stamper) ask(r *record.Raw) (ts int64, readable bool, fault *RecordError) {
	defer func() {
		if p := recover(); p != nil {
			err, ok := p.(error)
			if !ok {
				err = fmt.Errorf("%v", p)
			}
			readable, fault = true, s.fault(r, fmt.Errorf("the function panicked: %w", err))
			fault.At, fault.Stack = panickedAt(), debug.Stack()
		}
	}()
	ts, readable, err := s.find(&s.c, r)
	if err != nil {
		fault = s.fault(r, err)
	}
	return ts, readable, fault
}

func (s *Stamper) fault(r *record.Raw, err error) *RecordError {
	s.c.Offset = r.Offset
	return s.c.recordError(KindTimestamp, err)
}

// stamps is how a source's records get their time.
type stamps struct {
	node int32
	make TimestampFactory
}
