package tasks

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
)

// budget is how many records a task may take before its siblings have a turn.
const budget = 4096

// step takes what may be taken, up to a number of records. It reports whether
// anything was taken.
func (t *Task) step(most int) (progress bool) {
	t.records, t.budget = 0, most
	t.burst.begin()
	if t.parked || t.failed {
		return false
	}
	t.advanceTimers()
	for t.records < most && !t.parked && !t.failed && !t.burst.over() {
		in, limit := t.pick()
		if in == nil {
			break
		}
		t.take(in, limit)
		progress = true
	}
	if t.records > 0 {
		t.pace.records += t.records
		t.protocol.Processed(t, t.records)
	}
	if !t.parked && !t.failed {
		t.sayCurrent()
	}
	return progress
}

// pick chooses the input to take from (R13) and up to which timestamp. Barrier
// and time records and ends of batches go first: they have no timestamp and
// wait for nobody.
func (t *Task) pick() (*input, int64) {
	const forever = 1<<63 - 1
	var best *input
	bestTime, second := int64(forever), int64(forever)
	ahead := int64(forever) // up to which time inputs that are read to their ends let others go
	blocked := false
	held, holding := t.aligner.MinHeld()
	for _, in := range t.inputs {
		if in.stopped {
			// Its head waits for the control log; its time is unknown.
			blocked = true
			continue
		}
		if in.empty() {
			ok, upTo := t.excused(in)
			if t.spec.TaskIdle >= 0 {
				blocked, ahead = blocked || !ok, min(ahead, upTo)
			}
			continue
		}
		it := in.peek()
		if !it.data() {
			return in, forever
		}
		ts := it.time()
		switch {
		case holding && ts > held && !in.spec.Internal:
			// R9: nothing external above the smallest waiting record. It is
			// passed over, not waited for: channels that owe their barrier are
			// read on, else what waits would wait for ever.
		case best == nil || ts < bestTime:
			best, second, bestTime = in, bestTime, ts
		case ts < second:
			second = ts
		}
	}
	blocked = blocked || bestTime > ahead
	if best == nil || blocked && !t.unblocked(best) {
		return nil, 0
	}
	if !blocked {
		second = min(second, ahead)
	}
	if holding && !best.spec.Internal {
		second = min(second, held)
	}
	return best, second
}

// unblocked reports whether a head may be taken although another input has
// nothing queued: a record that will be held or skipped makes no difference to
// event time, and its partition must be read on to the barrier (R9).
func (t *Task) unblocked(in *input) bool {
	if !in.spec.Internal {
		return false
	}
	_, aligning := t.aligner.Aligning()
	return aligning && !slices.Contains(t.aligner.Owing(), in.peek().seg.Channel)
}

// excused reports whether an empty input need not be waited for, and for records
// up to which time that is so.
func (t *Task) excused(in *input) (ok bool, upTo int64) {
	const forever = 1<<63 - 1
	if in.align >= 0 && t.aligner.Waiting(in.align) {
		return true, forever
	}
	if in.caughtUp() {
		ok = t.now.Sub(in.since) >= t.spec.TaskIdle
		if in.align < 0 || len(in.spec.Forward) == 0 {
			t.times.CaughtUp(in.index, true, t.monoMillis())
			return ok, forever
		}
		return ok, t.times.GoAhead(in.index, t.monoMillis())
	}
	if t.times.InputIdle(in.index, t.monoMillis()) {
		return true, forever
	}
	// A task with one input waits for nobody; it only needs to know that the
	// input is idle, which is not asked each time the queue runs empty.
	if in.sub != nil && in.fetched >= in.end && (len(t.inputs) > 1 || t.now.Sub(in.since) >= housekeeping) {
		in.sub.Want()
	}
	return false, forever
}

// take processes the head of an input up to a timestamp.
func (t *Task) take(in *input, limit int64) {
	it := in.peek()
	switch {
	case !in.spec.Internal:
		t.takeExternal(in, it, limit)
	case it.seg.Kind == 0: // only the end of a batch
		in.next = max(in.next, it.seg.Last+1)
		in.pop()
	default:
		t.takeSegment(in, it, limit)
	}
	if in.empty() && in.since.IsZero() {
		in.since = t.now
	}
}

