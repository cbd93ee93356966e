package tasks

import (
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
)

// InputSpec is one partition that a task reads.
type InputSpec struct {
	TP ids.TopicPartition
	// Internal: a repartition partition, read uncommitted, with channels.
	Internal bool
	// Forward and Cycle are the upstream tasks that write an internal one.
	Forward, Cycle barrier.TaskSet
	// IdleTimeout is the input's own one, 0 for the task's.
	IdleTimeout time.Duration
}

// item is what lies in an input's queue: a run of data records, or one entry of
// a barrier or time record, or only the end of a batch (seg empty).
type item struct {
	seg   barrier.Segment
	batch *kafka.Batch // released after its last item; nil for held items
	last  bool         // the last item of batch
	// fault: the only record of the item has no valid event time; it goes to the
	// failure handler when its turn comes.
	fault *operators.RecordError
}

// input is one partition of a task with its queue. It belongs to the worker.
type input struct {
	spec  InputSpec
	index int // in Aligner and Times: internal inputs and all inputs, by order
	align int // index among the internal inputs, -1 for external
	src   operators.SourceFunc
	sub   Subscription
	gen   uint64
	// stamper gives the records of an external input their event times when they
	// are queued, so that everything that compares times sees these. partTime is
	// the highest of them, -1 before the first: as records are queued in order
	// and the snapshot holds the highest one taken, a replay finds the same.
	stamper  *operators.Stamper
	partTime int64

	queue []item
	head  int
	held  []item // waiting behind a barrier, in order
	// next is the offset behind the last processed record or skipped marker.
	next int64

	// end of the partition as of the last answer, and when that was asked for.
	end      int64
	endAsked time.Time
	firstEnd int64     // as of the first answer
	fetched  int64     // position behind what was delivered
	since    time.Time // since when the queue is empty; zero while it is not
	stopped  bool      // an Offer said Stop: wait for the log
}

func (in *input) empty() bool { return in.head >= len(in.queue) }

func (in *input) peek() *item { return &in.queue[in.head] }

// pop removes the head and releases its batch when it was the last of it.
func (in *input) pop() {
	it := &in.queue[in.head]
	if it.last && it.batch != nil {
		it.batch.Release()
	}
	*it = item{}
	in.head++
	if in.head == len(in.queue) {
		in.queue, in.head = in.queue[:0], 0
	} else if in.head > 1024 && in.head*2 > len(in.queue) {
		n := copy(in.queue, in.queue[in.head:])
		clear(in.queue[n:])
		in.queue, in.head = in.queue[:n], 0
	}
}

// clear forgets what is queued.
func (in *input) clear() {
	for !in.empty() {
		in.pop()
	}
	in.queue, in.head = in.queue[:0], 0
}

// unhold puts the held items before the queue.
func (in *input) unhold() {
	if len(in.held) == 0 {
		return
	}
	rest := in.queue[in.head:]
	queue := make([]item, 0, len(in.held)+len(rest))
	queue = append(append(queue, in.held...), rest...)
	in.queue, in.head, in.held = queue, 0, nil
}

// add takes a delivered batch apart; wall is the wall clock in milliseconds.
// Stale generations are dropped.
func (in *input) add(b *kafka.Batch, reader *barrier.SegmentReader, wall int64) error {
	if b.Generation != in.gen {
		b.Release()
		return nil
	}
	if in.endAsked.IsZero() {
		in.firstEnd = b.End
	}
	in.end, in.endAsked, in.fetched = b.End, b.AskedAt, b.NextOffset
	if len(b.Records) == 0 {
		// Markers and aborted records only move the position.
		if in.empty() {
			in.next = max(in.next, b.NextOffset)
		} else {
			in.queue = append(in.queue, item{seg: barrier.Segment{First: b.NextOffset, Last: b.NextOffset - 1}})
		}
		b.Release()
		return nil
	}
	if !in.spec.Internal {
		in.addExternal(b, wall)
		return nil
	}
	return in.addSegments(b, reader)
}

