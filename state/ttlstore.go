package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidegate/tidegate/serde"
)

// TTLStore is a key-value store whose entries live for some time after they were
// last refreshed (Flink's StateTtlConfig; Kafka Streams has none). The time is
// passed by the caller and must never fall: stream time, so that a replay finds
// what the first run found.
//
// In the KV there are the entries, each with the time of its last refresh, and
// below them one row per entry in the order of time, the index. An entry's index
// row lies where the entry would have expired when the row was written. Refreshing
// does not move it; cleaning does when it gets there and finds that the entry was
// refreshed. So a refresh writes one row, and cleaning reads each living entry
// once per time to live. See docs/format/stores.md.
//
// Invariant: an entry that is in the cache or the KV has exactly one index row, at
// the time that the entry says.
type TTLStore[K, V any] struct {
	t   *table[mortal[V]]
	ks  serde.Serde[K]
	ttl int64
	// writes counts index rows written since the last cleaning, which may have to
	// look at twice as many, so that it catches up.
	writes  int
	cleaned int64 // no index row lies before
	kbuf    []byte
	ibuf    []byte
}

// mortal is an entry of a TTLStore.
type mortal[V any] struct {
	at      int64 // when it was refreshed
	indexed int64 // where its index row is
	v       V
}

const (
	ttlEntry byte = iota
	ttlIndex
)

// cleanAtLeast is how many index rows a cleaning may look at in any case.
const cleanAtLeast = 256

// NewTTLStore returns a store over kv whose entries live in cache and last for ttl
// milliseconds, at least 1.
func NewTTLStore[K, V any](
	name string, kv KV, ks serde.Serde[K], vs serde.Serde[V], ttl int64, cache *Cache, opts ...StoreOption,
) *TTLStore[K, V] {
	return &TTLStore[K, V]{
		t: newTable[mortal[V]](name, kv, mortalSerde[V]{vs}, cache, opts), ks: ks, ttl: ttl,
		cleaned: math.MinInt64,
	}
}

// Name returns the store's name.
func (s *TTLStore[K, V]) Name() string { return s.t.name }

// Get returns the entry of k whether or not it is expired, until it is cleaned;
// alive says whether it is not. The value is the cached one.
func (s *TTLStore[K, V]) Get(k K, now int64) (v V, ok, alive bool, err error) {
	if err := s.entry(k); err != nil {
		return v, false, false, err
	}
	e, err := s.t.load(s.kbuf, nil)
	if err != nil {
		return v, false, false, err
	}
	return e.val.v, e.present, e.present && s.alive(e.val, now), nil
}

// Refresh makes the entry of k, which must be there, as new.
func (s *TTLStore[K, V]) Refresh(k K, now int64) error {
	if err := s.entry(k); err != nil {
		return err
	}
	e, err := s.t.load(s.kbuf, nil)
	if err != nil || !e.present || e.val.at == clampTime(now) {
		return err
	}
	m := e.val
	m.at = clampTime(now)
	return s.t.put(s.kbuf, nil, m)
}

// Put makes v the value of k and refreshes it.
func (s *TTLStore[K, V]) Put(k K, v V, now int64) error {
	if err := s.entry(k); err != nil {
		return err
	}
	e, err := s.t.load(s.kbuf, nil)
	if err != nil {
		return err
	}
	at := clampTime(now)
	if e.present {
		return s.t.put(s.kbuf, nil, mortal[V]{at, e.val.indexed, v})
	}
	// The entry first: a value that cannot be encoded leaves no index row.
	if err := s.t.put(s.kbuf, nil, mortal[V]{at, at + s.ttl, v}); err != nil {
		return err
	}
	return s.index(at+s.ttl, s.kbuf[1:])
}

// Delete removes k.
func (s *TTLStore[K, V]) Delete(k K) error {
	if err := s.entry(k); err != nil {
		return err
	}
	e, err := s.t.load(s.kbuf, nil)
	if err != nil || !e.present {
		return err
	}
	s.ibuf = appendIndex(s.ibuf[:0], e.val.indexed, s.kbuf[1:])
	if err := s.t.kv.Delete(s.ibuf); err != nil {
		return s.t.fail("delete", s.ibuf, err)
	}
	return s.t.del(s.kbuf, nil)
}

// Scan calls yield for the keys whose serialised form is in [from, to), in that
// form's order, downwards if reverse, until it returns false. Dirty entries are
// written first; see [KVStore.Scan]. all also shows expired entries that are not
// cleaned yet.
func (s *TTLStore[K, V]) Scan(from, to []byte, reverse, all bool, now int64, yield func(K, V) bool) (err error) {
	if err := s.t.flush(); err != nil {
		return err
	}
	lo, hi := append([]byte{ttlEntry}, from...), []byte{ttlIndex}
	if to != nil {
		hi = append([]byte{ttlEntry}, to...)
	}
	it := &KVIterator[K, mortal[V]]{t: s.t, ks: s.ks, it: s.t.kv.Scan(lo, hi, reverse), skip: 1}
	defer func() {
		if e := it.Close(); err == nil {
			err = e
		}
	}()
	for it.Next() {
		if m := it.Value(); (all || s.alive(m, now)) && !yield(it.Key(), m.v) {
			return nil
		}
	}
	return it.Err()
}

