package tasks

import (
	"fmt"
	"math"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
)

// Linger is how long records wait in a batch that is not full.
const Linger = 5 * time.Millisecond

// timeAlone is after what silence a stream time that advanced is announced to
// a partition by itself (R13).
const timeAlone = 200 * time.Millisecond

// output is the task's end of one destination topic: a builder per partition.
type output struct {
	t        *Task
	topic    string
	internal bool
	merged   bool // OutputSpec.Merged, if anybody waits
	limit    Limit
	parts    []outPart
}

type outPart struct {
	tp    ids.TopicPartition
	batch *kafka.Builder
	// opened is when the batch got its first record; it is listed in
	// Task.open then.
	opened      time.Time
	first, last int64 // timestamps
	// What was announced last: stream time and flags. Until something was,
	// known is false where the reader needs to hear it.
	announced        int64
	announcedIdle    bool
	announcedCurrent bool
	known            bool
	sent             time.Time
	dataSinceHeader  bool
}

func newOutput(t *Task, s OutputSpec) *output {
	topic, partitions := s.Topic, s.Partitions
	o := &output{t: t, topic: topic, internal: s.Internal, limit: s.Limit, parts: make([]outPart, partitions)}
	o.merged = s.Merged && !t.spec.MaxSeen && t.spec.TaskIdle >= 0
	for i := range o.parts {
		o.parts[i] = outPart{
			tp:        ids.TopicPartition{Topic: topic, Partition: int32(i)},
			announced: barrier.NoTime,
			known:     !o.merged,
		}
	}
	return o
}

// Partitions returns the number of partitions of the topic.
func (o *output) Partitions() int32 { return int32(len(o.parts)) }

// Append copies a record into the partition's batch.
func (o *output) Append(partition int32, key, value []byte, null record.Null, ts int64, h record.Headers) error {
	if partition < 0 || int(partition) >= len(o.parts) {
		return fmt.Errorf("topic %s has %d partitions, a partitioner chose %d", o.topic, len(o.parts), partition)
	}
	if null.Key() {
		key = nil
	} else if key == nil {
		key = []byte{}
	}
	if null.Value() {
		value = nil
	} else if value == nil {
		value = []byte{}
	}
	if ts < 0 || ts > kafka.MaxTimestamp {
		return fmt.Errorf("%w: timestamp %d is outside what Kafka can store (0 to %d milliseconds): set RecordContext.Timestamp", operators.ErrRefused, ts, kafka.MaxTimestamp)
	}
	p := &o.parts[partition]
	size := recordBytes(key, value, h)
	if o.limit.Strict && size+leastOverhead > o.limit.Bytes {
		return fmt.Errorf("%w: it has %d bytes, but topic %s takes no more than %d: raise max.message.bytes of the topic, or write smaller records", operators.ErrRefused, size, o.topic, o.limit.Bytes)
	}
	if p.batch != nil && (!p.batch.Fits(size) || o.limit.Bytes > 0 && p.batch.Bytes()+size+recordOverhead > o.limit.Bytes) {
		// A large record goes alone, lest a batch exceed what the topic takes
		// though each record does not.
		o.flush(p)
	}
	b := o.open(p)
	if o.internal && (!p.dataSinceHeader || len(h) > 0 && h[0].Key == barrier.HeaderKey) {
		// A user's header of that key must not be taken for ours.
		p.dataSinceHeader = true
		b.AppendTagged(record.Header{Key: barrier.HeaderKey, Value: o.t.dataHeader}, key, value, h, ts)
	} else {
		b.Append(key, value, h, ts)
	}
	p.first, p.last = min(p.first, ts), max(p.last, ts)
	if b.Full() {
		o.flush(p)
	}
	return nil
}

// Encoded sizes beside keys, values and headers: at most for one more record,
// and at least for a batch with one record.
const (
	recordOverhead = 40
	leastOverhead  = 68
)

func recordBytes(key, value []byte, h record.Headers) int {
	n := len(key) + len(value)
	for i := range h {
		n += len(h[i].Key) + len(h[i].Value)
	}
	return n
}

// open returns the partition's builder, taking a new one when there is none.
func (o *output) open(p *outPart) *kafka.Builder {
	if p.batch == nil {
		p.batch = o.t.protocol.NewBatch(p.tp)
		p.batch.Limit(o.limit.Bytes)
		p.opened = o.t.now
		p.first, p.last = math.MaxInt64, math.MinInt64
		p.dataSinceHeader = false
		o.t.open = append(o.t.open, openPart{o, p})
	}
	return p.batch
}

// control appends a record of the protocol's own.
func (o *output) control(p *outPart, header []byte) {
	b := o.open(p)
	b.AppendTagged(record.Header{Key: barrier.HeaderKey, Value: header}, nil, nil, nil, o.t.wallMillis())
	p.dataSinceHeader = false
}

