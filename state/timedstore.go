package state

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/tidegate/tidegate/serde"
)

// TimedStore is a typed store keyed by key and time (Kafka Streams' WindowStore
// as processors use it): decoded values in the task's cache above one KV.
//
// In the KV comes first the segment, the time rounded down to a multiple of the
// segment length, then the key and the time. So old segments are dropped with one
// range deletion, and the times of one key in a segment lie together: a scan of
// one key reads no other key's rows, and one range per segment that holds
// something. See docs/format/stores.md. A [WindowStore], whose users know the
// starts they ask for, needs no scans per key and has the times in order instead.
type TimedStore[K, V any] struct {
	t      *table[V]
	ks     serde.Serde[K]
	segs   segments
	groups map[int64]*group[V] // of cached entries, by segment
	last   *group[V]
	kbuf   []byte // a serialised key
	key    []byte // of a row
}

var errTimedKey = errors.New("the key of a row with a time is cut short or malformed")

// TimedSegment is the length of the segments of a store whose rows are kept that
// long, in milliseconds.
func TimedSegment(retention int64) int64 { return max(retention/4, 1000) }

// NewTimedStore returns a typed store over kv whose entries live in cache, with
// segments of that many milliseconds. The name appears in errors.
func NewTimedStore[K, V any](
	name string, kv KV, ks serde.Serde[K], vs serde.Serde[V], segment int64, cache *Cache, opts ...StoreOption,
) (*TimedStore[K, V], error) {
	s := &TimedStore[K, V]{t: newTable(name, kv, vs, cache, opts), ks: ks, groups: make(map[int64]*group[V])}
	var err error
	if s.segs, err = openSegments(kv, nil, segment); err != nil {
		return nil, s.t.fail("look for segments", nil, err)
	}
	return s, nil
}

// Name returns the store's name.
func (s *TimedStore[K, V]) Name() string { return s.t.name }

// Get returns the value of k at a time (milliseconds). It is the cached value
// itself: the caller may change it, and then has to Put it.
func (s *TimedStore[K, V]) Get(k K, at int64) (v V, ok bool, err error) {
	seg, err := s.row(k, at)
	if err != nil {
		return v, false, err
	}
	e, err := s.t.load(s.key, s.group(seg))
	if err != nil {
		return v, false, err
	}
	return e.val, e.present, nil
}

// Put makes v the value of k at a time. The store keeps v itself, except for byte
// slices, which it copies.
func (s *TimedStore[K, V]) Put(k K, at int64, v V) error {
	seg, err := s.row(k, at)
	if err != nil {
		return err
	}
	s.segs.use(seg)
	return s.t.put(s.key, s.group(seg), v)
}

// Delete removes k at a time.
func (s *TimedStore[K, V]) Delete(k K, at int64) error {
	seg, err := s.row(k, at)
	if err != nil {
		return err
	}
	return s.t.del(s.key, s.group(seg))
}