// Clean removes what is expired. It looks at no more index rows than 256 or twice
// as many as were written since the last call; more reports that there may be
// others.
func (s *TTLStore[K, V]) Clean(now int64) (more bool, err error) {
	now = clampTime(now)
	due, more, err := s.due(now, max(cleanAtLeast, 2*s.writes))
	if err != nil {
		return false, err
	}
	s.writes = 0
	for _, row := range due {
		at, key, err := splitIndex(row)
		if err == nil {
			err = s.cleanKey(at, key, now)
		}
		if err == nil {
			err = s.t.kv.Delete(row)
		}
		if err != nil {
			return false, s.t.fail("clean", row, err)
		}
		s.cleaned = at
	}
	if !more {
		s.cleaned = now + 1
	}
	return more, nil
}

// due returns the index rows up to a time.
func (s *TTLStore[K, V]) due(now int64, limit int) (rows [][]byte, more bool, err error) {
	lo, hi := []byte{ttlIndex}, appendStart([]byte{ttlIndex}, now+1)
	if s.cleaned != math.MinInt64 {
		lo = appendStart(lo, s.cleaned)
	}
	it := s.t.kv.Scan(lo, hi, false)
	for len(rows) < limit && it.Next() {
		rows = append(rows, append([]byte(nil), it.Key()...))
	}
	err = it.Err()
	if e := it.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, false, s.t.fail("look for expired entries", nil, err)
	}
	return rows, len(rows) == limit, nil
}

// cleanKey removes an expired entry, or gives it a new index row.
func (s *TTLStore[K, V]) cleanKey(at int64, key []byte, now int64) error {
	s.kbuf = append(append(s.kbuf[:0], ttlEntry), key...)
	e, err := s.t.load(s.kbuf, nil)
	switch {
	case err != nil || !e.present || e.val.indexed != at:
		return err
	case !s.alive(e.val, now):
		return s.t.del(s.kbuf, nil)
	}
	m := e.val
	m.indexed = m.at + s.ttl
	if err := s.index(m.indexed, key); err != nil {
		return err
	}
	s.writes-- // caused by cleaning
	return s.t.put(s.kbuf, nil, m)
}

// Flush writes every dirty entry to the KV; they stay cached.
func (s *TTLStore[K, V]) Flush() error { return s.t.flush() }

// ApproximateLen is about the number of entries, expired ones that are not cleaned
// yet among them; see [KVStore.ApproximateLen].
func (s *TTLStore[K, V]) ApproximateLen() (int64, error) {
	n, err := s.t.approximateLen()
	return (n + 1) / 2, err // an index row each
}

func (s *TTLStore[K, V]) alive(m mortal[V], now int64) bool { return clampTime(now)-m.at < s.ttl }

func (s *TTLStore[K, V]) index(at int64, key []byte) error {
	s.writes++
	s.ibuf = appendIndex(s.ibuf[:0], at, key)
	if err := s.t.kv.Set(s.ibuf, nil); err != nil {
		return s.t.fail("write", s.ibuf, err)
	}
	return nil
}

// entry makes kbuf the key of the entry of k.
func (s *TTLStore[K, V]) entry(k K) error {
	b, err := s.ks.Append(append(s.kbuf[:0], ttlEntry), k)
	if err != nil {
		return s.t.fail("encode a key", nil, err)
	}
	s.kbuf = b
	return nil
}

func appendIndex(dst []byte, at int64, key []byte) []byte {
	return append(appendStart(append(dst, ttlIndex), at), key...)
}

var errIndexRow = errors.New("a row of the index of a store with a time to live is cut short")

func splitIndex(b []byte) (at int64, key []byte, err error) {
	if len(b) < 1+startSize || b[0] != ttlIndex {
		return 0, nil, errIndexRow
	}
	return splitStart(b[1:])
}

// mortalSerde writes the times before the value.
type mortalSerde[V any] struct{ in serde.Serde[V] }

func (s mortalSerde[V]) Append(dst []byte, m mortal[V]) ([]byte, error) {
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.at))
	return s.in.Append(binary.BigEndian.AppendUint64(dst, uint64(m.indexed)), m.v)
}

func (s mortalSerde[V]) Decode(b []byte) (m mortal[V], err error) {
	if len(b) < 2*startSize {
		return m, fmt.Errorf("an entry of %d bytes is shorter than its times", len(b))
	}
	m.at, m.indexed = int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[startSize:]))
	m.v, err = s.in.Decode(b[2*startSize:])
	return m, err
}

func (s mortalSerde[V]) Fingerprint() string { return s.in.Fingerprint() }
func (s mortalSerde[V]) Aliases() bool       { return serde.CloneFunc(s.in) != nil }

func (s mortalSerde[V]) Clone(m mortal[V]) mortal[V] {
	if clone := serde.CloneFunc(s.in); clone != nil {
		m.v = clone(m.v)
	}
	return m
}
