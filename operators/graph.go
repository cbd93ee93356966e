package operators

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// Factory makes a node's function from those of its children, in their order:
// a SourceFunc, a Next or a NextChange.
type Factory func(b *Build, outs []any) (in any, err error)

// GetterFactory makes the Getter of a table.
type GetterFactory func(b *Build) (any, error)

// Graph is the running form of a subtopology in one task.
type Graph struct {
	env     Env
	res     *topology.Resolved
	cache   *state.Cache
	sources map[string]SourceFunc
	stamps  map[string]stamps // by external input topic
	flush   []func() error
	close   []func() error
	timers  timers
	idle    Context  // for Init
	cur     *Context // of the record or punctuation that runs
}

// Instantiate builds a subtopology for the task of env. Processors are
// initialised; stores must hold what a restore puts there. The subtopology is
// one of a Resolved topology.
//
// User code may panic here, too: that is an error like any other.
func Instantiate(sub *topology.Subtopology, env Env) (graph *Graph, err error) {
	res := sub.Resolved()
	if res == nil {
		return nil, errors.New("instantiate: the subtopology is not resolved: take it from Topology.Resolve")
	}
	g := &Graph{env: env, res: res, cache: state.NewCache(env.CacheBytes()), sources: map[string]SourceFunc{}, stamps: map[string]stamps{}}
	g.timers.reset()
	g.idle = Context{g: g, StreamTime: -1, RecordContext: record.RecordContext{Ctx: context.Background(), Partition: -1, Offset: -1}}
	b := &Build{
		g: g, sub: sub,
		stores: map[string]any{}, ins: map[*topology.Node]any{}, getters: map[*topology.Node]any{},
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("step %q: init: %w", b.node.Label(), panicError(p))
		}
		if err != nil {
			graph, err = nil, errors.Join(err, g.Close())
		}
	}()
	for _, n := range sub.Nodes {
		in, err := b.in(n)
		if err != nil {
			return nil, err
		}
		src, ok := in.(SourceFunc)
		if !ok {
			continue
		}
		for _, topic := range res.SourceTopics(n) {
			g.addSource(topic, src)
			if _, given := g.stamps[topic]; !given {
				st := stamps{node: int32(n.ID)}
				if n.Timestamps != nil {
					st.make = n.Timestamps.Factory.(TimestampFactory)
				}
				g.stamps[topic] = st
			}
		}
		if n.Kind == topology.RepartitionSource {
			g.addSource(res.StepTopic(n.Step), src)
		}
	}
	return g, nil
}

// addSource adds a reader of a topic; several sources may read one.
func (g *Graph) addSource(topic string, f SourceFunc) {
	first, ok := g.sources[topic]
	if !ok {
		g.sources[topic] = f
		return
	}
	g.sources[topic] = func(c *Context, r *record.Raw) error {
		if err := first(c, r); err != nil {
			return err
		}
		return f(c, r)
	}
}

// Source returns the function that takes the records of a topic, and whether
// the subtopology reads it.
func (g *Graph) Source(topic string) (SourceFunc, bool) {
	f, ok := g.sources[topic]
	return f, ok
}

// Cache is the write-back cache of the graph's stores.
func (g *Graph) Cache() *state.Cache { return g.cache }

// Flush writes all cached state to the stores. What it fires belongs before
// the barrier (R14).
func (g *Graph) Flush(*Context) error {
	for _, f := range g.flush {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the processors, in the reverse order of their making.
func (g *Graph) Close() error {
	var errs []error
	for i := len(g.close) - 1; i >= 0; i-- {
		errs = append(errs, closeOne(g.close[i]))
	}
	g.close = nil
	return errors.Join(errs...)
}

// closeOne keeps a processor whose Close panics from taking the others along.
func closeOne(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("close: %w", panicError(p))
		}
	}()
	return f()
}

// Build is the state of one Instantiate.
type Build struct {
	g       *Graph
	sub     *topology.Subtopology
	node    *topology.Node
	stores  map[string]any
	ins     map[*topology.Node]any
	getters map[*topology.Node]any
}

// in returns the function of a node, which is built after its children.
func (b *Build) in(n *topology.Node) (any, error) {
	if in, ok := b.ins[n]; ok {
		return in, nil
	}
	outs := make([]any, len(n.Children))
	for i, c := range n.Children {
		out, err := b.in(c)
		if err != nil {
			return nil, err
		}
		outs[i] = out
	}
	f, ok := n.Factory.(Factory)
	if !ok {
		return nil, fmt.Errorf("step %q has no runtime", n.Label())
	}
	outer := b.node
	b.node = n
	in, err := f(b, outs)
	b.node = outer
	if err != nil {
		return nil, fmt.Errorf("step %q: %w", n.Label(), err)
	}
	b.ins[n] = in
	return in, nil
}

// getter returns the Getter of a table's node.
func getter[K, V any](b *Build, n *topology.Node) (Getter[K, V], error) {
	g, ok := b.getters[n]
	if !ok {
		f, ok := n.Getter.(GetterFactory)
		if !ok {
			return nil, fmt.Errorf("step %q is not a table", n.Label())
		}
		var err error
		if g, err = f(b); err != nil {
			return nil, fmt.Errorf("step %q: %w", n.Label(), err)
		}
		b.getters[n] = g
	}
	return g.(Getter[K, V]), nil
}

func (b *Build) id() int32 { return int32(b.node.ID) }

// storeOptions says what a store must keep beside its values.
func (b *Build) storeOptions(name string) []state.StoreOption {
	if b.g.env.MaySkip() {
		return []state.StoreOption{state.WithOldValues()}
	}
	for _, n := range b.sub.Nodes {
		for _, s := range n.Stores {
			if s == name && n.SendOld {
				return []state.StoreOption{state.WithOldValues()}
			}
		}
	}
	return nil
}

// openKV returns the typed store of that name, the same to all who ask.
func openKV[K, V any](b *Build, name string, ks serde.Serde[K], vs serde.Serde[V]) (*state.KVStore[K, V], error) {
	if s, ok := b.stores[name]; ok {
		return s.(*state.KVStore[K, V]), nil
	}
	kv, err := b.g.env.Store(name)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", name, err)
	}
	s := state.NewKVStore(name, kv, ks, vs, b.g.cache, b.storeOptions(name)...)
	b.stores[name] = s
	b.g.flush = append(b.g.flush, s.Flush)
	return s, nil
}

// openWindows is openKV for window stores.
func openWindows[K, V any](b *Build, name string, ks serde.Serde[K], vs serde.Serde[V]) (*state.WindowStore[K, V], error) {
	if s, ok := b.stores[name]; ok {
		return s.(*state.WindowStore[K, V]), nil
	}
	kv, err := b.g.env.Store(name)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", name, err)
	}
	s := state.NewWindowStore(name, kv, ks, vs, b.g.cache, b.storeOptions(name)...)
	b.stores[name] = s
	b.g.flush = append(b.g.flush, s.Flush)
	return s, nil
}
