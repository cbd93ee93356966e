package operators

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// GlobalStore is the store of a global table, shared by all tasks of an
// instance. Its methods may be called from any goroutine.
type GlobalStore interface {
	// Put applies a record of the table's topic; an error says that it cannot be
	// decoded, and leaves the store as it was. ok is false for a null key.
	Put(r *record.Raw) (ok bool, err error)
	// Len is the number of rows.
	Len() int
}

// GlobalFactory makes the store of a global table.
type GlobalFactory func() GlobalStore

// globalEnv is an Env with global tables.
type globalEnv interface {
	// Global returns the store of a global table, nil when there is none of that
	// name.
	Global(name string) GlobalStore
}

// globalShards is how many locks a store has, so that the reading of its topic
// seldom meets a lookup.
const globalShards = 32

// Global keeps rows as bytes, so that tasks that look one up at the same time
// do not share its value. The bytes of a row never change: a lookup decodes
// them without a lock.
type Global[K, V any] struct {
	ks     serde.Serde[K]
	vs     serde.Serde[V]
	seed   maphash.Seed
	n      atomic.Int64
	shards [globalShards]globalShard
}

type globalShard struct {
	mu   sync.RWMutex
	rows map[string][]byte
}

// NewGlobal makes stores of global tables.
func NewGlobal[K, V any](ks serde.Serde[K], vs serde.Serde[V]) GlobalFactory {
	return func() GlobalStore {
		g := &Global[K, V]{ks: ks, vs: vs, seed: maphash.MakeSeed()}
		for i := range g.shards {
			g.shards[i].rows = map[string][]byte{}
		}
		return g
	}
}

func (g *Global[K, V]) shard(key []byte) *globalShard {
	return &g.shards[maphash.Bytes(g.seed, key)%globalShards]
}

// Put implements GlobalStore. It decodes what it keeps, so that lookups do not
// fail.
func (g *Global[K, V]) Put(r *record.Raw) (ok bool, err error) {
	if r.Key == nil {
		return false, nil
	}
	defer func() { // a serde is user code
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	if _, err := g.ks.Decode(slices.Clone(r.Key)); err != nil {
		return true, fmt.Errorf("key: %w", err)
	}
	s := g.shard(r.Key)
	if r.Value == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, had := s.rows[string(r.Key)]; had {
			delete(s.rows, string(r.Key))
			g.n.Add(-1)
		}
		return true, nil
	}
	value := slices.Clone(r.Value)
	if _, err := g.vs.Decode(slices.Clone(value)); err != nil {
		return true, fmt.Errorf("value: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, had := s.rows[string(r.Key)]; !had {
		g.n.Add(1)
	}
	s.rows[string(r.Key)] = value
	return true, nil
}

// Len implements GlobalStore.
func (g *Global[K, V]) Len() int { return int(g.n.Load()) }

// GlobalReader looks rows up. It belongs to one goroutine.
type GlobalReader[K, V any] struct {
	g   *Global[K, V]
	buf []byte
}

// NewGlobalReader reads a store that NewGlobal made with the same types.
func NewGlobalReader[K, V any](s GlobalStore) (*GlobalReader[K, V], error) {
	g, ok := s.(*Global[K, V])
	if !ok {
		return nil, fmt.Errorf("the global table is a %T, which does not hold keys %T and values %T", s, *new(K), *new(V))
	}
	return &GlobalReader[K, V]{g: g}, nil
}

// Get returns the row of a key.
func (r *GlobalReader[K, V]) Get(k K) (v V, ok bool, err error) {
	if r.buf, err = r.g.ks.Append(r.buf[:0], k); err != nil {
		return v, false, fmt.Errorf("encode key: %w", err)
	}
	s := r.g.shard(r.buf)
	s.mu.RLock()
	value, ok := s.rows[string(r.buf)]
	s.mu.RUnlock()
	if !ok {
		return v, false, nil
	}
	v, err = r.g.vs.Decode(value)
	return v, err == nil, err
}

// Len is the number of rows.
func (r *GlobalReader[K, V]) Len() int { return r.g.Len() }

// globalOf opens a global table for the graph's task.
func globalOf[K, V any](g *Graph, name string) (*GlobalReader[K, V], error) {
	env, ok := g.env.(globalEnv)
	if !ok {
		return nil, fmt.Errorf("there are no global tables here, and so not %q", name)
	}
	s := env.Global(name)
	if s == nil {
		return nil, fmt.Errorf("global table %q is not in the topology", name)
	}
	return NewGlobalReader[K, V](s)
}

// JoinGlobal joins a record with the row of the key that key finds; records
// without one are dropped.
func JoinGlobal[K, V, GK, GV, VR any](name string, gks serde.Serde[GK], key func(K, V) GK, f func(V, GV) VR) Factory {
	return joinGlobal(name, gks, key, func(v V, g GV, ok bool) (VR, bool) {
		if !ok {
			var none VR
			return none, false
		}
		return f(v, g), true
	}, false)
}

// LeftJoinGlobal is JoinGlobal that keeps records without a row, and those
// whose key is null.
func LeftJoinGlobal[K, V, GK, GV, VR any](name string, gks serde.Serde[GK], key func(K, V) GK, f func(V, record.Opt[GV]) VR) Factory {
	return joinGlobal(name, gks, key, func(v V, g GV, ok bool) (VR, bool) {
		row := record.None[GV]()
		if ok {
			row = record.Some(g)
		}
		return f(v, row), true
	}, true)
}

func joinGlobal[K, V, GK, GV, VR any](
	name string, gks serde.Serde[GK], key func(K, V) GK, f func(V, GV, bool) (VR, bool), left bool,
) Factory {
	keyNull := nullsOf(gks)
	return func(b *Build, outs []any) (any, error) {
		next, node, m := next[K, VR](outs), b.id(), b.g.env.Metrics()
		table, err := globalOf[GK, GV](b.g, name)
		if err != nil {
			return nil, err
		}
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Value() {
				m.NullDropped.Add(1)
				return nil
			}
			c.node = node
			var row GV
			var found bool
			if gk := key(k, v); !keyNull.is(gk) {
				var err error
				if row, found, err = table.Get(gk); err != nil {
					return c.failAt(node, KindUser, fmt.Errorf("global table %q: %w", name, err))
				}
			} else if !left {
				m.NullDropped.Add(1)
				return nil
			}
			out, ok := f(v, row, found)
			if !ok {
				return nil
			}
			return next(c, k, out, n)
		}), nil
	}
}

// OpenGlobal opens a global table for a processor.
func OpenGlobal[K, V any](c *ProcessorCore, name string) (*GlobalReader[K, V], error) {
	return globalOf[K, V](c.g, name)
}

// GlobalFault is the error of a record of a global table's topic that cannot be
// decoded.
func GlobalFault(g *topology.Global, topic string, partition int32, offset int64, err error) *RecordError {
	return &RecordError{
		Node: "global-table " + g.Name, Site: g.Site, Kind: KindDecode,
		Topic: topic, Partition: partition, Offset: offset, Err: err,
	}
}
