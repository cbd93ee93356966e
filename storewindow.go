package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

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
// stream time are not there any more, and are dropped from the disk in segments
// of a quarter of the retention, at least a second. It is opened with
// TaskContext.WindowStore.
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
	if def == nil {
		return nil, errNilPart("WindowStore")
	}
	s, err := operators.OpenWindows(c.core, def.name, def.ks, def.vs, def.retention.Milliseconds())
	if err != nil {
		return nil, err
	}
	return &WindowKV[K, V]{in: s, null: nullOf(def.vs)}, nil
}

// WindowKV is an open window store. Starts are in milliseconds since the epoch.
// Errors are as with KV.
type WindowKV[K, V any] struct {
	in   *operators.UserWindows[K, V]
	null func(V) bool
}

// Get returns the value of k in the window that begins at start.
func (s *WindowKV[K, V]) Get(k K, start int64) (V, bool, error) { return s.in.Get(k, start) }

// Put makes v the value of k in the window that begins at start. A missing Opt
// deletes it. A window that began more than the retention before stream time is
// not stored, and the record counts as late.
func (s *WindowKV[K, V]) Put(k K, start int64, v V) error {
	if s.null != nil && s.null(v) {
		return s.Delete(k, start)
	}
	return s.in.Put(k, start, v)
}

// Delete removes k from the window that begins at start.
func (s *WindowKV[K, V]) Delete(k K, start int64) error { return s.in.Delete(k, start) }

// Fetch calls yield for the windows of k that begin in [from, to), by start, until
// it returns false (Kafka Streams' fetch and backwardFetch, which include to). It
// reads only rows of k. math.MaxInt64 as to has no end. The store may be changed
// from yield; the scan does not show it, or shows it in a later segment only.
func (s *WindowKV[K, V]) Fetch(k K, from, to int64, yield func(start int64, v V) bool, order ...ScanOrder) error {
	return s.in.Fetch(k, from, to, descending(order), yield)
}

// Range calls yield for the entries of all keys in the windows that begin in
// [from, to), until it returns false (Kafka Streams' fetchAll and
// backwardFetchAll, which include to). As there the order is by segment (see
// WindowStore), then by key (the shorter serialised form first), then by start.
// The scan shows the store as it was at its beginning, and the store may be
// changed from yield.
func (s *WindowKV[K, V]) Range(from, to int64, yield func(start int64, k K, v V) bool, order ...ScanOrder) error {
	return s.in.Range(from, to, descending(order), func(k K, start int64, v V) bool { return yield(start, k, v) })
}

// ApproximateLen is about the number of entries in all windows; see
// KV.ApproximateLen.
func (s *WindowKV[K, V]) ApproximateLen() (int64, error) { return s.in.ApproximateLen() }