// Fetch calls yield for the times of k in [from, to), in order, downwards if
// reverse, until it returns false. math.MaxInt64 as to is an open bound. Dirty
// entries of the segments are written first; see [KVStore.Scan]. yield sees each
// segment as it was when the scan reached it, values decoded for the caller, and
// may change the store.
func (s *TimedStore[K, V]) Fetch(k K, from, to int64, reverse bool, yield func(at int64, v V) bool) error {
	if from >= to {
		return nil
	}
	b, err := s.ks.Append(nil, k) // yield may use the scratch of the store
	if err != nil {
		return s.t.fail("encode a key", nil, err)
	}
	segs := append([]int64(nil), s.segs.between(clampTime(from), clampTime(to-1))...)
	for i := range segs {
		seg := segs[i]
		if reverse {
			seg = segs[len(segs)-1-i]
		}
		lo := appendRow(nil, seg, b, from)
		hi := appendRow(nil, seg, b, to)
		if to == math.MaxInt64 {
			hi = append(hi, 0)
		}
		more, err := s.scan([]int64{seg}, lo, hi, reverse, func(_ []byte, at int64, v V) (bool, error) {
			return yield(at, v), nil
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// Range calls yield for the rows of all keys with times in [from, to), by
// segment, then by key (first its serialised length, then its bytes), then by
// time, downwards if reverse, until it returns false. math.MaxInt64 as to is an
// open bound. It shows the store as it was at its beginning; else as Fetch. A key
// that aliases its serialised form (serde.Bytes) is valid during the call.
func (s *TimedStore[K, V]) Range(from, to int64, reverse bool, yield func(k K, at int64, v V) bool) error {
	if from >= to {
		return nil
	}
	segs := append([]int64(nil), s.segs.between(clampTime(from), clampTime(to-1))...)
	if len(segs) == 0 {
		return nil
	}
	lo, hi := appendStart(nil, segs[0]), appendStart(nil, segs[len(segs)-1]+1)
	_, err := s.scan(segs, lo, hi, reverse, func(key []byte, at int64, v V) (bool, error) {
		if at < from || at >= to && to != math.MaxInt64 {
			return true, nil
		}
		k, err := s.ks.Decode(key)
		if err != nil {
			return false, s.t.fail("decode", key, err)
		}
		return yield(k, at, v), nil
	})
	return err
}

func (s *TimedStore[K, V]) scan(
	segs []int64, lo, hi []byte, reverse bool, yield func(key []byte, at int64, v V) (bool, error),
) (more bool, err error) {
	for _, seg := range segs {
		if g := s.groups[seg]; g != nil {
			if err := s.t.flushMembers(g); err != nil {
				return false, err
			}
		}
	}
	it := s.t.kv.Scan(lo, hi, reverse)
	defer func() {
		if e := it.Close(); err == nil && e != nil {
			err = s.t.fail("scan", nil, e)
		}
	}()
	for it.Next() {
		key, at, err := splitRow(it.Key())
		if err != nil {
			return false, s.t.fail("decode", it.Key(), err)
		}
		v, err := s.t.decode(it.Value())
		if err != nil {
			return false, s.t.fail("decode the value of", it.Key(), err)
		}
		if more, err := yield(key, at, v); err != nil || !more {
			return false, err
		}
	}
	if err := it.Err(); err != nil {
		return false, s.t.fail("scan", nil, err)
	}
	return true, nil
}

// ExpireBefore removes the segments that begin before start: one range deletion
// in the KV, and cached entries are dropped without being written.
func (s *TimedStore[K, V]) ExpireBefore(start int64) error {
	if err := s.segs.dropBefore(start); err != nil {
		return s.t.fail("expire", nil, err)
	}
	for seg, g := range s.groups {
		if seg >= start {
			continue
		}
		for n := len(g.members); n > 0; n = len(g.members) {
			s.t.drop(g.members[n-1])
		}
		s.forget(g)
	}
	return nil
}

// Flush writes every dirty entry to the KV; they stay cached.
func (s *TimedStore[K, V]) Flush() error {
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

// ApproximateLen is about the number of rows; see [KVStore.ApproximateLen].
func (s *TimedStore[K, V]) ApproximateLen() (int64, error) { return s.t.approximateLen() }

// row makes s.key the key of a row and returns its segment.
func (s *TimedStore[K, V]) row(k K, at int64) (seg int64, err error) {
	if s.kbuf, err = s.ks.Append(s.kbuf[:0], k); err != nil {
		return 0, s.t.fail("encode a key", nil, err)
	}
	seg = s.segs.of(clampTime(at))
	s.key = appendRow(s.key[:0], seg, s.kbuf, at)
	return seg, nil
}

func (s *TimedStore[K, V]) group(seg int64) *group[V] {
	if g := s.last; g != nil && g.start == seg {
		return g
	}
	g := s.groups[seg]
	if g == nil {
		g = &group[V]{start: seg}
		s.groups[seg] = g
	}
	s.last = g
	return g
}

func (s *TimedStore[K, V]) forget(g *group[V]) {
	delete(s.groups, g.start)
	if s.last == g {
		s.last = nil
	}
}

// appendRow appends the key of a row. Times beyond ±MaxTime lie in the first and
// last segment, as they are.
func appendRow(dst []byte, seg int64, key []byte, at int64) []byte {
	dst = appendStart(dst, seg)
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	return appendStart(append(dst, key...), at)
}

// splitRow takes the key of a row apart.
func splitRow(b []byte) (key []byte, at int64, err error) {
	if len(b) < startSize {
		return nil, 0, errTimedKey
	}
	b = b[startSize:]
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)) || uint64(len(b)-w) != n+startSize {
		return nil, 0, errTimedKey
	}
	at, _, err = splitStart(b[w+int(n):])
	return b[w : w+int(n)], at, err
}
