package operators

import (
	"math"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// TTL says how long entries of a store live; Ms is in milliseconds.
type TTL struct {
	Ms int64
	// RefreshOnRead: a Get that finds an entry refreshes it, as a Put does.
	RefreshOnRead bool
	// UntilCleaned: an expired entry is shown until it is cleaned.
	UntilCleaned bool
}

// UserTTL is a user's key-value store whose entries expire in stream time.
type UserTTL[K, V any] struct {
	st  *state.TTLStore[K, V]
	p   *ProcessorCore
	ttl TTL
}

// OpenTTL opens a user's store with a time to live in Init.
func OpenTTL[K, V any](p *ProcessorCore, name string, ks serde.Serde[K], vs serde.Serde[V], ttl TTL) (*UserTTL[K, V], error) {
	st, err := userStore(p, name, func(kv state.KV, opts []state.StoreOption) (*state.TTLStore[K, V], error) {
		st := state.NewTTLStore(name, kv, ks, vs, ttl.Ms, p.b.g.cache, opts...)
		p.g.timers.cleanAfter(&ttlCleaner{clean: st.Clean, every: max(1, ttl.Ms/4)})
		return st, nil
	})
	if err != nil {
		return nil, err
	}
	return &UserTTL[K, V]{st, p, ttl}, nil
}

func (s *UserTTL[K, V]) now() int64 { return s.p.c.now() }

// Get returns the value of k.
func (s *UserTTL[K, V]) Get(k K) (v V, ok bool, err error) {
	v, ok, alive, err := s.st.Get(k, s.now())
	switch {
	case err != nil:
	case ok && alive && s.ttl.RefreshOnRead:
		err = s.st.Refresh(k, s.now())
	case ok && !alive && !s.ttl.UntilCleaned:
		var none V
		return none, false, nil
	}
	return v, ok, s.p.Fault(err)
}

// Put makes v the value of k.
func (s *UserTTL[K, V]) Put(k K, v V) error { return s.p.Fault(s.st.Put(k, v, s.now())) }

// Delete removes k.
func (s *UserTTL[K, V]) Delete(k K) error { return s.p.Fault(s.st.Delete(k)) }

// Scan goes over serialised keys in [from, to); it refreshes nothing.
func (s *UserTTL[K, V]) Scan(from, to []byte, reverse bool, yield func(K, V) bool) error {
	return s.p.Fault(s.st.Scan(from, to, reverse, s.ttl.UntilCleaned, s.now(), yield))
}

// ApproximateLen is about the number of entries that are not cleaned yet.
func (s *UserTTL[K, V]) ApproximateLen() (int64, error) {
	n, err := s.st.ApproximateLen()
	return n, s.p.Fault(err)
}

// ttlCleaner removes expired entries when stream time passes a multiple of every,
// and at each further step of stream time while there are more.
type ttlCleaner struct {
	clean func(now int64) (more bool, err error)
	every int64
	at    int64
}

func (c *ttlCleaner) due() int64 { return c.at }

func (c *ttlCleaner) send(_ *Context, streamTime int64) error {
	if streamTime < c.at {
		return nil
	}
	more, err := c.clean(streamTime)
	if err != nil {
		return err
	}
	c.at = math.MaxInt64
	switch now := clampTime(streamTime); {
	case now != streamTime: // as far as times are told apart
	case more:
		c.at = streamTime + 1
	default:
		c.at = floor(now, c.every) + c.every
	}
	return nil
}
