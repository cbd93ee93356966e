package operators

import (
	"fmt"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// userStore returns the store of that name, the same to all steps that share it,
// and makes it from its KV when it is first asked for.
func userStore[S interface{ Flush() error }](
	p *ProcessorCore, name string, open func(kv state.KV, opts []state.StoreOption) (S, error),
) (s S, err error) {
	if err := p.declared(name); err != nil {
		return s, err
	}
	if had, ok := p.b.stores[name]; ok {
		return had.(S), nil
	}
	kv, err := p.b.g.env.Store(name)
	if err != nil {
		return s, fmt.Errorf("open store %q: %w", name, err)
	}
	if s, err = open(kv, p.b.storeOptions(name)); err != nil {
		return s, err
	}
	p.b.stores[name] = s
	p.b.g.flush = append(p.b.g.flush, s.Flush)
	return s, nil
}

// UserWindows is a user's window store: what began more than the retention before
// stream time is not there, whether or not its segment was dropped already.
type UserWindows[K, V any] struct {
	st        *state.TimedStore[K, V]
	p         *ProcessorCore
	retention int64
}

// OpenWindows opens a user's window store in Init; retention is in milliseconds.
func OpenWindows[K, V any](p *ProcessorCore, name string, ks serde.Serde[K], vs serde.Serde[V], retention int64) (*UserWindows[K, V], error) {
	segment := state.TimedSegment(retention)
	st, err := userStore(p, name, func(kv state.KV, opts []state.StoreOption) (*state.TimedStore[K, V], error) {
		st, err := state.NewTimedStore(name, kv, ks, vs, segment, p.b.g.cache, opts...)
		if err == nil {
			p.g.timers.expire(newExpiry(Windows{Size: segment, Grace: retention, Advance: segment}, st.ExpireBefore))
		}
		return st, err
	})
	if err != nil {
		return nil, err
	}
	return &UserWindows[K, V]{st, p, retention}, nil
}

// oldest is the earliest time that the store takes and shows.
func (s *UserWindows[K, V]) oldest() int64 { return clampTime(s.p.c.now()) - s.retention }

// gone reports whether a window began too long ago.
func (s *UserWindows[K, V]) gone(start int64) bool { return clampTime(start) < s.oldest() }

// Get returns the value of k in the window that begins at start.
func (s *UserWindows[K, V]) Get(k K, start int64) (v V, ok bool, err error) {
	if s.gone(start) {
		return v, false, nil
	}
	v, ok, err = s.st.Get(k, start)
	return v, ok, s.p.Fault(err)
}

// Put makes v the value of k in a window. One that began too long ago is counted
// late and not stored.
func (s *UserWindows[K, V]) Put(k K, start int64, v V) error {
	if s.gone(start) {
		s.p.Late(start)
		return nil
	}
	return s.p.Fault(s.st.Put(k, start, v))
}

// Delete removes k from a window.
func (s *UserWindows[K, V]) Delete(k K, start int64) error {
	if s.gone(start) {
		return nil
	}
	return s.p.Fault(s.st.Delete(k, start))
}

// from is the beginning of a scan. Times beyond the bounds are as they are.
func (s *UserWindows[K, V]) from(from int64) int64 {
	if s.gone(from) {
		return s.oldest()
	}
	return from
}

// Fetch goes over the windows of k that begin in [from, to).
func (s *UserWindows[K, V]) Fetch(k K, from, to int64, reverse bool, yield func(start int64, v V) bool) error {
	return s.p.Fault(s.st.Fetch(k, s.from(from), to, reverse, yield))
}

// Range goes over the windows of all keys that begin in [from, to).
func (s *UserWindows[K, V]) Range(from, to int64, reverse bool, yield func(k K, start int64, v V) bool) error {
	return s.p.Fault(s.st.Range(s.from(from), to, reverse, yield))
}

// ApproximateLen is about the number of rows.
func (s *UserWindows[K, V]) ApproximateLen() (int64, error) {
	n, err := s.st.ApproximateLen()
	return n, s.p.Fault(err)
}
