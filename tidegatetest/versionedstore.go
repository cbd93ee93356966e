package tidegatetest

import (
	"math"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// VersionedStore reads the store of a versioned table or of a processor
// (TopologyTestDriver.getVersionedKeyValueStore). It cannot write.
type VersionedStore[K, V any] struct{ in opened[K, V] }

// VersionedStore opens the store of a versioned table, or a processor's
// VersionedStore.
func (d *Driver) VersionedStore[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) *VersionedStore[K, V] {
	d.t.Helper()
	in, err := openStore(d, name, ks, vs, operators.FormatVersioned)
	if err != nil {
		d.t.Fatalf("VersionedStore(%q): %v", name, err)
	}
	return &VersionedStore[K, V]{in}
}

// InPartition is the part of the store that the task of one partition keeps.
func (s *VersionedStore[K, V]) InPartition(p int32) *VersionedStore[K, V] {
	s.in.d.t.Helper()
	return &VersionedStore[K, V]{s.in.only(p)}
}

func (s *VersionedStore[K, V]) part(task ids.TaskID) *state.VersionedStore[[]byte, []byte] {
	s.in.d.t.Helper()
	st, err := state.NewVersionedStore(s.in.desc.Name, s.in.part(task), serde.Bytes(), serde.Bytes(), s.in.desc.GraceMs, state.NewCache(0))
	s.in.check(err)
	return st
}

// Get returns the latest value of k, its timestamp, and whether there is one
// (VersionedKeyValueStore.get).
func (s *VersionedStore[K, V]) Get(k K) (v V, timestamp int64, ok bool) {
	s.in.d.t.Helper()
	return s.GetAsOf(k, math.MaxInt64)
}

// GetAsOf returns the value of k that was valid at a time, its timestamp, and
// whether there is one (VersionedKeyValueStore.get with a time). What is older
// than the history is shown until it is dropped, which steps do not see.
func (s *VersionedStore[K, V]) GetAsOf(k K, at int64) (v V, timestamp int64, ok bool) {
	s.in.d.t.Helper()
	for _, task := range s.in.tasks {
		b, ts, ok, err := s.part(task).GetAsOf(s.in.key(k), at)
		s.in.check(err)
		if ok {
			v, _ = s.in.decode(b)
			return v, ts, true
		}
	}
	return v, 0, false
}

// History returns the versions of k by time, those of all partitions one behind
// the other, and as far back as they are not dropped.
func (s *VersionedStore[K, V]) History(k K) []tidegate.Version[V] {
	s.in.d.t.Helper()
	var out []tidegate.Version[V]
	for _, task := range s.in.tasks {
		s.in.check(s.part(task).History(s.in.key(k), math.MinInt64, math.MaxInt64, false, func(r state.Version[[]byte]) bool {
			v, _ := s.in.decode(r.Value)
			out = append(out, tidegate.Version[V]{From: r.From, To: r.To, Value: v})
			return true
		}))
	}
	return out
}
