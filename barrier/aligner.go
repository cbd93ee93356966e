package barrier

import (
	"fmt"
	"math"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Verdict says what a task does with a segment at the head of a partition's
// queue.
type Verdict uint8

// The verdicts.
const (
	// Deliver: process it (data); it has been applied (barrier); apply it to
	// Times (time). The channel's position moved behind it.
	Deliver Verdict = iota
	// Hold: keep it aside, in order, until Snapshotted or Decided release it.
	Hold
	// Drop: forget it; the release says from where it is read again (R9).
	Drop
	// Skip: forget it for ever (another life, a void incarnation, or already
	// processed); counted in Stats.
	Skip
	// Stop: leave it at the head and take nothing from this partition until
	// SetLog moved the position past it (R6).
	Stop
)

// String returns the verdict's name in lower case.
func (v Verdict) String() string {
	return [...]string{"deliver", "hold", "drop", "skip", "stop"}[v]
}

// AlignInput is one repartition partition that a task reads.
type AlignInput struct {
	Partition ids.TopicPartition
	Forward   TaskSet // upstream tasks whose barriers are awaited
	Cycle     TaskSet // upstream tasks over back edges of the graph (R9, R10)
}

// AlignStats counts what was skipped, held and dropped.
type AlignStats struct {
	SkippedLife, SkippedIncarnation, SkippedPosition int64 // segments
	HeldBytes                                        int64 // now
	DroppedBytes                                     int64 // since the start
}

// AlignConfig configures an Aligner.
type AlignConfig struct {
	Life      ids.Life
	Inputs    []AlignInput
	Lineages  Lineages
	Positions []PartitionPosition // where the checkpoint left off; one per input, in any order
	LogEnd    int64               // position in the control log (Machine.LogEnd)
	HoldLimit int64               // bytes of waiting records; 0 means DefaultHoldLimit
	// AtLeastOnce lets nothing wait: the snapshot is taken at the last barrier,
	// and what came behind an earlier one is in it and comes again after a
	// restart (R11).
	AtLeastOnce bool
	Rules       Rules
}

// DefaultHoldLimit is how many bytes of records wait behind barriers in one
// task before further ones are dropped and read again.
const DefaultHoldLimit = 16 << 20

// Reread says that an input is read again from Offset: the task empties the
// input's queue behind the segments that it held, and seeks.
type Reread struct {
	Input  int
	Offset int64
}

// channel is the state of one upstream task within one partition.
type channel struct {
	task    ids.TaskID
	cycle   bool
	lineage Lineage

	inc    ids.Incarnation  // 0: none seen in this life
	end    ids.CheckpointID // end of inc in the lineage; NoCheckpoint: open
	known  bool             // inc is in the lineage
	offset int64            // of the last record taken
	passed ids.CheckpointID // last barrier passed in inc

	waits bool // the running checkpoint's barrier was passed
}

// stand puts the channel at a position.
func (c *channel) stand(inc ids.Incarnation, offset int64, passed ids.CheckpointID) {
	p, ok := c.lineage.Find(inc)
	c.inc, c.offset, c.passed = inc, offset, passed
	c.end, c.known = p.End, ok
	if !ok {
		c.end = ids.NoCheckpoint
	}
}

// enter says whether records of inc count, and moves the channel on when inc
// is a later incarnation of the lineage.
func (c *channel) enter(inc ids.Incarnation) bool {
	if inc != c.inc {
		if inc < c.inc {
			return false
		}
		if _, ok := c.lineage.Find(inc); !ok {
			return false
		}
		c.stand(inc, c.offset, ids.NoCheckpoint)
	}
	return c.known && (c.end == ids.NoCheckpoint || c.passed < c.end)
}

// alignInput is the state of one partition.
//
//	scan       everything below was offered (and not stopped)
//	firstHeld  smallest offset that waits, or none
//	dropFrom   smallest offset that was dropped, or none; firstHeld <= dropFrom
type alignInput struct {
	partition ids.TopicPartition
	channels  []channel // sorted by task
	scan      int64
	firstHeld int64
	dropFrom  int64
	stop      int64 // what Stop waits for: the log must be read past it; -1: nothing

	// The segment that was delivered last, in case the task has not finished
	// it at the snapshot (SetTaken).
	current     int
	currentLast int64
	partial     bool
}

const none = math.MaxInt64

func (in *alignInput) next() int64 { return min(in.scan, in.firstHeld) }

func (in *alignInput) find(t ids.TaskID) (int, bool) {
	return slices.BinarySearchFunc(in.channels, t, func(c channel, t ids.TaskID) int { return c.task.Compare(t) })
}

// Aligner is the input side of the protocol for one task: it decides for each
// segment whether it counts (R6), whether it waits behind a barrier (R9), and
// when the task takes its snapshot. It belongs to the goroutine of the task.
//
// The task offers the segment at the head of each partition's queue, in offset
// order. Per channel, while checkpoint n aligns:
//
//	           barrier n               snapshot, or n is decided
//	open ────────────────────▶ waits ────────────────────────────▶ open
//	records are delivered      records are held or dropped; held ones go back
//	                           to the head of the queue
//
// The snapshot is due when all forward channels wait. Cycle channels are not
// awaited, but one whose barrier n came early waits like any other: what
// follows the barrier is not part of n. (This cannot dead-lock: a snapshot
// depends on forward channels only, and these form no cycle.)
//
// Invariants:
//
//	A1  A channel's position moves only forward, and only with Deliver.
//	A2  Nothing of a channel is delivered between its barrier n and the task's
//	    snapshot n.
//	A3  Within a channel, what is delivered is delivered in offset order, once:
//	    what was held or dropped comes before what follows it.
//	A4  A record of an incarnation, or a barrier of a checkpoint, that the task
//	    has not read in the control log is neither delivered nor skipped.
//	A5  Positions() restores to an Aligner that delivers exactly what was not
//	    delivered before, as far as the lineage allows.
//	A6  A barrier of a checkpoint that is not running changes no alignment.
type Aligner struct {
	life   ids.Life
	inputs []alignInput
	logEnd int64
	limit  int64
	rules  Rules
	passBy bool // at least once: nothing waits

	running ids.CheckpointID // NoCheckpoint: none
	owing   int              // forward channels whose barrier has not arrived
	minHeld int64            // smallest waiting timestamp, or none
	stats   AlignStats
}

// NewAligner fails when a position is missing or does not fit the inputs.
func NewAligner(cfg AlignConfig) (*Aligner, error) {
	a := &Aligner{
		life: cfg.Life, logEnd: cfg.LogEnd, limit: cfg.HoldLimit, rules: cfg.Rules, passBy: cfg.AtLeastOnce,
		running: ids.NoCheckpoint, minHeld: none,
	}
	if a.limit == 0 {
		a.limit = DefaultHoldLimit
	}
	for _, ai := range cfg.Inputs {
		in := alignInput{partition: ai.Partition, firstHeld: none, dropFrom: none, stop: -1}
		for _, t := range ai.Forward.Union(ai.Cycle) {
			in.channels = append(in.channels, channel{task: t, cycle: !ai.Forward.Contains(t), lineage: cfg.Lineages.Of(t)})
		}
		i := slices.IndexFunc(cfg.Positions, func(p PartitionPosition) bool { return p.Partition == ai.Partition })
		if i < 0 {
			return nil, fmt.Errorf("the checkpoint has no position for repartition partition %s: it is of another topology", ai.Partition)
		}
		if err := in.restore(cfg.Positions[i]); err != nil {
			return nil, err
		}
		a.inputs = append(a.inputs, in)
	}
	return a, nil
}

// Offer asks what to do with the segment at the head of input's queue. Where
// the first records of a data segment were processed before, it cuts them off;
// so a fetch may, and because of header inheritance must, hand over record
// batches whole, also when they begin below the offset that was asked for.
// aligned is true when s was the last barrier that the running checkpoint
// waited for: the task now takes its snapshot and then calls Snapshotted.
func (a *Aligner) Offer(input int, s *Segment) (v Verdict, aligned bool) {
	in := &a.inputs[input]
	end := s.Last + 1
	if s.More {
		// A position taken before the record's last entry must lead back to it.
		end = s.Last
	}
	if s.Life != a.life {
		in.scan = max(in.scan, end)
		a.stats.SkippedLife++
		return Skip, false
	}
	if id := max(int64(s.Channel.Inc), int64(s.barrierID())); id >= a.logEnd {
		in.stop = id
		return Stop, false
	}
	in.scan = max(in.scan, end)
	i, ok := in.find(s.Channel.Task)
	if !ok || !a.counts(&in.channels[i], s) {
		a.stats.SkippedIncarnation++
		return Skip, false
	}
	c := &in.channels[i]
	if s.Last <= c.offset {
		a.stats.SkippedPosition++
		return Skip, false
	}
	if s.Kind == HeaderData && s.First <= c.offset {
		*s, _ = s.Tail(c.offset)
	}
	if c.waits && !a.rules.SkipR9 && !a.passBy {
		return a.hold(in, s), false
	}
	in.current, in.currentLast = i, s.Last
	c.offset = s.Last
	if s.Kind == HeaderBarrier {
		aligned = a.arrive(c, s.N)
	}
	return Deliver, aligned
}

func (s *Segment) barrierID() ids.CheckpointID {
	if s.Kind == HeaderBarrier {
		return s.N
	}
	return ids.NoCheckpoint
}

func (a *Aligner) counts(c *channel, s *Segment) bool {
	if a.rules.SkipR6 {
		if s.Channel.Inc != c.inc {
			c.stand(s.Channel.Inc, c.offset, ids.NoCheckpoint)
		}
		return true
	}
	return c.enter(s.Channel.Inc)
}

// hold keeps or drops a segment of a channel that waits. Once something of a
// partition was dropped, so is everything behind it that waits: it will all
// be read again, in order.
func (a *Aligner) hold(in *alignInput, s *Segment) Verdict {
	in.firstHeld = min(in.firstHeld, s.First)
	if s.Kind == HeaderData {
		a.minHeld = min(a.minHeld, s.MinTime)
	}
	size := int64(max(s.Bytes, segmentRecordOverhead))
	if in.dropFrom == none && a.stats.HeldBytes+size <= a.limit {
		a.stats.HeldBytes += size
		return Hold
	}
	in.dropFrom = min(in.dropFrom, s.First)
	a.stats.DroppedBytes += size
	return Drop
}

// arrive notes barrier n on a channel.
func (a *Aligner) arrive(c *channel, n ids.CheckpointID) (aligned bool) {
	c.passed = max(c.passed, n)
	if n != a.running || c.waits {
		return false // decided, or not for us: an end mark only (R12)
	}
	c.waits = true
	if c.cycle {
		return false
	}
	a.owing--
	return a.owing == 0
}

// Trigger begins the alignment of n. It returns true when there is no forward
// channel: the task takes its snapshot at once (R7), then calls Snapshotted.
// REQUIRES: no other checkpoint is aligning, and LogEnd is not yet past n, or
// moves past it with the next SetLog.
func (a *Aligner) Trigger(n ids.CheckpointID) (aligned bool) {
	if a.running != ids.NoCheckpoint {
		panic(fmt.Sprintf("barrier: checkpoint %d triggered while %d aligns", n, a.running))
	}
	a.running, a.owing = n, 0
	for i := range a.inputs {
		for j := range a.inputs[i].channels {
			if !a.inputs[i].channels[j].cycle {
				a.owing++
			}
		}
	}
	return a.owing == 0
}

// SetTaken says that of the segment which was delivered last on input, only
// records up to offset have been processed yet. The task says so just before
// Positions, for every input where it is in the middle of a segment (that can
// be where channels are not awaited); it holds until Snapshotted.
func (a *Aligner) SetTaken(input int, offset int64) {
	in := &a.inputs[input]
	in.partial = true
	in.channels[in.current].offset = offset
	in.scan = min(in.scan, offset+1)
}

// Positions returns the positions to store at the task's snapshot, one per
// input, in order.
func (a *Aligner) Positions() []PartitionPosition {
	out := make([]PartitionPosition, len(a.inputs))
	for i := range a.inputs {
		out[i] = a.inputs[i].position()
	}
	return out
}

// Snapshotted says that the task took its snapshot of the running checkpoint
// (or will process nothing any more, at a Trigger with Stop). Held segments go
// back to the heads of their queues; for each Reread the task first empties
// the queue behind the held segments and seeks.
func (a *Aligner) Snapshotted() []Reread {
	a.running, a.owing, a.minHeld = ids.NoCheckpoint, 0, none
	a.stats.HeldBytes = 0
	var again []Reread
	for i := range a.inputs {
		in := &a.inputs[i]
		if in.partial {
			in.partial = false
			in.channels[in.current].offset = in.currentLast
		}
		for j := range in.channels {
			in.channels[j].waits = false
		}
		if in.dropFrom != none {
			again = append(again, Reread{Input: i, Offset: in.dropFrom})
		}
		in.scan = min(in.scan, in.firstHeld)
		in.firstHeld, in.dropFrom = none, none
	}
	return again
}

// Decided says that n is decided. If its alignment is under way (it was
// aborted) it is given up: released is true, and the rest is as for
// Snapshotted.
func (a *Aligner) Decided(n ids.CheckpointID) (released bool, again []Reread) {
	if a.running == ids.NoCheckpoint || a.running > n {
		return false, nil
	}
	return true, a.Snapshotted()
}

// SetLog moves the position in the control log; it returns true when a
// partition that a Stop halted may go on. The task applies Trigger and Decided
// of the records below end first.
func (a *Aligner) SetLog(end int64) bool {
	a.logEnd = max(a.logEnd, end)
	again := false
	for i := range a.inputs {
		if in := &a.inputs[i]; in.stop >= 0 && in.stop < a.logEnd {
			in.stop = -1
			again = true
		}
	}
	return again
}

// SetLineages hands over the lineages behind a handover (R6, R25), before the
// position in the control log moves past it: until then what the new
// incarnations write stops its partition.
func (a *Aligner) SetLineages(l Lineages) {
	for i := range a.inputs {
		for j := range a.inputs[i].channels {
			c := &a.inputs[i].channels[j]
			c.lineage = l.Of(c.task)
			if p, ok := c.lineage.Find(c.inc); ok {
				c.end, c.known = p.End, true
			}
		}
	}
}

// Aligning returns the checkpoint whose barriers are awaited.
func (a *Aligner) Aligning() (ids.CheckpointID, bool) {
	return a.running, a.running != ids.NoCheckpoint
}

// Owing returns the channels whose barriers the running checkpoint still
// awaits, for a report on why it takes so long.
func (a *Aligner) Owing() []Channel {
	var out []Channel
	if a.running == ids.NoCheckpoint {
		return nil
	}
	for i := range a.inputs {
		for _, c := range a.inputs[i].channels {
			if !c.cycle && !c.waits {
				out = append(out, Channel{Task: c.task, Inc: c.inc})
			}
		}
	}
	return out
}

// Waiting reports whether all channels of the input wait: R13 does not wait
// for such an input.
func (a *Aligner) Waiting(input int) bool {
	for i := range a.inputs[input].channels {
		if !a.inputs[input].channels[i].waits {
			return false
		}
	}
	return len(a.inputs[input].channels) > 0
}

// MinHeld returns the smallest timestamp among the waiting records (dropped
// ones too): no record of an external input with a larger one is taken (R9).
func (a *Aligner) MinHeld() (ts int64, ok bool) {
	if a.minHeld == none {
		return 0, false
	}
	return a.minHeld, true
}

// Stopped reports whether the input is halted until the control log was read
// further.
func (a *Aligner) Stopped(input int) bool { return a.inputs[input].stop >= 0 }

// Stats returns counters.
func (a *Aligner) Stats() AlignStats { return a.stats }
