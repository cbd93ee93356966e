package operators

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// ProcessorFuncs are the methods of a user's processor. Close may be nil.
type ProcessorFuncs[K, V any] struct {
	Process func(K, record.Opt[V]) error
	Close   func() error
}

// ProcessorContext is a processor's access to the graph.
type ProcessorContext[K2, V2 any] struct {
	b         *Build
	g         *Graph
	c         *Context
	next      Next[K2, V2]
	name      string
	node      int32
	keyIsNull bool
	scheduled int
	// fault is an error below Forward or in a store: not the user's, so it is
	// returned whatever the processor makes of it.
	fault error
}

// Process runs a user's processor. open makes one and initialises it.
func Process[K, V, K2, V2 any](name string, open func(*ProcessorContext[K2, V2]) (ProcessorFuncs[K, V], error)) Factory {
	return func(b *Build, outs []any) (any, error) {
		p := &ProcessorContext[K2, V2]{
			b: b, g: b.g, c: &b.g.idle, next: next[K2, V2](outs), name: name, node: b.id(),
		}
		fs, err := open(p)
		if err != nil {
			return nil, fmt.Errorf("init: %w", err)
		}
		if fs.Close != nil {
			b.g.close = append(b.g.close, fs.Close)
		}
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			opt := record.None[V]()
			if !n.Value() {
				opt = record.Some(v)
			}
			outer := p.begin(c, n.Key())
			return p.end(outer, fs.Process(k, opt))
		}), nil
	}
}

// begin makes c's record the present one while user code runs.
func (p *ProcessorContext[K2, V2]) begin(c *Context, keyIsNull bool) (outer *Context) {
	outer = p.c
	p.c, c.node, p.keyIsNull, p.fault = c, p.node, keyIsNull, nil
	return outer
}

// end judges what the user code returned.
func (p *ProcessorContext[K2, V2]) end(outer *Context, err error) error {
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
func (p *ProcessorContext[K2, V2]) Record() *record.RecordContext { return &p.c.RecordContext }

// KeyIsNull reports whether the present record's key is null.
func (p *ProcessorContext[K2, V2]) KeyIsNull() bool { return p.keyIsNull }

// StreamTime is the task's stream time.
func (p *ProcessorContext[K2, V2]) StreamTime() int64 { return p.c.StreamTime }

// TaskPartition is the partition number of the task.
func (p *ProcessorContext[K2, V2]) TaskPartition() int32 { return p.g.env.Task().Partition }

// Forward sends a record downstream.
func (p *ProcessorContext[K2, V2]) Forward(k K2, v V2) error {
	return p.forward(p.c.Timestamp, k, v, 0)
}

// ForwardAt is Forward with another timestamp.
func (p *ProcessorContext[K2, V2]) ForwardAt(ts int64, k K2, v V2) error {
	return p.forward(ts, k, v, 0)
}

// ForwardTombstone sends a null value downstream.
func (p *ProcessorContext[K2, V2]) ForwardTombstone(k K2) error {
	var zero V2
	return p.forward(p.c.Timestamp, k, zero, record.ValueNull)
}

var errForwardIdle = errors.New("records can be forwarded only from Process and from punctuations")

func (p *ProcessorContext[K2, V2]) forward(ts int64, k K2, v V2, n record.Null) error {
	c := p.c
	if c == &p.g.idle {
		return errForwardIdle
	}
	oldTS, h := c.Timestamp, c.Headers
	c.Timestamp = ts
	err := p.next(c, k, v, n)
	c.Timestamp, c.Headers, c.node = oldTS, h, p.node
	return p.Fault(err)
}

// Fault notes an error that is not the user's.
func (p *ProcessorContext[K2, V2]) Fault(err error) error {
	if err != nil && p.fault == nil {
		p.fault = err
	}
	return err
}

// Schedule calls f whenever time passed another interval.
func (p *ProcessorContext[K2, V2]) Schedule(every time.Duration, kind TimeKind, f func(now int64) error) (*Timer, error) {
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
			outer := p.begin(c, false)
			return p.end(outer, f(now))
		},
	}, p.c.StreamTime), nil
}

// OpenKV opens a user's key-value store in Init.
func OpenKV[K, V, K2, V2 any](p *ProcessorContext[K2, V2], name string, ks serde.Serde[K], vs serde.Serde[V]) (*state.KVStore[K, V], error) {
	if err := p.declared(name); err != nil {
		return nil, err
	}
	return openKV(p.b, name, ks, vs)
}

// OpenWindows opens a user's window store in Init. Windows that began more
// than retention milliseconds before stream time are dropped.
func OpenWindows[K, V, K2, V2 any](p *ProcessorContext[K2, V2], name string, ks serde.Serde[K], vs serde.Serde[V], retention int64) (*state.WindowStore[K, V], error) {
	if err := p.declared(name); err != nil {
		return nil, err
	}
	_, opened := p.b.stores[name]
	st, err := openWindows(p.b, name, ks, vs)
	if err == nil && !opened {
		p.g.timers.expire(newExpiry(Windows{Size: 1, Grace: retention, Advance: max(1, retention/8)}, st.ExpireBefore))
	}
	return st, err
}

func (p *ProcessorContext[K2, V2]) declared(name string) error {
	for _, s := range p.g.res.Node(int(p.node)).Stores {
		if s == name {
			return nil
		}
	}
	return fmt.Errorf("store %q: pass its definition to Process(%q, …)", name, p.name)
}
