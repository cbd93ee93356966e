package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/operators"
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

// ProcessorContext is a processor's access to its surroundings. It belongs to
// the task's goroutine.
type ProcessorContext[K, V any] struct {
	in *operators.ProcessorContext[K, V]
}

// Record is the record that is being processed: its headers and timestamp are
// those of what is forwarded, and may be changed. Within a punctuation its
// topic is "", partition and offset are -1, and the timestamp is the
// punctuation's time.
func (c *ProcessorContext[K, V]) Record() *RecordContext { return c.in.Record() }

// KeyIsNull reports whether the record's key is null.
func (c *ProcessorContext[K, V]) KeyIsNull() bool { return c.in.KeyIsNull() }

// StreamTime is the task's stream time in milliseconds since the epoch, −1
// before the first record. It never falls.
func (c *ProcessorContext[K, V]) StreamTime() int64 { return c.in.StreamTime() }

// TaskPartition is the partition number of the task.
func (c *ProcessorContext[K, V]) TaskPartition() int32 { return c.in.TaskPartition() }

// Forward sends a record downstream. It returns when all steps behind have
// processed it; an error must be returned by the caller.
func (c *ProcessorContext[K, V]) Forward(k K, v V) error { return c.in.Forward(k, v) }

// ForwardAt is Forward with another timestamp, in milliseconds since the epoch.
func (c *ProcessorContext[K, V]) ForwardAt(timestamp int64, k K, v V) error {
	return c.in.ForwardAt(timestamp, k, v)
}

// ForwardTombstone sends a record with a null value downstream.
func (c *ProcessorContext[K, V]) ForwardTombstone(k K) error { return c.in.ForwardTombstone(k) }

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
// passed, with the stream time; such timers scheduled in Init are part of
// checkpoints. In wall-clock time f is called about every interval from now,
// with the time in milliseconds since the epoch. every is at least 1ms.
func (c *ProcessorContext[K, V]) Schedule(every time.Duration, kind TimeKind, f func(now int64) error) (*Timer, error) {
	t, err := c.in.Schedule(every, kind, f)
	if err != nil {
		return nil, err
	}
	return &Timer{t}, nil
}

// Store opens a key-value store that was passed to Process.
func (c *ProcessorContext[K, V]) Store[SK, SV any](def *KVDef[SK, SV]) (*KV[SK, SV], error) {
	s, err := operators.OpenKV(c.in, def.name, def.ks, def.vs)
	if err != nil {
		return nil, err
	}
	return &KV[SK, SV]{in: s, null: nullOf(def.vs), fault: c.in.Fault}, nil
}

// WindowStore opens a window store that was passed to Process.
func (c *ProcessorContext[K, V]) WindowStore[SK, SV any](def *WindowKVDef[SK, SV]) (*WindowKV[SK, SV], error) {
	s, err := operators.OpenWindows(c.in, def.name, def.ks, def.vs, def.retention.Milliseconds())
	if err != nil {
		return nil, err
	}
	return &WindowKV[SK, SV]{in: s, null: nullOf(def.vs), fault: c.in.Fault}, nil
}

// Process runs a processor on the stream. newProcessor is called once per task,
// possibly by several goroutines at a time;
// stores are the definitions that the processor opens in Init. Two steps that
// name the same definition share the store and run in one task. The result
// counts as re-keyed; restate its serdes with As before a topic or a store.
func (s *Stream[K, V]) Process[K2, V2 any](
	name string, newProcessor func() Processor[K, V, K2, V2], stores ...StoreDef,
) *Stream[K2, V2] {
	site := here()
	if newProcessor == nil {
		s.b.t.Errorf(site, "Process(%q): the function is nil", name)
	}
	s.b.t.ClaimStep(name, site)
	var names []string
	for _, d := range stores {
		if d == nil {
			s.b.t.Errorf(site, "Process(%q): a store definition is nil", name)
			continue
		}
		st := d.store(s.b)
		s.b.t.AddStore(st)
		names = append(names, st.Name)
	}
	f := s.from
	f.n = s.add(topology.Node{
		Kind: topology.Process, Op: "process", Name: name, Site: site, Stores: names,
		Factory: operators.Process(name, func(ctx *operators.ProcessorContext[K2, V2]) (operators.ProcessorFuncs[K, V], error) {
			p := newProcessor()
			fs := operators.ProcessorFuncs[K, V]{Process: p.Process}
			if c, ok := p.(interface{ Close() error }); ok {
				fs.Close = c.Close
			}
			return fs, p.Init(&ProcessorContext[K2, V2]{ctx})
		}),
	})
	f.rekeyed = true
	f = f.lose("Process", site, true, true)
	return &Stream[K2, V2]{from: f}
}