func (t *Task) takeExternal(in *input, it *item, limit int64) {
	if len(it.seg.Records) == 0 {
		in.next = max(in.next, it.seg.Last+1)
		in.pop()
		return
	}
	t.times.CaughtUp(in.index, false, t.monoMillis())
	if it.fault != nil {
		t.takeFault(in, it)
		return
	}
	n := t.runLength(it, limit)
	run := barrier.Segment{Records: it.seg.Records[:n]}
	it.seg.Records = it.seg.Records[n:]
	t.walk(in, &run)
	if t.failed {
		return
	}
	if len(it.seg.Records) == 0 {
		in.next = it.seg.Last + 1
		in.pop()
	} else {
		in.next = run.Records[n-1].Offset + 1
	}
}

// takeFault asks the failure handler about a record without a valid event time.
func (t *Task) takeFault(in *input, it *item) {
	t.records++
	if err := t.env.Fail(it.fault); err != nil {
		t.fail(err)
		return
	}
	in.next = it.seg.Last + 1
	in.pop()
}

// takeSegment asks the aligner about the head of an internal input.
func (t *Task) takeSegment(in *input, it *item, limit int64) {
	whole, before := true, it.seg
	seg := before
	if seg.Kind == barrier.HeaderData {
		if n := t.runLength(it, limit); n < len(seg.Records) {
			seg = split(&it.seg, n)
			whole = false
		}
	}
	verdict, aligned := t.aligner.Offer(in.align, &seg)
	switch verdict {
	case barrier.Deliver:
		t.deliverSegment(in, &seg)
	case barrier.Hold:
		in.held = append(in.held, item{seg: copyHeld(seg)})
	case barrier.Stop:
		in.stopped, it.seg = true, before
		return
	case barrier.Skip, barrier.Drop: // Drop: read again after the alignment
	}
	if t.failed {
		return
	}
	in.next = seg.Last + 1
	if whole {
		in.pop()
	}
	if aligned {
		if n, ok := t.aligner.Aligning(); ok {
			t.snapshot(n)
		}
	}
}

func (t *Task) deliverSegment(in *input, seg *barrier.Segment) {
	switch seg.Kind {
	case barrier.HeaderData:
		t.walk(in, seg)
	case barrier.HeaderTime:
		t.times.Announce(in.index, barrier.ChannelTime{
			Channel: seg.Channel, Time: seg.Time, Idle: seg.Idle, Current: seg.Current,
		}, t.present(in, seg))
		t.advanceTimers()
	case barrier.HeaderBarrier:
	}
}

// runLength is how many records of the head may be taken at once: up to the
// timestamp at which another input is due, at least one, within the budget.
func (t *Task) runLength(it *item, limit int64) int {
	n := min(len(it.seg.Records), max(1, t.budget-t.records), t.burst.most())
	if len(t.inputs) == 1 {
		return n
	}
	for i := 1; i < n; i++ {
		if it.seg.Records[i].Timestamp > limit {
			return i
		}
	}
	return n
}

// walk sends a run through the operators. A record whose user code panicked
// goes to the failure handler like one that failed: it fails the task or is
// skipped, and the walk goes on behind it.
func (t *Task) walk(in *input, run *barrier.Segment) {
	t.ctx.Topic, t.ctx.Partition = in.spec.TP.Topic, in.spec.TP.Partition
	t.records += len(run.Records)
	defer t.burst.ran(len(run.Records), t.burst.handed)
	for from := 0; from < len(run.Records); {
		at, err := t.walkFrom(in, run, from)
		if err != nil {
			t.fail(err)
			return
		}
		from = at + 1
	}
}

// walkFrom processes records from the index on, to the end or to one that
// panicked and was skipped; it returns the index of the last one it dealt with.
func (t *Task) walkFrom(in *input, run *barrier.Segment, from int) (i int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = t.recovered(p)
		}
	}()
	c := &t.ctx
	for i = from; i < len(run.Records); i++ {
		r := &run.Records[i]
		c.StreamTime = streamTime(t.times.Record(in.index, run.Channel.Task, r.Timestamp))
		if err = in.src(c, r); err != nil {
			return i, err
		}
		if c.StreamTime >= t.graph.NextStreamTime() {
			if err = t.graph.Punctuate(c, c.StreamTime); err != nil {
				return i, err
			}
		}
	}
	return i, nil
}

