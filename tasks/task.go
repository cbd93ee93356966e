package tasks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/topology"
)

// OutputSpec is a topic that a task writes.
type OutputSpec struct {
	Topic      string
	Internal   bool
	Partitions int32
	Limit      Limit
	// Merged: the reader of an internal one, or a task further down, has several
	// inputs and merges them by time.
	Merged bool
}

// Limit is what a topic takes at once. The zero Limit is none.
type Limit struct {
	// Bytes is max.message.bytes, for a batch as it is sent.
	Bytes int
	// Strict: batches are not compressed, so a record above the limit is refused
	// for certain.
	Strict bool
}

// Spec is what a task is made of.
type Spec struct {
	ID          ids.TaskID
	Incarnation ids.Incarnation
	Life        ids.Life
	Sub         *topology.Subtopology
	Inputs      []InputSpec  // sorted by topic, partition
	Outputs     []OutputSpec // topics known at build time
	Lineages    barrier.Lineages
	LogEnd      int64
	HoldLimit   int64 // bytes held behind barriers
	InputBytes  int   // bytes fetched per input and not processed
	IdleTimeout time.Duration
	// MaxSeen: event time behind a repartition partition is the highest timestamp
	// seen in it.
	MaxSeen bool
	// TaskIdle is how much longer than until it is caught up an empty input is
	// waited for; below zero it is not waited for at all.
	TaskIdle    time.Duration
	SnapshotDir func(n ids.CheckpointID) string
	// AtLeastOnce: nothing waits behind barriers (R11).
	AtLeastOnce bool
	// ReadCommitted is for changelog mode, which has no barriers: repartition
	// topics are read committed, a trigger takes the snapshot at once, and the
	// snapshot's External holds the next offset of every input.
	ReadCommitted bool
	// WriteAs is the incarnation in the headers of repartition records, if it is
	// not Incarnation: without a control log all incarnations of a task write as
	// one.
	WriteAs ids.Incarnation
	// Clock is the wall clock; nil for the machine's. It must be the worker's.
	Clock func() time.Time
	Rules Rules
	// TurnBytes bounds what the task hands over before others have a turn; 0:
	// nothing does.
	TurnBytes int
}

// Rules switches protocol rules off. TEST ONLY, as barrier.Rules.
type Rules struct {
	barrier.Rules
	// SkipR14 fixes the state before the caches are flushed.
	SkipR14 bool
	// SkipR8 writes no barrier behind the data of every partition.
	SkipR8 bool
	// SharedFirst writes the barrier that tasks share before what the last one of
	// them wrote is handed over (R8).
	SharedFirst bool
	// Wall, when set, says what the machine's clock shows at a time of Clock, so
	// that a test can set it forward and back; nothing but wall-clock timers and
	// event times from the wall clock may notice.
	Wall func(time.Time) time.Time
}

// InputsOf returns what a task reads.
func InputsOf(plan *topology.Resolved, t ids.TaskID) []InputSpec {
	var out []InputSpec
	external, internal := plan.TaskInputs(t)
	for _, tp := range external {
		out = append(out, InputSpec{TP: tp, IdleTimeout: time.Duration(plan.IdleMs(tp.Topic)) * time.Millisecond})
	}
	for _, tp := range internal {
		in := InputSpec{TP: tp, Internal: true}
		var forward, cycle []ids.TaskID
		for _, c := range plan.Channels(tp.Topic) {
			if c.Cycle {
				cycle = append(cycle, c.Task)
			} else {
				forward = append(forward, c.Task)
			}
		}
		in.Forward, in.Cycle = barrier.NewTaskSet(forward...), barrier.NewTaskSet(cycle...)
		out = append(out, in)
	}
	return out
}

// OutputsOf returns the repartition topics that a task writes.
func OutputsOf(plan *topology.Resolved, t ids.TaskID) []OutputSpec {
	var out []OutputSpec
	for _, topic := range plan.TaskOutputs(t.Sub) {
		out = append(out, OutputSpec{Topic: topic, Internal: true, Partitions: plan.Partitions(topic), Merged: merged(plan, topic)})
	}
	return out
}

// merged reports whether somebody down the stream of a repartition topic has
// several inputs.
func merged(plan *topology.Resolved, topic string) bool {
	reader, ok := plan.Reader(topic)
	if !ok {
		return false
	}
	for _, s := range plan.Subtopologies() {
		external, internal := plan.TaskInputs(ids.TaskID{Sub: s.Number})
		if len(external)+len(internal) > 1 && (s.Number == reader || slices.Contains(plan.Upstream(s.Number), reader)) {
			return true
		}
	}
	return false
}

