package operators

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// ProcessorFuncs are the methods of a user's processor. Close may be nil.
type ProcessorFuncs[K, V any] struct {
	Process func(K, record.Opt[V]) error
	Close   func() error
}

// ProcessorCore is a processor's access to its task, whatever it forwards.
type ProcessorCore struct {
	b         *Build
	g         *Graph
	c         *Context
	name      string
	node      int32
	named     map[string][]any // the functions behind the named outputs
	isRecord  bool             // a record is processed, not a punctuation
	keyIsNull bool
	scheduled int
	// fault is an error below a forward or in a store: not the user's, so it is
	// returned whatever the processor makes of it.
	fault error
}

// ProcessorContext is a processor's access to the graph.
type ProcessorContext[K2, V2 any] struct {
	*ProcessorCore
	out Outlet[K2, V2]
	key K2 // of the present record, where it stays the same
}

// Outlet is an output of a processor.
type Outlet[K, V any] struct {
	p    *ProcessorCore
	next Next[K, V]
}

// openProcessor makes a processor and initialises it. Children that are outputs
// by name are kept apart from the others.
func openProcessor[K, V, K2, V2 any](
	b *Build, outs []any, name string, open func(*ProcessorContext[K2, V2]) (ProcessorFuncs[K, V], error),
) (*ProcessorContext[K2, V2], ProcessorFuncs[K, V], error) {
	core := &ProcessorCore{b: b, g: b.g, c: &b.g.idle, name: name, node: b.id(), named: map[string][]any{}}
	var main []any
	for i, child := range b.node.Children {
		if child.Op == OpOutput {
			core.named[child.Name] = append(core.named[child.Name], outs[i])
		} else {
			main = append(main, outs[i])
		}
	}
	p := &ProcessorContext[K2, V2]{ProcessorCore: core, out: Outlet[K2, V2]{core, next[K2, V2](main)}}
	fs, err := open(p)
	if err != nil {
		return nil, fs, fmt.Errorf("init: %w", err)
	}
	if fs.Close != nil {
		b.g.close = append(b.g.close, fs.Close)
	}
	return p, fs, nil
}

// OpOutput is the word of the nodes below a processor that are its outputs by
// name; their factory is that of Merge.
const OpOutput = "output"

// Process runs a user's processor. open makes one and initialises it.
func Process[K, V, K2, V2 any](name string, open func(*ProcessorContext[K2, V2]) (ProcessorFuncs[K, V], error)) Factory {
	return func(b *Build, outs []any) (any, error) {
		p, fs, err := openProcessor(b, outs, name, open)
		if err != nil {
			return nil, err
		}
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			return process(p.ProcessorCore, c, fs.Process, k, v, n)
		}), nil
	}
}

// ProcessValues is Process for a processor that keeps the key.
func ProcessValues[K, V, V2 any](name string, open func(*ProcessorContext[K, V2]) (ProcessorFuncs[K, V], error)) Factory {
	return func(b *Build, outs []any) (any, error) {
		p, fs, err := openProcessor(b, outs, name, open)
		if err != nil {
			return nil, err
		}
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			p.key = k
			return process(p.ProcessorCore, c, fs.Process, k, v, n)
		}), nil
	}
}

func process[K, V any](p *ProcessorCore, c *Context, f func(K, record.Opt[V]) error, k K, v V, n record.Null) error {
	opt := record.None[V]()
	if !n.Value() {
		opt = record.Some(v)
	}
	outer := p.begin(c, true, n.Key())
	return p.end(outer, f(k, opt))
}

// begin makes c's record the present one while user code runs.
func (p *ProcessorCore) begin(c *Context, isRecord, keyIsNull bool) (outer *Context) {
	outer = p.c
	p.c, c.node, p.isRecord, p.keyIsNull, p.fault = c, p.node, isRecord, keyIsNull, nil
	return outer
}

// end judges what the user code returned.
func (p *ProcessorCore) end(outer *Context, err error) error {
	c := p.c
	p.c = outer
	if p.fault != nil {
		return p.fault
	}
	if err != nil {
		return c.failAt(p.node, KindUser, err)
	}
	return nil
}

// Record is the present record; in Init an empty one.
func (p *ProcessorCore) Record() *record.RecordContext { return &p.c.RecordContext }

// KeyIsNull reports whether the present record's key is null.
func (p *ProcessorCore) KeyIsNull() bool { return p.keyIsNull }

// StreamTime is the task's stream time.
func (p *ProcessorCore) StreamTime() int64 { return p.c.now() }

