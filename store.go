package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// KVDef defines a key-value store.
type KVDef[K, V any] struct {
	name string
	ks   serde.Serde[K]
	vs   serde.Serde[V]
	site topology.Site

	ttl        *time.Duration
	ttlOptions []TTLOption
}

// KeyValueStore defines a key-value store of that name (Kafka Streams'
// Stores.keyValueStoreBuilder). It is opened with TaskContext.Store.
func KeyValueStore[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) *KVDef[K, V] {
	return &KVDef[K, V]{name: name, ks: ks, vs: vs, site: here()}
}

func (d *KVDef[K, V]) connect(c *connection) {
	st := topology.Store{
		Name: d.name, Format: operators.FormatKV, Site: d.site, Owner: d,
		Key:   serdeInfo(given(c.b, d.site, "key", d.ks)),
		Value: serdeInfo(given(c.b, d.site, "value", d.vs)),
	}
	if d.ttl != nil {
		st.Format, st.GraceMs = operators.FormatTTL, d.ttl.Milliseconds()
		if *d.ttl < time.Millisecond {
			c.b.t.Errorf(d.site, "store %q: the TTL %v must be at least 1ms", d.name, *d.ttl)
		}
	}
	c.store(st)
}

// Store opens a key-value store that was passed to Process.
func (c *TaskContext) Store[K, V any](def *KVDef[K, V]) (*KV[K, V], error) {
	if def == nil {
		return nil, errNilPart("Store")
	}
	if def.ttl != nil {
		s, err := operators.OpenTTL(c.core, def.name, def.ks, def.vs, def.howTTL())
		if err != nil {
			return nil, err
		}
		return &KV[K, V]{ttl: s, ks: def.ks, null: nullOf(def.vs), fault: c.core.Fault}, nil
	}
	s, err := operators.OpenKV(c.core, def.name, def.ks, def.vs)
	if err != nil {
		return nil, err
	}
	return &KV[K, V]{in: s, ks: def.ks, null: nullOf(def.vs), fault: c.core.Fault}, nil
}

// KV is an open key-value store. Values are shared with the cache: a value from
// Get may be changed if it is then Put. An error of a store ends the task even
// if the processor ignores it.
type KV[K, V any] struct {
	in    *state.KVStore[K, V]
	ttl   *operators.UserTTL[K, V] // instead of in, where entries expire
	ks    serde.Serde[K]
	null  func(V) bool
	fault func(error) error
}

// nullOf returns the test for the null of a type that has one, else nil.
func nullOf[T any](s serde.Serde[T]) func(T) bool {
	if n, ok := s.(serde.NullSerde[T]); ok {
		return n.IsNull
	}
	return nil
}

// Get returns the value of k and whether there is one.
func (s *KV[K, V]) Get(k K) (V, bool, error) {
	if s.ttl != nil {
		return s.ttl.Get(k)
	}
	v, ok, err := s.in.Get(k)
	return v, ok, s.fault(err)
}

// Put makes v the value of k. A missing Opt deletes k.
func (s *KV[K, V]) Put(k K, v V) error {
	if s.null != nil && s.null(v) {
		return s.Delete(k)
	}
	if s.ttl != nil {
		return s.ttl.Put(k, v)
	}
	return s.fault(s.in.Put(k, v))
}

// Delete removes k; a missing key is no error.
func (s *KV[K, V]) Delete(k K) error {
	if s.ttl != nil {
		return s.ttl.Delete(k)
	}
	return s.fault(s.in.Delete(k))
}
