package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/topology"
)

// Processor is a step written by the user, for what the DSL lacks (Kafka
// Streams' Processor). Each task has its own; its methods are called by one
// goroutine. A processor that implements Close() error is closed with its task.
type Processor[K, V, K2, V2 any] interface {
	// Init is called before the first record, after the state was restored.
	Init(ctx *ProcessorContext[K2, V2]) error
	// Process is called for each record; v is missing for a tombstone. For a
	// null key k is zero and ProcessorContext.KeyIsNull true.
	Process(k K, v Opt[V]) error
}

// ProcessorContext is a processor's access to its surroundings: it forwards, and
// has everything of TaskContext.
type ProcessorContext[K, V any] struct {
	TaskContext
	in *operators.ProcessorContext[K, V]
}

// Forward sends a record downstream. It returns when all steps behind have
// processed it; an error must be returned by the caller.
func (c *ProcessorContext[K, V]) Forward(k K, v V) error {
	o := c.in.Main()
	return o.Send(o.Now(), k, v, 0)
}

// ForwardAt is Forward with another timestamp, in milliseconds since the epoch.
func (c *ProcessorContext[K, V]) ForwardAt(timestamp int64, k K, v V) error {
	return c.in.Main().Send(timestamp, k, v, 0)
}

// ForwardTombstone sends a record with a null value downstream.
func (c *ProcessorContext[K, V]) ForwardTombstone(k K) error {
	var zero V
	o := c.in.Main()
	return o.Send(o.Now(), k, zero, record.ValueNull)
}

// TaskContext is what processors of all kinds see of their task: the record,
// time, and what was passed to their step. It belongs to the task's goroutine.
type TaskContext struct {
	core    *operators.ProcessorCore
	outputs []any // *OutputDef that the step has
}

// Record is the record that is being processed: its headers and timestamp are
// those of what is forwarded, and may be changed. Within a punctuation its
// topic is "", partition and offset are -1, and the timestamp is the
// punctuation's time.
func (c *TaskContext) Record() *RecordContext { return c.core.Record() }

// KeyIsNull reports whether the record's key is null.
func (c *TaskContext) KeyIsNull() bool { return c.core.KeyIsNull() }

// StreamTime is the task's stream time in milliseconds since the epoch, −1
// before the first record. It never falls.
func (c *TaskContext) StreamTime() int64 { return c.core.StreamTime() }

// TaskPartition is the partition number of the task.
func (c *TaskContext) TaskPartition() int32 { return c.core.TaskPartition() }

// TimeKind is the clock of a punctuation.
type TimeKind = operators.TimeKind

const (
	// StreamTime moves with the records; it stands still without any.
	StreamTime = operators.StreamTime
	// WallClock is the machine's clock.
	WallClock = operators.WallClock
)

// Timer is a scheduled punctuation.
type Timer struct{ in *operators.Timer }

// Cancel stops the punctuation; cancelling twice is no error.
func (t *Timer) Cancel() { t.in.Cancel() }

// Schedule calls f again and again (Kafka Streams' punctuate). In stream time f
// is called when time reaches a multiple of every, once even if several were
// passed, with the stream time. In wall-clock time f is called about every
// interval from now, with the time in milliseconds since the epoch. every is at
// least 1ms. f may cancel its own timer, others, and schedule new ones.
//
// Stream-time timers that Init schedules are part of checkpoints: after a restart
// they are due when they would have been, and a cancelled one stays cancelled.
// The first call of Schedule in an Init is the first one of the next, so Init must
// schedule the same timers in the same order each time. A timer that is made
// later ends with the task: who needs it after a restart keeps what it is about
// in a store, and schedules it in Init, behind the others, from what is there.
// Wall-clock timers begin anew.
func (c *TaskContext) Schedule(every time.Duration, kind TimeKind, f func(now int64) error) (*Timer, error) {
	t, err := c.core.Schedule(every, kind, f)
	if err != nil {
		return nil, err
	}
	return &Timer{t}, nil
}

// Process runs a processor on the stream. newProcessor is called once per task,
// possibly by several goroutines at a time. parts are what the processor opens
// in Init: definitions of stores and outputs, and tables. Two steps that name the
// same store share it and run in one task. The result counts as re-keyed; restate
// its serdes with As before a topic or a store, or use ProcessValues, which keeps
// the key.
//
// What a processor wrote to its stores before it returned an error stays there if
// the failure handler skips the record.
func (s *Stream[K, V]) Process[K2, V2 any](
	name string, newProcessor func() Processor[K, V, K2, V2], parts ...ProcessorPart,
) *Stream[K2, V2] {
	site := here()
	var outputs []any
	f := s.process(site, "Process", name, newProcessor == nil, parts, &outputs, operators.Process(name,
		func(ctx *operators.ProcessorContext[K2, V2]) (operators.ProcessorFuncs[K, V], error) {
			p := newProcessor()
			return operators.ProcessorFuncs[K, V]{Process: p.Process, Close: closeOf(p)},
				p.Init(&ProcessorContext[K2, V2]{TaskContext{ctx.ProcessorCore, outputs}, ctx})
		}))
	f.rekeyed = true
	return &Stream[K2, V2]{from: f.lose("Process", site, true, true)}
}

// closeOf returns the processor's Close, or nil.
func closeOf(p any) func() error {
	if c, ok := p.(interface{ Close() error }); ok {
		return c.Close
	}
	return nil
}

// process adds the node of a processor.
func (f from) process(
	site topology.Site, op, name string, missing bool, parts []ProcessorPart, outputs *[]any, factory operators.Factory,
) from {
	if missing {
		f.b.t.Errorf(site, "%s(%q): the function is nil", op, name)
	}
	f.b.t.ClaimStep(name, site)
	c := connection{b: f.b, node: topology.Node{
		Kind: topology.Process, Op: "process", Name: name, Site: site, Factory: factory,
	}}
	for _, p := range parts {
		if isNil(p) {
			f.b.t.Errorf(site, "%s(%q): a store definition, output or table is nil", op, name)
			continue
		}
		p.connect(&c)
	}
	f.n = f.add(c.node)
	*outputs, f.b.outputs[f.n] = c.outputs, c.outputs
	return f
}