// TaskPartition is the partition number of the task.
func (p *ProcessorCore) TaskPartition() int32 { return p.g.env.Task().Partition }

// Name is the name of the step.
func (p *ProcessorCore) Name() string { return p.name }

// Main is the output of a processor that has no name.
func (p *ProcessorContext[K2, V2]) Main() Outlet[K2, V2] { return p.out }

var errNoKey = errors.New("there is no record whose key could be kept: a step of ProcessValues forwards only from Process")

// ForwardValue sends a value downstream under the present record's key.
func (p *ProcessorContext[K2, V2]) ForwardValue(ts int64, v V2, n record.Null) error {
	if !p.isRecord {
		return errNoKey
	}
	if p.keyIsNull {
		n |= record.KeyNull
	}
	return p.out.Send(ts, p.key, v, n)
}

var errForwardIdle = errors.New("records can be forwarded only from Process and from punctuations")

// Now is the timestamp of the present record.
func (o Outlet[K, V]) Now() int64 { return o.p.c.Timestamp }

// Send sends a record downstream.
func (o Outlet[K, V]) Send(ts int64, k K, v V, n record.Null) error {
	p := o.p
	c := p.c
	if c == &p.g.idle {
		return errForwardIdle
	}
	oldTS, h := c.Timestamp, c.Headers
	c.Timestamp = ts
	err := o.next(c, k, v, n)
	c.Timestamp, c.Headers, c.node = oldTS, h, p.node
	return p.Fault(err)
}

// Fault notes an error that is not the user's.
func (p *ProcessorCore) Fault(err error) error {
	if err != nil && p.fault == nil {
		p.fault = err
	}
	return err
}

// Schedule calls f whenever time passed another interval.
func (p *ProcessorCore) Schedule(every time.Duration, kind TimeKind, f func(now int64) error) (*Timer, error) {
	switch {
	case f == nil:
		return nil, errors.New("schedule: the function is nil")
	case every < time.Millisecond:
		return nil, fmt.Errorf("schedule: interval %v must be at least 1ms", every)
	case kind != StreamTime && kind != WallClock:
		return nil, fmt.Errorf("schedule: unknown kind of time %d", kind)
	}
	id := -1
	if p.c == &p.g.idle {
		id = p.scheduled
		p.scheduled++
	}
	return p.g.timers.add(&Timer{
		node: p.name, ordinal: id, every: every.Milliseconds(), kind: kind,
		f: func(c *Context, now int64) error {
			outer := p.begin(c, false, false)
			return p.end(outer, f(now))
		},
	}, p.c.now()), nil
}

// OpenOutput returns the output of that name, which is one of those that the
// step declared. Outputs that nobody reads take records and drop them.
func OpenOutput[K, V any](p *ProcessorCore, name string) Outlet[K, V] {
	return Outlet[K, V]{p, next[K, V](p.named[name])}
}

// OpenRows returns the look-up of a table that the step reads.
func OpenRows[K, V any](p *ProcessorCore, table *topology.Node) (Getter[K, V], error) {
	if !slices.Contains(p.g.res.Node(int(p.node)).Uses, table) {
		return nil, fmt.Errorf("table %q: pass it to Process(%q, …)", table.Label(), p.name)
	}
	return getter[K, V](p.b, table)
}

// OpenKV opens a user's key-value store in Init.
func OpenKV[K, V any](p *ProcessorCore, name string, ks serde.Serde[K], vs serde.Serde[V]) (*state.KVStore[K, V], error) {
	if err := p.declared(name); err != nil {
		return nil, err
	}
	return openKV(p.b, name, ks, vs)
}

// OpenVersioned opens a user's versioned store in Init; history is in
// milliseconds.
func OpenVersioned[K, V any](p *ProcessorCore, name string, ks serde.Serde[K], vs serde.Serde[V], history int64) (*state.VersionedStore[K, V], error) {
	if err := p.declared(name); err != nil {
		return nil, err
	}
	return openVersioned(p.b, name, ks, vs, history)
}

// Late counts a write that a store refused because it came too late.
func (p *ProcessorCore) Late(timestamp int64) {
	p.g.env.Metrics().late(clampTime(p.c.now()) - clampTime(timestamp))
}

func (p *ProcessorCore) declared(name string) error {
	for _, s := range p.g.res.Node(int(p.node)).Stores {
		if s == name {
			return nil
		}
	}
	return fmt.Errorf("store %q: pass its definition to Process(%q, …)", name, p.name)
}
