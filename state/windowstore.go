package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/tidegate/tidegate/serde"
)

// startSize is the length of a window start before a key.
const startSize = 8

// WindowStore is a typed store keyed by window and key (Kafka Streams'
// WindowStore). In the KV the window start comes first, so that the windows lie
// one behind the other and whole windows are dropped with one range deletion.
// The price is that the windows of one key do not lie together: read them one by
// one, their starts are known.
type WindowStore[K, V any] struct {
	t      *table[V]
	ks     serde.Serde[K]
	kbuf   []byte
	groups map[int64]*group[V]
	last   *group[V]
	oldest int64 // no window, cached or stored, begins before this
}

// NewWindowStore returns a typed window store over kv whose entries live in
// cache. The name appears in errors.
func NewWindowStore[K, V any](
	name string, kv KV, ks serde.Serde[K], vs serde.Serde[V], cache *Cache, opts ...StoreOption,
) *WindowStore[K, V] {
	return &WindowStore[K, V]{
		t: newTable(name, kv, vs, cache, opts), ks: ks,
		groups: make(map[int64]*group[V]), oldest: math.MinInt64,
	}
}

// Name returns the store's name.
func (s *WindowStore[K, V]) Name() string { return s.t.name }

// Get returns the value of k in the window that begins at start (milliseconds).
// It is the cached value itself: the caller may change it, and then has to Put
// it.
func (s *WindowStore[K, V]) Get(k K, start int64) (v V, ok bool, err error) {
	key, err := s.key(k, start)
	if err != nil {
		return v, false, err
	}
	e, err := s.t.load(key, s.group(start))
	if err != nil {
		return v, false, err
	}
	return e.val, e.present, nil
}

// Put makes v the value of k in a window. The store keeps v itself, except for
// byte slices, which it copies.
func (s *WindowStore[K, V]) Put(k K, start int64, v V) error {
	key, err := s.key(k, start)
	if err != nil {
		return err
	}
	return s.t.put(key, s.group(start), v)
}

// Delete removes k from a window.
func (s *WindowStore[K, V]) Delete(k K, start int64) error {
	key, err := s.key(k, start)
	if err != nil {
		return err
	}
	return s.t.del(key, s.group(start))
}

// GetOld returns the value as it was last put; see [KVStore.GetOld].
func (s *WindowStore[K, V]) GetOld(k K, start int64) (v V, ok bool, err error) {
	if !s.t.olds {
		return v, false, s.t.fail("get the old value", nil, ErrNoOldValues)
	}
	key, err := s.key(k, start)
	if err != nil {
		return v, false, err
	}
	e, err := s.t.load(key, s.group(start))
	if err != nil {
		return v, false, err
	}
	return s.t.oldOf(e)
}

// PutWithOld makes v the value and returns the one before, like GetOld.
func (s *WindowStore[K, V]) PutWithOld(k K, start int64, v V) (old V, had bool, err error) {
	old, had, err = s.GetOld(k, start)
	if err != nil {
		return old, had, err
	}
	return old, had, s.Put(k, start, v)
}

// Revert forgets what the owner did to a value since it was last put; see
// [KVStore.Revert].
func (s *WindowStore[K, V]) Revert(k K, start int64) (bool, error) {
	key, err := s.key(k, start)
	if err != nil {
		return false, err
	}
	return s.t.revert(key)
}

// ExpireBefore removes every window that begins before start: one range
// deletion in the KV, and cached entries are dropped without being written. It
// may be called for every record: where no window is that old it compares two
// numbers.
func (s *WindowStore[K, V]) ExpireBefore(start int64) error {
	if start <= s.oldest {
		return nil
	}
	if s.oldest == math.MinInt64 {
		// The first call of this store's life: see what an earlier one left.
		if err := s.findOldest(); err != nil || start <= s.oldest {
			return err
		}
	}
	if err := s.t.kv.DeleteRange(nil, appendStart(nil, start)); err != nil {
		return s.t.fail("expire windows", nil, err)
	}
	for _, at := range s.starts(math.MinInt64, start) {
		g := s.groups[at]
		for n := len(g.members); n > 0; n = len(g.members) {
			s.t.drop(g.members[n-1])
		}
		s.forget(g)
	}
	return s.findOldest()
}

// ExpireThrough removes every window that begins before start, and from the one
// that begins there the keys up to k, in the order of their serialised form.
// Dirty entries of these windows must have been written, as Scan does.
func (s *WindowStore[K, V]) ExpireThrough(start int64, k K) error {
	key, err := s.key(k, start)
	if err != nil {
		return err
	}
	if err := s.t.kv.DeleteRange(nil, append(slices.Clone(key), 0)); err != nil {
		return s.t.fail("expire windows", nil, err)
	}
	for _, at := range s.starts(math.MinInt64, start+1) {
		g := s.groups[at]
		for i := len(g.members) - 1; i >= 0; i-- { // drop moves the last one to i
			if e := g.members[i]; e.key <= string(key) {
				s.t.drop(e)
			}
		}
	}
	return s.findOldest()
}

// Oldest is a time before which no window begins: math.MaxInt64 when there is
// none. It may be earlier than the oldest window, after entries were deleted or
// looked for. Only the first call can fail.
func (s *WindowStore[K, V]) Oldest() (int64, error) {
	if s.oldest == math.MinInt64 {
		if err := s.findOldest(); err != nil {
			return 0, err
		}
	}
	return s.oldest, nil
}

