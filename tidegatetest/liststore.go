package tidegatetest

import (
	"bytes"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// ListStore reads a processor's list store. It sees what the processor sees, and
// cannot write.
type ListStore[K, V any] struct{ in opened[K, V] }

// ListStore opens a processor's ListStore.
func (d *Driver) ListStore[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) *ListStore[K, V] {
	d.t.Helper()
	in, err := openStore(d, name, ks, vs, operators.FormatList)
	if err != nil {
		d.t.Fatalf("ListStore(%q): %v", name, err)
	}
	return &ListStore[K, V]{in}
}

// InPartition is the part of the store that the task of one partition keeps.
func (s *ListStore[K, V]) InPartition(p int32) *ListStore[K, V] {
	s.in.d.t.Helper()
	return &ListStore[K, V]{s.in.only(p)}
}

func (s *ListStore[K, V]) part(task ids.TaskID) *state.ListStore[[]byte, []byte] {
	s.in.d.t.Helper()
	return state.NewListStore(s.in.desc.Name, s.in.part(task), serde.Bytes(), serde.Bytes(), state.NewCache(0))
}

// Get returns the list of k, nil if there is none. If several partitions have one
// it is that of the lowest.
func (s *ListStore[K, V]) Get(k K) []V {
	s.in.d.t.Helper()
	for _, task := range s.in.tasks {
		var out []V
		s.in.check(s.part(task).Each(s.in.key(k), false, func(b []byte) bool {
			v, _ := s.in.decode(b)
			out = append(out, v)
			return true
		}))
		if out != nil {
			return out
		}
	}
	return nil
}

// Keys returns every key that has a list, by partition and then in the order of
// serialised keys.
func (s *ListStore[K, V]) Keys() []K {
	s.in.d.t.Helper()
	var out []K
	for _, task := range s.in.tasks {
		s.in.check(s.part(task).Keys(false, func(b []byte, _ int64) bool {
			k, err := s.in.ks.Decode(bytes.Clone(b))
			s.in.check(err)
			out = append(out, k)
			return true
		}))
	}
	return out
}
