package operators

import (
	"fmt"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// UserSessions is a user's session store: what ended more than the retention
// before stream time is not there, whether or not its segment was dropped already.
type UserSessions[K, V any] struct {
	st        *state.SessionStore[K, V]
	p         *ProcessorCore
	retention int64
}

// UserSessionSegment is the segment length of a user's session store.
func UserSessionSegment(retention int64) int64 { return state.TimedSegment(retention) }

// OpenSessions opens a user's session store in Init; retention is in milliseconds.
func OpenSessions[K, V any](p *ProcessorCore, name string, ks serde.Serde[K], vs serde.Serde[V], retention int64) (*UserSessions[K, V], error) {
	if err := p.declared(name); err != nil {
		return nil, err
	}
	if had, ok := p.b.stores[name]; ok {
		return &UserSessions[K, V]{had.(*state.SessionStore[K, V]), p, retention}, nil
	}
	kv, err := p.b.g.env.Store(name)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", name, err)
	}
	segment := UserSessionSegment(retention)
	st, err := state.NewSessionStore(name, kv, ks, vs, segment)
	if err != nil {
		return nil, err
	}
	p.b.stores[name] = st
	p.g.timers.expire(newExpiry(Windows{Size: segment, Grace: retention, Advance: segment}, st.ExpireBefore))
	return &UserSessions[K, V]{st, p, retention}, nil
}

// oldest is the earliest end that the store takes and shows.
func (s *UserSessions[K, V]) oldest() int64 { return clampTime(s.p.c.now()) - s.retention }

// gone reports whether a session ended too long ago.
func (s *UserSessions[K, V]) gone(end int64) bool { return clampTime(end) < s.oldest() }

// Get returns the value of the session of k from start to end.
func (s *UserSessions[K, V]) Get(k K, start, end int64) (v V, ok bool, err error) {
	if s.gone(end) {
		return v, false, nil
	}
	v, ok, err = s.st.Get(k, start, end)
	return v, ok, s.p.Fault(err)
}

// Put makes v the value of a session. One that ended too long ago is counted late
// and not stored.
func (s *UserSessions[K, V]) Put(k K, start, end int64, v V) error {
	if start > end {
		return fmt.Errorf("store %q: put a session from %d to %d: it must not end before it begins", s.st.Name(), start, end)
	}
	if s.gone(end) {
		s.p.Late(end)
		return nil
	}
	return s.p.Fault(s.st.Put(k, start, end, v))
}

// Delete removes a session.
func (s *UserSessions[K, V]) Delete(k K, start, end int64) error {
	if s.gone(end) {
		return nil
	}
	return s.p.Fault(s.st.Delete(k, start, end))
}

// Find goes over the sessions of k that have a time in [from, to] in common.
func (s *UserSessions[K, V]) Find(k K, from, to int64, yield func(start, end int64, v V) bool) error {
	return s.p.Fault(s.st.Find(k, max(clampTime(from), s.oldest()), clampTime(to), func(start, end int64, v V) (bool, error) {
		return yield(start, end, v), nil
	}))
}
