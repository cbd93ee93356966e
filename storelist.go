package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// ListDef defines a list store.
type ListDef[K, V any] struct {
	name string
	ks   serde.Serde[K]
	vs   serde.Serde[V]
	site topology.Site
}

// ListStore defines a store with a list of values per key (Flink's ListState;
// Kafka Streams has none). It is opened with TaskContext.ListStore.
func ListStore[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) *ListDef[K, V] {
	return &ListDef[K, V]{name: name, ks: ks, vs: vs, site: here()}
}

func (d *ListDef[K, V]) connect(c *connection) {
	c.store(topology.Store{
		Name: d.name, Format: operators.FormatList, Site: d.site, Owner: d,
		Key:   serdeInfo(given(c.b, d.site, "key", d.ks)),
		Value: serdeInfo(given(c.b, d.site, "value", d.vs)),
	})
}

// ListStore opens a list store that was passed to Process.
func (c *TaskContext) ListStore[K, V any](def *ListDef[K, V]) (*ListKV[K, V], error) {
	if def == nil {
		return nil, errNilPart("ListStore")
	}
	s, err := operators.OpenList(c.core, def.name, def.ks, def.vs)
	if err != nil {
		return nil, err
	}
	return &ListKV[K, V]{in: s, fault: c.core.Fault}, nil
}

// ListKV is an open list store. Each element is a row of its own: no call but Each
// costs more with a long list than with a short one, apart from what it removes.
// A key without elements has no list. Values must not be changed. Errors are as
// with KV.
type ListKV[K, V any] struct {
	in    *state.ListStore[K, V]
	fault func(error) error
}

// Append puts values behind the last element of the list of k.
func (s *ListKV[K, V]) Append(k K, values ...V) error {
	for _, v := range values {
		if err := s.in.Append(k, v); err != nil {
			return s.fault(err)
		}
	}
	return nil
}

// Len returns the number of elements of the list of k.
func (s *ListKV[K, V]) Len(k K) (int64, error) {
	n, err := s.in.Len(k)
	return n, s.fault(err)
}

// At returns the element of the list of k at a place counted from 0, and whether
// there is one.
func (s *ListKV[K, V]) At(k K, i int64) (V, bool, error) {
	v, ok, err := s.in.At(k, i)
	return v, ok, s.fault(err)
}

// RemoveFirst takes the first element off the list of k and returns it, and
// whether there was one.
func (s *ListKV[K, V]) RemoveFirst(k K) (V, bool, error) {
	v, ok, err := s.in.RemoveFirst(k)
	return v, ok, s.fault(err)
}

// RemoveLast takes the last element off the list of k and returns it, and whether
// there was one.
func (s *ListKV[K, V]) RemoveLast(k K) (V, bool, error) {
	v, ok, err := s.in.RemoveLast(k)
	return v, ok, s.fault(err)
}

// Trim removes elements from the beginning of the list of k until no more than n
// are left, and returns how many it removed. Trim(k, 0) removes the list.
func (s *ListKV[K, V]) Trim(k K, n int64) (removed int64, err error) {
	removed, err = s.in.Trim(k, n)
	return removed, s.fault(err)
}

// Each calls yield for the elements of the list of k, from the first to the last
// unless the order is Descending, until it returns false. It shows the list as it
// was when Each was called, and the store may be changed from yield.
func (s *ListKV[K, V]) Each(k K, yield func(V) bool, order ...ScanOrder) error {
	return s.fault(s.in.Each(k, descending(order), yield))
}

// Keys calls yield for every key that has a list, and its length, in the order of
// serialised keys, until it returns false. It shows the store as it was when Keys
// was called, and the store may be changed from yield.
func (s *ListKV[K, V]) Keys(yield func(k K, n int64) bool, order ...ScanOrder) error {
	return s.fault(s.in.Keys(descending(order), yield))
}
