package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// TimestampedKVDef defines a timestamped key-value store.
type TimestampedKVDef[K, V any] struct {
	name string
	ks   serde.Serde[K]
	vs   serde.Serde[V]
	site topology.Site
}

// TimestampedKeyValueStore defines a key-value store that keeps a timestamp with
// each value (Kafka Streams' Stores.timestampedKeyValueStoreBuilder). It is opened
// with TaskContext.TimestampedStore.
func TimestampedKeyValueStore[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) *TimestampedKVDef[K, V] {
	return &TimestampedKVDef[K, V]{name: name, ks: ks, vs: vs, site: here()}
}

func (d *TimestampedKVDef[K, V]) connect(c *connection) {
	c.store(topology.Store{
		Name: d.name, Format: operators.FormatTable, Site: d.site, Owner: d,
		Key:   serdeInfo(given(c.b, d.site, "key", d.ks)),
		Value: serdeInfo(given(c.b, d.site, "value", d.vs)),
	})
}

// TimestampedStore opens a timestamped store that was passed to Process.
func (c *TaskContext) TimestampedStore[K, V any](def *TimestampedKVDef[K, V]) (*TimestampedKV[K, V], error) {
	if def == nil {
		return nil, errNilPart("TimestampedStore")
	}
	s, err := operators.OpenStamped(c.core, def.name, def.ks, def.vs)
	if err != nil {
		return nil, err
	}
	return &TimestampedKV[K, V]{in: s, ks: def.ks, null: nullOf(def.vs)}, nil
}

// TimestampedKV is an open timestamped key-value store (Kafka Streams'
// TimestampedKeyValueStore, with ValueAndTimestamp). Timestamps are in milliseconds
// since the epoch, whatever their owner means by them. Else it is as KV.
type TimestampedKV[K, V any] struct {
	in   *operators.UserStamped[K, V]
	ks   serde.Serde[K]
	null func(V) bool
}

// Get returns the value of k, its timestamp, and whether there is one.
func (s *TimestampedKV[K, V]) Get(k K) (v V, timestamp int64, ok bool, err error) { return s.in.Get(k) }

// Put makes v, with a timestamp, the value of k. A missing Opt deletes k.
func (s *TimestampedKV[K, V]) Put(k K, v V, timestamp int64) error {
	if s.null != nil && s.null(v) {
		return s.Delete(k)
	}
	return s.in.Put(k, v, timestamp)
}

// PutIfAbsent makes v the value of k if k has none. It returns the value that was
// there, its timestamp, and whether there was one.
func (s *TimestampedKV[K, V]) PutIfAbsent(k K, v V, timestamp int64) (old V, oldTimestamp int64, had bool, err error) {
	if old, oldTimestamp, had, err = s.Get(k); err != nil || had {
		return old, oldTimestamp, had, err
	}
	return old, 0, false, s.Put(k, v, timestamp)
}

// Delete removes k; a missing key is no error.
func (s *TimestampedKV[K, V]) Delete(k K) error { return s.in.Delete(k) }

// All calls yield for every entry until it returns false; see KV.All.
func (s *TimestampedKV[K, V]) All(yield func(k K, v V, timestamp int64) bool, order ...ScanOrder) error {
	return s.in.Scan(nil, nil, descending(order), yield)
}

// Range is All for the keys in [from, to); see KV.Range.
func (s *TimestampedKV[K, V]) Range(from, to K, yield func(k K, v V, timestamp int64) bool, order ...ScanOrder) error {
	lo, hi, err := keyRange(s.ks, from, to)
	if err != nil {
		return err
	}
	return s.in.Scan(lo, hi, descending(order), yield)
}

// Prefix is All for the keys whose serialised form begins with that of p; see
// KV.Prefix.
func (s *TimestampedKV[K, V]) Prefix[P any](
	p P, ps serde.Serde[P], yield func(k K, v V, timestamp int64) bool, order ...ScanOrder,
) error {
	lo, hi, err := prefixRange(ps, p)
	if err != nil {
		return err
	}
	return s.in.Scan(lo, hi, descending(order), yield)
}

// ApproximateLen is about the number of entries; see KV.ApproximateLen.
func (s *TimestampedKV[K, V]) ApproximateLen() (int64, error) { return s.in.ApproximateLen() }