// findOldest sets oldest from what is stored and cached.
func (s *WindowStore[K, V]) findOldest() error {
	oldest := int64(math.MaxInt64)
	for at := range s.groups {
		oldest = min(oldest, at)
	}
	it := s.t.kv.Scan(nil, nil, false)
	var err error
	if it.Next() {
		var at int64
		if at, _, err = splitStart(it.Key()); err == nil {
			oldest = min(oldest, at)
		}
	}
	if err == nil {
		err = it.Err()
	}
	if e := it.Close(); err == nil {
		err = e
	}
	if err != nil {
		return s.t.fail("look for the oldest window", nil, err)
	}
	s.oldest = oldest
	return nil
}

// starts lists the cached windows that begin in [from, to), in order.
func (s *WindowStore[K, V]) starts(from, to int64) []int64 {
	starts := make([]int64, 0, len(s.groups))
	for at := range s.groups {
		if at >= from && (at < to || to == math.MaxInt64) {
			starts = append(starts, at)
		}
	}
	slices.Sort(starts)
	return starts
}

// Scan iterates over the windows that begin in [from, to), by start and then
// by serialised key, downwards if reverse. math.MinInt64 and math.MaxInt64 are
// open bounds. Dirty entries of these windows are written first; see
// [KVStore.Scan].
func (s *WindowStore[K, V]) Scan(from, to int64, reverse bool) (*WindowIterator[K, V], error) {
	for _, at := range s.starts(from, to) {
		if err := s.t.flushMembers(s.groups[at]); err != nil {
			return nil, err
		}
	}
	var lo, hi []byte
	if from != math.MinInt64 {
		lo = appendStart(nil, from)
	}
	if to != math.MaxInt64 {
		hi = appendStart(nil, to)
	}
	return &WindowIterator[K, V]{KVIterator[K, V]{t: s.t, ks: s.ks, it: s.t.kv.Scan(lo, hi, reverse)}, 0}, nil
}

// Flush writes every dirty entry to the KV; they stay cached.
func (s *WindowStore[K, V]) Flush() error {
	if err := s.t.flush(); err != nil {
		return err
	}
	if len(s.groups) > 64 {
		for _, g := range s.groups {
			if len(g.members) == 0 && g != s.last {
				s.forget(g)
			}
		}
	}
	return nil
}

// Dirty returns the number of entries that a Flush would write.
func (s *WindowStore[K, V]) Dirty() int { return s.t.nDirty }

func (s *WindowStore[K, V]) key(k K, start int64) ([]byte, error) {
	b, err := s.ks.Append(appendStart(s.kbuf[:0], start), k)
	if err != nil {
		return nil, s.t.fail("encode a key", nil, err)
	}
	s.kbuf = b
	return b, nil
}

func (s *WindowStore[K, V]) group(start int64) *group[V] {
	if g := s.last; g != nil && g.start == start {
		return g
	}
	g := s.groups[start]
	if g == nil {
		g = &group[V]{start: start}
		s.groups[start] = g
		s.oldest = min(s.oldest, start)
	}
	s.last = g
	return g
}

func (s *WindowStore[K, V]) forget(g *group[V]) {
	delete(s.groups, g.start)
	if s.last == g {
		s.last = nil
	}
}

// appendStart appends a window start so that bytes sort as the numbers do.
func appendStart(dst []byte, start int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(start)^(1<<63))
}

// splitStart takes the window start off a key.
func splitStart(b []byte) (start int64, key []byte, err error) {
	if len(b) < startSize {
		return 0, nil, fmt.Errorf("a window key of %d bytes is shorter than its start", len(b))
	}
	return int64(binary.BigEndian.Uint64(b) ^ (1 << 63)), b[startSize:], nil
}

// WindowIterator walks over a range of a [WindowStore]; see [KVIterator] for
// what is valid how long.
type WindowIterator[K, V any] struct {
	in    KVIterator[K, V]
	start int64
}

// Next goes to the next entry and reports whether there is one.
func (i *WindowIterator[K, V]) Next() bool {
	in := &i.in
	if in.err != nil || !in.it.Next() {
		return false
	}
	start, key, err := splitStart(in.it.Key())
	if err == nil {
		i.start = start
		in.k, err = in.ks.Decode(key)
	}
	if err != nil {
		in.err = in.t.fail("decode", in.it.Key(), err)
		return false
	}
	if in.v, err = in.t.decode(in.it.Value()); err != nil {
		in.err = in.t.fail("decode the value of", in.it.Key(), err)
		return false
	}
	return true
}

// Start returns the window start of the present entry, in milliseconds.
func (i *WindowIterator[K, V]) Start() int64 { return i.start }

// Key returns the key of the present entry.
func (i *WindowIterator[K, V]) Key() K { return i.in.k }

// Value returns the value of the present entry.
func (i *WindowIterator[K, V]) Value() V { return i.in.v }

// Err returns the error that ended the iteration, if any.
func (i *WindowIterator[K, V]) Err() error { return i.in.Err() }

// Close frees the iterator; it must be called.
func (i *WindowIterator[K, V]) Close() error { return i.in.Close() }