// flush hands the partition's batch over, with the stream time behind its data.
func (o *output) flush(p *outPart) {
	if p.batch == nil {
		return
	}
	if o.internal {
		o.announce(p, p.announcedIdle && p.first > p.last, o.current())
	}
	out := Outgoing{Batch: p.batch, Internal: o.internal, LastBarrier: o.t.lastBarrier, FirstTime: p.first, LastTime: p.last}
	if out.FirstTime > out.LastTime {
		out.FirstTime, out.LastTime = 0, 0
	}
	o.t.burst.handed += p.batch.Bytes()
	p.batch, p.sent = nil, o.t.now
	o.t.protocol.Send(o.t, out)
}

// announce adds a time record when the stream time or a flag changed since the
// last one.
func (o *output) announce(p *outPart, idle, current bool) {
	if c, ok := o.news(p, idle, current); ok {
		o.t.scratch = barrier.AppendTimeHeader(o.t.scratch[:0], o.t.spec.Life, []barrier.ChannelTime{c})
		o.control(p, o.t.scratch)
	}
}

// news is what to announce, if the stream time or a flag changed since the last
// time; the caller announces it.
func (o *output) news(p *outPart, idle, current bool) (c barrier.ChannelTime, ok bool) {
	st := o.t.times.StreamTime()
	if p.known && st == p.announced && idle == p.announcedIdle && current == p.announcedCurrent {
		return c, false
	}
	p.announced, p.announcedIdle, p.announcedCurrent, p.known = st, idle, current, true
	if o.merged && !current {
		o.t.unsaid = true
	}
	return barrier.ChannelTime{Channel: o.t.channel, Time: st, Idle: idle, Current: current}, true
}

// current is what to announce; nothing where nobody waits for it.
func (o *output) current() bool { return o.merged && o.t.current() }

// openPart is a partition with a batch that is not handed over yet.
type openPart struct {
	o *output
	p *outPart
}

// flushOpen hands over every open batch that was opened before the limit; it
// returns when the oldest of the others was opened.
func (t *Task) flushOpen(limit time.Time) (oldest time.Time) {
	keep := t.open[:0]
	open := t.open
	t.open = nil
	for _, op := range open {
		switch {
		case op.p.batch == nil:
		case !op.p.opened.After(limit):
			op.o.flush(op.p)
		default:
			keep = append(keep, op)
			if oldest.IsZero() || op.p.opened.Before(oldest) {
				oldest = op.p.opened
			}
		}
	}
	t.open = append(keep, t.open...)
	return oldest
}

// announceAlone announces time and flags to repartition partitions that had
// nothing from the task for so long; sooner what ends a wait there, and what the
// task says for the first time (R13).
func (t *Task) announceAlone(after time.Duration) {
	for _, o := range t.repartition {
		o.announceAlone(after)
	}
}

func (o *output) announceAlone(after time.Duration) {
	idle, current := o.t.times.Idle(o.t.monoMillis()), o.current()
	for i := range o.parts {
		if p := &o.parts[i]; o.due(p, idle, current, after) {
			o.announce(p, idle, current)
		}
	}
}

// due reports whether news for a partition are announced alone now.
func (o *output) due(p *outPart, idle, current bool, after time.Duration) bool {
	if p.batch != nil {
		return false // as it is handed over
	}
	return !p.known || idle != p.announcedIdle || current && !p.announcedCurrent || o.t.now.Sub(p.sent) >= after
}

// current reports whether the task processed its inputs to their ends as of the
// last answers, and those who write them had done so, too. One that stopped does
// not know what came since.
func (t *Task) current() bool {
	if t.parked {
		return false
	}
	for _, in := range t.inputs {
		if in.endAsked.IsZero() || in.fetched < in.end || in.stopped || !in.empty() || len(in.held) > 0 {
			return false
		}
		if t.times.GoAhead(in.index, t.monoMillis()) != math.MaxInt64 {
			return false
		}
	}
	return true
}

// sayCurrent tells at once those who were told that more is to come that this
// was all. What has an open batch says so with it.
func (t *Task) sayCurrent() {
	if !t.unsaid || !t.current() {
		return
	}
	t.unsaid = false
	for _, o := range t.repartition {
		for i := range o.parts {
			p := &o.parts[i]
			if o.merged && p.known && !p.announcedCurrent && p.batch == nil {
				o.announce(p, p.announcedIdle, true)
			}
		}
	}
}

// writeBarrier writes barrier n to every partition of every repartition topic
// that the task writes, behind everything it produced (R8). One that stops behind
// it says so: what comes for it meanwhile is for its next owner to send, and who
// merges by time waits for that (R13).
func (t *Task) writeBarrier(n ids.CheckpointID) {
	header := barrier.AppendBarrierHeader(nil, t.spec.Life, n,
		[]barrier.Channel{t.channel})
	for _, o := range t.repartition {
		for i := range o.parts {
			p := &o.parts[i]
			o.announce(p, p.announcedIdle && (!o.merged || !t.parked), o.current())
			o.control(p, header)
		}
	}
	t.flushOpen(t.now)
}

// discardOpen forgets what was not handed over.
func (t *Task) discardOpen() {
	for _, op := range t.open {
		if op.p.batch != nil {
			op.p.batch.Discard()
			op.p.batch = nil
		}
	}
	t.open = nil
}
