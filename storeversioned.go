package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// VersionedKVDef defines a versioned key-value store.
type VersionedKVDef[K, V any] struct {
	name    string
	history time.Duration
	ks      serde.Serde[K]
	vs      serde.Serde[V]
	site    topology.Site
}

// VersionedStore defines a key-value store that also keeps the values that were
// replaced less than history ago (Kafka Streams'
// Stores.versionedKeyValueStoreBuilder). It is opened with
// TaskContext.VersionedStore.
func VersionedStore[K, V any](name string, history time.Duration, ks serde.Serde[K], vs serde.Serde[V]) *VersionedKVDef[K, V] {
	return &VersionedKVDef[K, V]{name: name, history: history, ks: ks, vs: vs, site: here()}
}

func (d *VersionedKVDef[K, V]) connect(c *connection) {
	c.store(topology.Store{
		Name: d.name, Format: operators.FormatVersioned, Site: d.site, Owner: d,
		GraceMs: checkHistory(c.b, d.site, "versioned store", d.name, d.history),
		Key:     serdeInfo(given(c.b, d.site, "key", d.ks)),
		Value:   serdeInfo(given(c.b, d.site, "value", d.vs)),
	})
}

// Version is a value with its validity in milliseconds since the epoch: From is
// in it, To is not. To is math.MaxInt64 for a latest version.
type Version[V any] = state.Version[V]

// VersionedKV is an open versioned store. Values must not be changed. Errors are
// as with KV.
type VersionedKV[K, V any] struct {
	in   *state.VersionedStore[K, V]
	null func(V) bool
	core *operators.ProcessorCore
}

// VersionedStore opens a versioned store that was passed to Process.
func (c *TaskContext) VersionedStore[K, V any](def *VersionedKVDef[K, V]) (*VersionedKV[K, V], error) {
	if def == nil {
		return nil, errNilPart("VersionedStore")
	}
	s, err := operators.OpenVersioned(c.core, def.name, def.ks, def.vs, def.history.Milliseconds())
	if err != nil {
		return nil, err
	}
	return &VersionedKV[K, V]{in: s, null: nullOf(def.vs), core: c.core}, nil
}

// Put makes v the value of k from a timestamp on, up to that of the next version.
// A missing Opt is a deletion. Timestamps may come in any order; one that is more
// than the history behind (see Builder.VersionedTable) is refused: stored is
// false, nothing is changed, and the record counts as late.
func (s *VersionedKV[K, V]) Put(k K, v V, timestamp int64) (stored bool, err error) {
	return s.put(k, v, s.null == nil || !s.null(v), timestamp)
}

// Delete deletes k from a timestamp on; see Put.
func (s *VersionedKV[K, V]) Delete(k K, timestamp int64) (stored bool, err error) {
	var zero V
	return s.put(k, zero, false, timestamp)
}

func (s *VersionedKV[K, V]) put(k K, v V, has bool, timestamp int64) (bool, error) {
	_, ok, err := s.in.Put(k, v, has, timestamp, s.core.StreamTime())
	if err == nil && !ok {
		s.core.Late(timestamp)
	}
	return ok, s.core.Fault(err)
}

// Get returns the latest value of k and its timestamp.
func (s *VersionedKV[K, V]) Get(k K) (v V, timestamp int64, ok bool, err error) {
	v, timestamp, ok, err = s.in.Get(k)
	return v, timestamp, ok, s.core.Fault(err)
}

// GetAsOf returns the value of k that was valid at a time, and its timestamp. Of
// times before the history only a value that is still the latest is known.
func (s *VersionedKV[K, V]) GetAsOf(k K, at int64) (v V, timestamp int64, ok bool, err error) {
	v, timestamp, ok, err = operators.ReadAsOf(s.in, k, at, s.core.StreamTime())
	return v, timestamp, ok, s.core.Fault(err)
}

// History calls yield for the versions of k that are valid at some time in [from,
// to], by time, until it returns false (Kafka Streams' MultiVersionedKeyQuery).
// What is before the history is left out.
func (s *VersionedKV[K, V]) History(k K, from, to int64, yield func(Version[V]) bool, order ...ScanOrder) error {
	from = max(from, s.in.Oldest(s.core.StreamTime()))
	return s.core.Fault(s.in.History(k, from, to, descending(order), yield))
}