// recovered turns a panic of user code into the record's error and asks the
// handler. REQUIRES: called in the deferred function.
func (t *Task) recovered(p any) error {
	return t.env.Fail(t.graph.RecoverError(p))
}

// streamTime is stream time as operators see it: -1 before the first record.
func streamTime(ts int64) int64 {
	if ts == barrier.NoTime {
		return -1
	}
	return ts
}

// advanceTimers drops expired windows and fires timers that are due.
func (t *Task) advanceTimers() {
	st := streamTime(t.times.Advance(t.monoMillis()))
	wall := t.wallMillis()
	if wall < t.lastWall {
		t.graph.ClockSetBack(wall)
	}
	t.lastWall = wall
	if st < t.graph.NextStreamTime() && wall < t.graph.NextWallClock() {
		return
	}
	if err := t.punctuate(st); err != nil {
		t.fail(err)
	}
}

func (t *Task) punctuate(st int64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = t.recovered(p)
		}
	}()
	if err := t.graph.Punctuate(&t.ctx, st); err != nil {
		return err
	}
	return t.graph.PunctuateWallClock(&t.ctx, t.wallMillis())
}

// snapshot is what happens at barrier n, in R14's order.
func (t *Task) snapshot(n ids.CheckpointID) {
	s := t.beginSnapshot(n)
	if s == nil {
		return
	}
	if !t.spec.Rules.SkipR8 && !t.spec.ReadCommitted {
		t.writeBarrier(n)
	} else {
		t.flushOpen(t.now)
	}
	t.endSnapshot(s)
}

// beginSnapshot is what comes before the barrier; nil when it fails the task.
func (t *Task) beginSnapshot(n ids.CheckpointID) *Snapshot {
	begun := time.Now()
	s := &Snapshot{N: n, Task: t.spec.ID, Incarnation: t.spec.Incarnation, External: make(map[ids.TopicPartition]int64, len(t.external))}
	if t.spec.Rules.SkipR14 && !t.fixState(s) {
		return nil
	}
	if err := t.flushCaches(); err != nil {
		t.fail(fmt.Errorf("flush state of task %s: %w", t.spec.ID, err))
		return nil
	}
	t.parked = t.stopAt == n
	s.Pause = time.Since(begun)
	return s
}

// endSnapshot is what comes behind the barrier.
func (t *Task) endSnapshot(s *Snapshot) {
	begun := time.Now()
	if !t.spec.Rules.SkipR14 && !t.fixState(s) {
		return
	}
	s.Pause += time.Since(begun)
	t.lastBarrier = s.N
	t.protocol.Passed(t, s)
	if !t.spec.ReadCommitted {
		t.release(t.aligner.Snapshotted())
	}
}

// fixState fixes state, positions, times and timers.
func (t *Task) fixState(s *Snapshot) bool {
	if t.restored.Engine != nil {
		snap, err := t.restored.Engine.Snapshot(t.spec.SnapshotDir(s.N))
		if err != nil {
			t.fail(fmt.Errorf("snapshot state of task %s: %w", t.spec.ID, err))
			return false
		}
		s.State = snap
	}
	s.Positions = t.aligner.Positions()
	s.Times = t.times.State()
	s.Timers = t.graph.SnapshotTimers()
	for _, in := range t.inputs {
		if !in.spec.Internal || t.spec.ReadCommitted {
			s.External[in.spec.TP] = in.next
		}
	}
	return true
}

// flushCaches writes cached state. A serde that panics here fails the task
// whatever the handler says: no record is at hand that could be skipped, and a
// snapshot without the rest of the cache would lose updates.
func (t *Task) flushCaches() (err error) {
	defer func() {
		if p := recover(); p != nil {
			rec := t.graph.RecoverError(p)
			rec.Fatal = true
			err = t.env.Fail(rec)
		}
	}()
	return t.graph.Flush(&t.ctx)
}