// addExternal queues a batch of an external topic with its event times: one
// item, unless a record has no valid time. The last item ends before the next
// batch, so that markers in between count as read.
func (in *input) addExternal(b *kafka.Batch, wall int64) {
	for rest := b.Records; ; {
		n, fault := len(rest), (*operators.RecordError)(nil)
		if in.stamper != nil {
			n, fault = in.stamper.Stamp(rest, wall, &in.partTime)
		}
		if n == len(rest) {
			in.queue = append(in.queue, item{seg: run(rest, b.NextOffset-1), batch: b, last: true})
			return
		}
		if n > 0 {
			in.queue = append(in.queue, item{seg: run(rest[:n], rest[n].Offset-1), batch: b})
		}
		if fault != nil {
			in.queue = append(in.queue, item{seg: run(rest[n:n+1], rest[n].Offset), batch: b, fault: fault})
		}
		rest = rest[n+1:]
	}
}

// run is a segment of an external topic; without records it only moves the
// position.
func run(records []record.Raw, last int64) barrier.Segment {
	if len(records) == 0 {
		return barrier.Segment{First: last + 1, Last: last}
	}
	return barrier.Segment{Kind: barrier.HeaderData, Records: records, First: records[0].Offset, Last: last}
}

func (in *input) addSegments(b *kafka.Batch, reader *barrier.SegmentReader) error {
	first := len(b.Records)
	if len(b.BatchStarts) > 0 {
		first = int(b.BatchStarts[0])
	}
	if first > 0 {
		// The position lies within a record batch: its records before the
		// position say whose the others are; the aligner skips them.
		whole := append(append([]record.Raw(nil), b.Skipped...), b.Records[:first]...)
		if err := in.cut(b, whole, reader); err != nil {
			return err
		}
	}
	for i, from := range b.BatchStarts {
		to := len(b.Records)
		if i+1 < len(b.BatchStarts) {
			to = int(b.BatchStarts[i+1])
		}
		if err := in.cut(b, b.Records[from:to], reader); err != nil {
			return err
		}
	}
	if in.empty() || in.queue[len(in.queue)-1].batch != b {
		in.queue = append(in.queue, item{seg: barrier.Segment{First: b.NextOffset, Last: b.NextOffset - 1}, batch: b})
	}
	in.queue[len(in.queue)-1].last = true
	return nil
}

// cut queues the segments of one record batch.
func (in *input) cut(b *kafka.Batch, records []record.Raw, reader *barrier.SegmentReader) error {
	reader.Reset(records)
	for {
		seg, ok, err := reader.Next()
		if err != nil || !ok {
			return err
		}
		if !barrierOrTime(seg) {
			if seg, ok = seg.Tail(b.FirstOffset - 1); !ok {
				continue // read before
			}
		}
		in.queue = append(in.queue, item{seg: seg, batch: b})
	}
}

func barrierOrTime(s barrier.Segment) bool { return s.Kind != barrier.HeaderData }

// data reports whether the item holds data records.
func (it *item) data() bool { return len(it.seg.Records) > 0 }

// time returns the timestamp of the head data record.
func (it *item) time() int64 { return it.seg.Records[0].Timestamp }

// split cuts the first n records off a data segment.
func split(s *barrier.Segment, n int) barrier.Segment {
	head := *s
	head.Records = s.Records[:n:n]
	head.Last = head.Records[n-1].Offset
	head.Bytes = s.Bytes * n / len(s.Records)
	s.Bytes -= head.Bytes
	s.Records = s.Records[n:]
	s.First = s.Records[0].Offset
	return head
}

// caughtUp reports whether the queue is empty and the partition was read to an
// end that was asked for after the queue ran empty (R13).
func (in *input) caughtUp() bool {
	return in.empty() && !in.since.IsZero() && in.fetched >= in.end && in.endAsked.After(in.since)
}

// copyHeld detaches a held segment from its batch, whose records slice is
// recycled; keys and values stay valid.
func copyHeld(s barrier.Segment) barrier.Segment {
	s.Records = append([]record.Raw(nil), s.Records...)
	return s
}