// Task is one subtopology on one partition. All of it belongs to its worker.
type Task struct {
	spec     Spec
	protocol Protocol
	worker   *Worker
	graph    *operators.Graph
	restored Restored
	ctx      operators.Context
	env      *taskEnv
	cancel   context.CancelFunc

	inputs   []*input
	aligner  *barrier.Aligner
	times    *barrier.Times
	reader   barrier.SegmentReader
	external map[ids.TopicPartition]*input

	repartition []*output
	outputs     map[string]*output
	open        []openPart
	channel     barrier.Channel
	dataHeader  []byte
	scratch     []byte
	unsaid      bool // a reader was told that the task is not current

	lastBarrier ids.CheckpointID
	stopAt      ids.CheckpointID // stop behind this barrier
	parked      bool
	failed      bool
	closed      bool

	now      time.Time // of the worker's loop
	started  time.Time
	lastWall int64 // the wall clock when timers were last looked at
	// records were taken in this turn, of at most budget.
	records, budget int
	pace            pace
	burst           burst
	upstream        []int32 // subtopologies further up
}

// ID returns the task's id.
func (t *Task) ID() ids.TaskID { return t.spec.ID }

// Incarnation returns the incarnation as which the task runs.
func (t *Task) Incarnation() ids.Incarnation { return t.spec.Incarnation }

// New makes a task from restored state. The caller hands it to a Worker with
// Adopt, or closes it.
func New(spec Spec, protocol Protocol, restored Restored, env EnvConfig) (*Task, error) {
	ctx, cancel := context.WithCancel(context.Background())
	if spec.Clock == nil {
		spec.Clock = time.Now
	}
	now := spec.Clock()
	t := &Task{
		spec: spec, protocol: protocol, restored: restored, cancel: cancel,
		outputs: map[string]*output{}, external: map[ids.TopicPartition]*input{},
		lastBarrier: restored.LastBarrier, stopAt: ids.NoCheckpoint,
		now: now, started: now, burst: burst{limit: spec.TurnBytes},
	}
	if env.Topology != nil {
		t.upstream = env.Topology.Upstream(spec.ID.Sub)
	}
	t.channel = barrier.Channel{Task: spec.ID, Inc: spec.Incarnation}
	if spec.WriteAs != 0 {
		t.channel.Inc = spec.WriteAs
	}
	t.dataHeader = barrier.AppendDataHeader(nil, spec.Life, t.channel)
	t.env = &taskEnv{t: t, cfg: env}
	for _, o := range spec.Outputs {
		t.addOutput(o)
	}
	graph, err := operators.Instantiate(spec.Sub, t.env)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("make task %s: %w", spec.ID, err)
	}
	t.graph = graph
	t.ctx.Ctx = ctx
	if err := t.graph.RestoreTimers(restored.Timers); err != nil {
		cancel()
		return nil, fmt.Errorf("restore timers of task %s: %w", spec.ID, err)
	}
	if err := t.makeInputs(); err != nil {
		cancel()
		return nil, err
	}
	return t, nil
}

func (t *Task) addOutput(s OutputSpec) *output {
	o := newOutput(t, s)
	t.outputs[s.Topic] = o
	if s.Internal {
		t.repartition = append(t.repartition, o)
	}
	return o
}

func (t *Task) makeInputs() error {
	var aligned []barrier.AlignInput
	var timed []barrier.TimeInput
	for i, s := range t.spec.Inputs {
		src, ok := t.graph.Source(s.TP.Topic)
		if !ok {
			return fmt.Errorf("task %s has no source for topic %s", t.spec.ID, s.TP.Topic)
		}
		in := &input{spec: s, index: i, align: -1, src: src}
		if s.Internal {
			in.align = len(aligned)
			aligned = append(aligned, barrier.AlignInput{Partition: s.TP, Forward: s.Forward, Cycle: s.Cycle})
		} else {
			next, ok := t.restored.External[s.TP]
			if !ok {
				return fmt.Errorf("checkpoint %d holds no offset of %s", t.restored.LastBarrier, s.TP)
			}
			in.next = next
			in.stamper = t.graph.Stamper(t.ctx.Ctx, s.TP.Topic, s.TP.Partition)
			t.external[s.TP] = in
		}
		timed = append(timed, barrier.TimeInput{Partition: s.TP, Source: !s.Internal, Forward: s.Forward, Cycle: s.Cycle,
			MaxSeen: t.spec.MaxSeen, IdleTimeout: s.IdleTimeout.Milliseconds(),
			Restarted: t.restarted(s.Forward), RestartKnown: !t.spec.ReadCommitted,
			Merged: s.Internal && len(t.spec.Inputs) > 1 && t.spec.TaskIdle >= 0})
		t.inputs = append(t.inputs, in)
	}
	t.times = barrier.NewTimes(timed, t.restored.Times, t.spec.IdleTimeout.Milliseconds(), t.monoMillis())
	t.times.SetLineages(t.spec.Lineages, t.restored.cut())
	for _, in := range t.inputs {
		in.partTime = streamTime(t.times.InputTime(in.index))
	}
	var err error
	t.aligner, err = barrier.NewAligner(barrier.AlignConfig{
		Life: t.spec.Life, Inputs: aligned, Lineages: t.spec.Lineages, Positions: t.restored.Positions,
		LogEnd: t.spec.LogEnd, HoldLimit: t.spec.HoldLimit, AtLeastOnce: t.spec.AtLeastOnce, Rules: t.spec.Rules.Rules,
	})
	if err != nil {
		return fmt.Errorf("align task %s: %w", t.spec.ID, err)
	}
	for _, p := range t.restored.Positions {
		for _, in := range t.inputs {
			if in.spec.TP == p.Partition {
				in.next = p.Next
			}
		}
	}
	return nil
}

