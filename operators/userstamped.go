package operators

import (
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// UserStamped is a user's key-value store whose values have a timestamp.
type UserStamped[K, V any] struct {
	st *state.KVStore[K, stamped[V]]
	p  *ProcessorCore
}

// OpenStamped opens a user's timestamped key-value store in Init.
func OpenStamped[K, V any](p *ProcessorCore, name string, ks serde.Serde[K], vs serde.Serde[V]) (*UserStamped[K, V], error) {
	if err := p.declared(name); err != nil {
		return nil, err
	}
	st, err := openTable(p.b, name, ks, vs)
	if err != nil {
		return nil, err
	}
	return &UserStamped[K, V]{st, p}, nil
}

// Get returns the value of k and its timestamp.
func (s *UserStamped[K, V]) Get(k K) (v V, timestamp int64, ok bool, err error) {
	e, ok, err := s.st.Get(k)
	return e.v, e.ts, ok, s.p.Fault(err)
}

// Put makes v, with a timestamp, the value of k.
func (s *UserStamped[K, V]) Put(k K, v V, timestamp int64) error {
	return s.p.Fault(s.st.Put(k, stamped[V]{timestamp, v}))
}

// Delete removes k.
func (s *UserStamped[K, V]) Delete(k K) error { return s.p.Fault(s.st.Delete(k)) }

// Scan goes over the serialised keys in [from, to).
func (s *UserStamped[K, V]) Scan(from, to []byte, reverse bool, yield func(k K, v V, timestamp int64) bool) error {
	it, err := s.st.Scan(from, to, reverse)
	if err != nil {
		return s.p.Fault(err)
	}
	defer func() { _ = it.Close() }()
	for it.Next() {
		if e := it.Value(); !yield(it.Key(), e.v, e.ts) {
			return nil
		}
	}
	return s.p.Fault(it.Err())
}

// ApproximateLen is about the number of entries.
func (s *UserStamped[K, V]) ApproximateLen() (int64, error) {
	n, err := s.st.ApproximateLen()
	return n, s.p.Fault(err)
}
