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
}

// KeyValueStore defines a key-value store of that name (Kafka Streams'
// Stores.keyValueStoreBuilder). It is opened with TaskContext.Store.
func KeyValueStore[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) *KVDef[K, V] {
	return &KVDef[K, V]{name: name, ks: ks, vs: vs, site: here()}
}

func (d *KVDef[K, V]) connect(c *connection) {
	c.store(topology.Store{
		Name: d.name, Format: operators.FormatKV, Site: d.site, Owner: d,
		Key:   serdeInfo(given(c.b, d.site, "key", d.ks)),
		Value: serdeInfo(given(c.b, d.site, "value", d.vs)),
	})
}

// Store opens a key-value store that was passed to Process.
func (c *TaskContext) Store[K, V any](def *KVDef[K, V]) (*KV[K, V], error) {
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
	v, ok, err := s.in.Get(k)
	return v, ok, s.fault(err)
}

// Put makes v the value of k. A missing Opt deletes k.
func (s *KV[K, V]) Put(k K, v V) error {
	if s.null != nil && s.null(v) {
		return s.Delete(k)
	}
	return s.fault(s.in.Put(k, v))
}

// Delete removes k; a missing key is no error.
func (s *KV[K, V]) Delete(k K) error { return s.fault(s.in.Delete(k)) }

// WindowKVDef defines a window store.
type WindowKVDef[K, V any] struct {
	name      string
	retention time.Duration
	ks        serde.Serde[K]
	vs        serde.Serde[V]
	site      topology.Site
}

// WindowStore defines a store keyed by key and window start (Kafka Streams'
// Stores.windowStoreBuilder). Windows that began more than retention before
// stream time are dropped. It is opened with TaskContext.WindowStore.
func WindowStore[K, V any](name string, retention time.Duration, ks serde.Serde[K], vs serde.Serde[V]) *WindowKVDef[K, V] {
	return &WindowKVDef[K, V]{name: name, retention: retention, ks: ks, vs: vs, site: here()}
}

func (d *WindowKVDef[K, V]) connect(c *connection) {
	if d.retention < time.Millisecond {
		c.b.t.Errorf(d.site, "window store %q: retention %v must be at least 1ms", d.name, d.retention)
	}
	c.store(topology.Store{
		Name: d.name, Format: operators.FormatWindowKV, Site: d.site, Owner: d,
		GraceMs: d.retention.Milliseconds(),
		Key:     serdeInfo(given(c.b, d.site, "key", d.ks)),
		Value:   serdeInfo(given(c.b, d.site, "value", d.vs)),
	})
}

// WindowStore opens a window store that was passed to Process.
func (c *TaskContext) WindowStore[K, V any](def *WindowKVDef[K, V]) (*WindowKV[K, V], error) {
	s, err := operators.OpenWindows(c.core, def.name, def.ks, def.vs, def.retention.Milliseconds())
	if err != nil {
		return nil, err
	}
	return &WindowKV[K, V]{in: s, null: nullOf(def.vs), fault: c.core.Fault}, nil
}

// WindowKV is an open window store. Starts are in milliseconds since the epoch.
// Errors are as with KV.
type WindowKV[K, V any] struct {
	in    *state.WindowStore[K, V]
	null  func(V) bool
	fault func(error) error
}

// Get returns the value of k in the window that begins at start.
func (s *WindowKV[K, V]) Get(k K, start int64) (V, bool, error) {
	v, ok, err := s.in.Get(k, start)
	return v, ok, s.fault(err)
}

// Put makes v the value of k in the window that begins at start. A missing Opt
// deletes it.
func (s *WindowKV[K, V]) Put(k K, start int64, v V) error {
	if s.null != nil && s.null(v) {
		return s.Delete(k, start)
	}
	return s.fault(s.in.Put(k, start, v))
}

// Delete removes k from the window that begins at start.
func (s *WindowKV[K, V]) Delete(k K, start int64) error { return s.fault(s.in.Delete(k, start)) }

// Range calls yield for the entries of the windows that begin in [from, to), by
// start and then by serialised key, until it returns false (Kafka Streams'
// fetchAll, which includes to). The scan shows the store as it was at its
// beginning, and the store may be changed from yield.
func (s *WindowKV[K, V]) Range(from, to int64, yield func(start int64, k K, v V) bool, order ...ScanOrder) error {
	it, err := s.in.Scan(from, to, descending(order))
	if err != nil {
		return s.fault(err)
	}
	defer func() { _ = it.Close() }()
	for it.Next() {
		if !yield(it.Start(), it.Key(), it.Value()) {
			return nil
		}
	}
	return s.fault(it.Err())
}