// restarted are those of the upstream tasks that may start together with this
// one and cannot be told by their lineages: all, where there is no control log.
func (t *Task) restarted(forward barrier.TaskSet) barrier.TaskSet {
	if t.spec.ReadCommitted {
		return forward
	}
	return nil
}

// present reports whether a time record is of the writer's present run, where
// its incarnation does not tell: without a control log, what was there when this
// task began to read may be of an earlier one.
func (t *Task) present(in *input, seg *barrier.Segment) bool {
	return !t.spec.ReadCommitted || seg.First >= in.firstEnd
}

// subscribe begins to fetch the inputs; called on the worker.
func (t *Task) subscribe(f Fetcher) error {
	for _, in := range t.inputs {
		iso := kafka.ReadCommitted
		if in.spec.Internal && !t.spec.ReadCommitted {
			iso = kafka.ReadUncommitted
		}
		in.since = t.now
		in.fetched = in.next
		sub, err := f.Subscribe(kafka.SubscribeOptions{
			TP: in.spec.TP, Isolation: iso, Offset: in.next, MaxBytes: t.spec.InputBytes,
			Sink: func(b *kafka.Batch) { t.worker.deliver(t, in, b) },
		})
		if err != nil {
			return fmt.Errorf("fetch %s: %w", in.spec.TP, err)
		}
		in.sub, in.gen = sub, sub.Generation()
	}
	return nil
}

// receive takes a delivered batch into its queue.
func (t *Task) receive(in *input, b *kafka.Batch) {
	if t.closed || t.failed {
		b.Release()
		return
	}
	if b.Err != nil {
		err := b.Err
		stale := b.Generation != in.gen
		b.Release()
		if !stale {
			t.protocol.InputLost(t, in.spec.TP, err)
		}
		return
	}
	if err := in.add(b, &t.reader, t.wallMillis()); err != nil {
		t.fail(fmt.Errorf("repartition topic %s holds a record that is not tidegate's: %w; internal topics must be written by this application only", in.spec.TP, err))
		return
	}
	if in.empty() {
		if in.since.IsZero() {
			in.since = t.now
		}
	} else {
		in.since = time.Time{}
	}
}

// trigger begins checkpoint n, and reports whether the snapshot is due at once.
func (t *Task) trigger(n ids.CheckpointID, stop bool) bool {
	if t.failed || t.parked {
		return false
	}
	if stop {
		t.stopAt = n
	}
	return t.spec.ReadCommitted || t.aligner.Trigger(n)
}

// decided hears how n ended.
func (t *Task) decided(n ids.CheckpointID, completed bool) {
	if t.failed {
		return
	}
	if released, again := t.aligner.Decided(n); released {
		t.release(again)
	}
	if t.stopAt == n && !completed {
		t.stopAt, t.parked = ids.NoCheckpoint, false
	}
}

// release puts held records back before their queues and reads dropped ones
// again (R9).
func (t *Task) release(again []barrier.Reread) {
	for _, in := range t.inputs {
		if in.spec.Internal {
			for _, r := range again {
				if r.Input == in.align {
					in.clear()
					in.gen = in.sub.SeekTo(r.Offset)
					in.fetched = r.Offset
				}
			}
			in.unhold()
		}
		if in.empty() && in.since.IsZero() {
			in.since = t.now
		} else if !in.empty() {
			in.since = time.Time{}
		}
	}
}

// setLog moves the position in the control log.
func (t *Task) setLog(end int64) {
	if t.aligner.SetLog(end) {
		for _, in := range t.inputs {
			in.stopped = false
		}
	}
}

func (t *Task) fail(err error) {
	if t.failed || t.closed {
		return
	}
	t.failed = true
	t.discardOpen()
	t.protocol.Failed(t, err)
}

// close ends the task; nothing of it is handed to the protocol afterwards.
func (t *Task) close() {
	if t.closed {
		return
	}
	t.closed = true
	t.cancel()
	for _, in := range t.inputs {
		if in.sub != nil {
			in.sub.Close()
		}
		in.clear()
	}
	t.discardOpen()
	t.Discard()
}

// Discard closes a task that was never adopted.
func (t *Task) Discard() {
	t.cancel()
	if t.graph != nil {
		if err := t.graph.Close(); err != nil {
			t.protocol.Closed(t, err)
		}
	}
	if t.restored.Engine != nil {
		_ = t.restored.Engine.Close() // its folder is removed; nothing is kept
		t.restored.Engine = nil
	}
}

func (t *Task) wallMillis() int64 {
	if t.spec.Rules.Wall != nil {
		return t.spec.Rules.Wall(t.now).UnixMilli()
	}
	return t.now.UnixMilli()
}

// monoMillis is the monotonic clock that barrier.Times takes.
func (t *Task) monoMillis() int64 { return t.now.Sub(t.started).Milliseconds() }
