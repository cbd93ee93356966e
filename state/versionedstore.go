package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tidegate/tidegate/serde"
)

// VersionedStore keeps the versions of each key's value over a history (Kafka
// Streams' VersionedKeyValueStore): puts come with a timestamp, also out of order,
// and reads may ask for the value as of a time.
//
// A version is valid from its timestamp up to that of the next one; a deletion is
// a version without a value. The latest version of each key stays, however old;
// others go when they were replaced more than the history before the store's
// time. That is the smaller of the task's stream time, which the caller passes,
// and the largest timestamp that was put: neither a topic that is ahead of this
// one nor an upstream that reads ahead makes records of this store old.
//
// In the KV there are the latest versions by key, and below them the replaced
// ones, in segments by the time at which their validity ends: history is expired
// by range deletions, and a look-up reads at most one row per segment. A row
// without a value, whose validity is empty, marks the time of a deletion that is
// not the end of a version. See docs/format/stores.md.
type VersionedStore[K, V any] struct {
	latest  *table[version[V]]
	ks      serde.Serde[K]
	vs      serde.Serde[V]
	clone   func(V) V
	history int64
	segs    segments

	observed int64 // the largest timestamp that was put
	noted    int64 // observed as the KV has it
	kbuf     []byte
	lo, hi   []byte
	vbuf     []byte
}

// NoEnd is the end of the validity of a latest version.
const NoEnd = math.MaxInt64

// Version is a value with its validity in milliseconds: From is in it, To is not.
type Version[V any] struct {
	From, To int64
	Value    V
}

// version is a latest version.
type version[V any] struct {
	from int64
	v    V
}

const (
	versionMeta byte = iota
	versionLatest
	versionHistory
)

// rowVersionHead is the start and the flag before a row's value.
const rowVersionHead = startSize + 1

// VersionSegment is the length of the segments of a history, in milliseconds.
func VersionSegment(history int64) int64 { return max(history/4, 1000) }

// NewVersionedStore returns a versioned store over kv whose latest versions live
// in cache. history is in milliseconds, at least 1 and at most MaxTime.
func NewVersionedStore[K, V any](
	name string, kv KV, ks serde.Serde[K], vs serde.Serde[V], history int64, cache *Cache, opts ...StoreOption,
) (*VersionedStore[K, V], error) {
	s := &VersionedStore[K, V]{
		latest: newTable[version[V]](name, kv, versionSerde[V]{vs}, cache, opts),
		ks:     ks, vs: vs, clone: serde.CloneFunc(vs), history: history,
		observed: -MaxTime, noted: -MaxTime,
	}
	b, ok, err := kv.Get([]byte{versionMeta})
	switch {
	case err != nil:
		return nil, s.latest.fail("read the observed time", nil, err)
	case ok && len(b) != startSize:
		return nil, s.latest.fail("read the observed time", nil, fmt.Errorf("it has %d bytes", len(b)))
	case ok:
		s.observed = int64(binary.BigEndian.Uint64(b))
		s.noted = s.observed
	}
	if s.segs, err = openSegments(kv, []byte{versionHistory}, VersionSegment(history)); err != nil {
		return nil, s.latest.fail("look for segments", nil, err)
	}
	return s, nil
}

// Name returns the store's name.
func (s *VersionedStore[K, V]) Name() string { return s.latest.name }

// Oldest is the earliest time of which the store can tell values, and the
// earliest timestamp that Put takes, at the task's stream time.
func (s *VersionedStore[K, V]) Oldest(streamTime int64) int64 {
	return min(s.observed, clampTime(streamTime)) - s.history
}

// Get returns the latest version of k: its value and timestamp. The value is the
// cached one and must not be changed.
func (s *VersionedStore[K, V]) Get(k K) (v V, from int64, ok bool, err error) {
	e, err := s.load(k)
	if err != nil {
		return v, 0, false, err
	}
	return e.val.v, e.val.from, e.present, nil
}

// GetOld is Get with a value that is shared with nobody; see [KVStore.GetOld].
func (s *VersionedStore[K, V]) GetOld(k K) (v V, from int64, ok bool, err error) {
	if !s.latest.olds {
		return v, 0, false, s.latest.fail("get the old value", nil, ErrNoOldValues)
	}
	e, err := s.load(k)
	if err != nil {
		return v, 0, false, err
	}
	old, ok, err := s.latest.oldOf(e)
	return old.v, old.from, ok, err
}

// GetAsOf returns the version of k that is valid at a time. The caller has
// checked that the time is not before Oldest: before it the answer depends on
// what was expired already, except for a latest version, which stays.
func (s *VersionedStore[K, V]) GetAsOf(k K, at int64) (v V, from int64, ok bool, err error) {
	at = clampTime(at)
	e, err := s.load(k)
	if err != nil {
		return v, 0, false, err
	}
	if e.present && e.val.from <= at {
		return e.val.v, e.val.from, true, nil
	}
	row, ok, err := s.next(s.kbuf[1:], at)
	if err != nil || !ok || row.From > at {
		return v, 0, false, err
	}
	return row.Value, row.From, true, nil
}

// Put makes v the version of k from a timestamp on; has is false for a deletion.
// It returns where the new version's validity ends: NoEnd when it is the latest.
// ok is false when the timestamp is before Oldest: then nothing is changed.
func (s *VersionedStore[K, V]) Put(k K, v V, has bool, at, streamTime int64) (end int64, ok bool, err error) {
	at = clampTime(at)
	if at < s.Oldest(streamTime) {
		return 0, false, nil
	}
	e, err := s.load(k)
	if err != nil {
		return 0, false, err
	}
	inOrder := at >= s.observed
	s.observed = max(s.observed, at)
	key := s.kbuf[1:]
	if e.present && at >= e.val.from {
		return NoEnd, true, s.replaceLatest(e, key, v, has, at)
	}
	late := e.present
	end = NoEnd
	if late {
		end = e.val.from
	}
	var row Version[V]
	found := false
	if !inOrder {
		if row, found, err = s.next(key, at); err != nil {
			return 0, false, err
		}
	}
	switch {
	case !found && !late && has:
		return NoEnd, true, s.latest.put(s.kbuf, nil, version[V]{at, v})
	case !found && !has:
		return end, true, s.mark(key, at)
	case !found:
		return end, true, s.write(key, Version[V]{at, end, v}, true)
	case row.From > at && !has:
		return row.From, true, s.mark(key, at)
	case row.From > at:
		return row.From, true, s.write(key, Version[V]{at, row.From, v}, true)
	}
	return row.To, true, s.split(key, row, v, has, at)
}

// replaceLatest puts a version that is not older than the latest one.
func (s *VersionedStore[K, V]) replaceLatest(e *entry[version[V]], key []byte, v V, has bool, at int64) error {
	old, _, err := s.latest.oldOf(e)
	if err != nil {
		return err
	}
	switch {
	case at > old.from:
		err = s.write(key, Version[V]{old.from, at, old.v}, true)
	case !has:
		err = s.mark(key, at)
	}
	if err != nil {
		return err
	}
	if !has {
		return s.latest.del(s.kbuf, nil)
	}
	return s.latest.put(s.kbuf, nil, version[V]{at, v})
}

// split puts a version within the validity of a replaced one.
func (s *VersionedStore[K, V]) split(key []byte, row Version[V], v V, has bool, at int64) error {
	if row.From < at {
		if err := s.write(key, Version[V]{row.From, at, row.Value}, true); err != nil {
			return err
		}
	} else if !has {
		if err := s.mark(key, at); err != nil {
			return err
		}
	}
	if !has {
		return s.write(key, Version[V]{From: row.To, To: row.To}, false)
	}
	return s.write(key, Version[V]{at, row.To, v}, true)
}

// mark keeps the time of a deletion, unless a version ends there.
func (s *VersionedStore[K, V]) mark(key []byte, at int64) error {
	s.lo = s.rowKey(s.lo[:0], s.segs.of(at), key, at)
	_, taken, err := s.latest.kv.Get(s.lo)
	if err != nil {
		return s.latest.fail("read", s.lo, err)
	}
	if taken {
		return nil
	}
	return s.write(key, Version[V]{From: at, To: at}, false)
}

// write stores a row.
func (s *VersionedStore[K, V]) write(key []byte, row Version[V], has bool) (err error) {
	seg := s.segs.of(row.To)
	s.lo = s.rowKey(s.lo[:0], seg, key, row.To)
	s.vbuf = append(binary.BigEndian.AppendUint64(s.vbuf[:0], uint64(row.From)), 0)
	if has {
		s.vbuf[startSize] = 1
		if s.vbuf, err = s.vs.Append(s.vbuf, row.Value); err != nil {
			return s.latest.fail("encode the value of", key, err)
		}
	}
	s.segs.use(seg)
	if err := s.latest.kv.Set(s.lo, s.vbuf); err != nil {
		return s.latest.fail("write", s.lo, err)
	}
	return nil
}

func (s *VersionedStore[K, V]) rowKey(dst []byte, seg int64, key []byte, to int64) []byte {
	dst = s.segs.key(dst, seg)
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	return appendStart(append(dst, key...), to)
}

// next returns the first row of a serialised key whose validity ends behind a
// time: the version valid then, or the one that follows.
func (s *VersionedStore[K, V]) next(key []byte, at int64) (row Version[V], ok bool, err error) {
	err = s.rows(key, at, s.observed, func(r Version[V], _ bool) bool {
		row, ok = r, true
		return false
	})
	return row, ok, err
}

// rows calls f for the rows of a key whose validity ends in (after, to], in order,
// until it returns false.
func (s *VersionedStore[K, V]) rows(key []byte, after, to int64, f func(row Version[V], has bool) bool) error {
	for _, seg := range s.segs.between(after+1, to) {
		more, err := s.segmentRows(seg, key, after, f)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (s *VersionedStore[K, V]) segmentRows(
	seg int64, key []byte, after int64, f func(row Version[V], has bool) bool,
) (more bool, err error) {
	s.lo = s.rowKey(s.lo[:0], seg, key, max(after+1, seg))
	s.hi = s.rowKey(s.hi[:0], seg, key, seg+s.segs.length)
	it := s.latest.kv.Scan(s.lo, s.hi, false)
	defer func() {
		if e := it.Close(); err == nil {
			err = e
		}
	}()
	for it.Next() {
		row, has, err := s.decode(it.Key(), it.Value())
		if err != nil {
			return false, s.latest.fail("decode", it.Key(), err)
		}
		if !f(row, has) {
			return false, nil
		}
	}
	if err := it.Err(); err != nil {
		return false, s.latest.fail("scan", nil, err)
	}
	return true, nil
}

var errVersion = errors.New("a row of a versioned store is cut short or malformed")

func (s *VersionedStore[K, V]) decode(key, b []byte) (row Version[V], has bool, err error) {
	if len(key) < startSize || len(b) < rowVersionHead || b[startSize] > 1 {
		return row, false, errVersion
	}
	if row.To, _, err = splitStart(key[len(key)-startSize:]); err != nil {
		return row, false, err
	}
	row.From = int64(binary.BigEndian.Uint64(b))
	if has = b[startSize] == 1; !has {
		return row, false, nil
	}
	if row.Value, err = s.vs.Decode(b[rowVersionHead:]); err == nil && s.clone != nil {
		row.Value = s.clone(row.Value)
	}
	return row, true, err
}

// History calls yield for the versions of k that are valid at some time in [from,
// to], in order, until it returns false. The caller has checked that from is not
// before Oldest; see GetAsOf.
func (s *VersionedStore[K, V]) History(k K, from, to int64, reverse bool, yield func(Version[V]) bool) error {
	from, to = clampTime(from), clampTime(to)
	e, err := s.load(k)
	if err != nil || from > to {
		return err
	}
	var all []Version[V]
	err = s.rows(s.kbuf[1:], from, s.observed, func(row Version[V], has bool) bool {
		if has && row.From <= to {
			all = append(all, row)
		}
		return row.From <= to
	})
	if err != nil {
		return err
	}
	if e.present && e.val.from <= to {
		all = append(all, Version[V]{e.val.from, NoEnd, e.val.v})
	}
	if reverse {
		slices.Reverse(all)
	}
	for _, v := range all {
		if !yield(v) {
			break
		}
	}
	return nil
}

// Scan iterates over the latest versions in the order of their serialised keys.
func (s *VersionedStore[K, V]) Scan(reverse bool) (*VersionIterator[K, V], error) {
	if err := s.latest.flush(); err != nil {
		return nil, err
	}
	it := s.latest.kv.Scan([]byte{versionLatest}, []byte{versionHistory}, reverse)
	return &VersionIterator[K, V]{KVIterator[K, version[V]]{t: s.latest, ks: s.ks, it: it, skip: 1}}, nil
}

// ExpireBefore removes the segments of replaced versions that begin before
// start, as far as the store's time allows. The caller derives start from the
// task's stream time.
func (s *VersionedStore[K, V]) ExpireBefore(start int64) error {
	start = min(start, s.segs.of(s.observed-s.history+1))
	if err := s.segs.dropBefore(start); err != nil {
		return s.latest.fail("expire history", nil, err)
	}
	return nil
}

// Flush writes what is not in the KV yet.
func (s *VersionedStore[K, V]) Flush() error {
	if s.observed != s.noted {
		b := binary.BigEndian.AppendUint64(nil, uint64(s.observed))
		if err := s.latest.kv.Set([]byte{versionMeta}, b); err != nil {
			return s.latest.fail("write the observed time", nil, err)
		}
		s.noted = s.observed
	}
	return s.latest.flush()
}

// load returns the entry of the latest version of k and leaves its key in kbuf.
func (s *VersionedStore[K, V]) load(k K) (*entry[version[V]], error) {
	b, err := s.ks.Append(append(s.kbuf[:0], versionLatest), k)
	if err != nil {
		return nil, s.latest.fail("encode a key", nil, err)
	}
	s.kbuf = b
	return s.latest.load(b, nil)
}

// VersionIterator walks over the latest versions of a [VersionedStore]; see
// [KVIterator] for what is valid how long.
type VersionIterator[K, V any] struct{ in KVIterator[K, version[V]] }

// Next goes to the next key and reports whether there is one.
func (i *VersionIterator[K, V]) Next() bool { return i.in.Next() }

// Key returns the key.
func (i *VersionIterator[K, V]) Key() K { return i.in.Key() }

// Version returns the latest version of the key.
func (i *VersionIterator[K, V]) Version() Version[V] {
	v := i.in.Value()
	return Version[V]{v.from, NoEnd, v.v}
}

// Err returns the error that ended the iteration, if any.
func (i *VersionIterator[K, V]) Err() error { return i.in.Err() }

// Close frees the iterator; it must be called.
func (i *VersionIterator[K, V]) Close() error { return i.in.Close() }

// versionSerde writes the time before the value.
type versionSerde[V any] struct{ in serde.Serde[V] }

func (s versionSerde[V]) Append(dst []byte, v version[V]) ([]byte, error) {
	return s.in.Append(binary.BigEndian.AppendUint64(dst, uint64(v.from)), v.v)
}

func (s versionSerde[V]) Decode(b []byte) (version[V], error) {
	if len(b) < startSize {
		return version[V]{}, fmt.Errorf("a version of %d bytes is shorter than its timestamp", len(b))
	}
	v, err := s.in.Decode(b[startSize:])
	if err != nil {
		return version[V]{}, err
	}
	return version[V]{int64(binary.BigEndian.Uint64(b)), v}, nil
}

func (s versionSerde[V]) Fingerprint() string { return s.in.Fingerprint() }
func (s versionSerde[V]) Aliases() bool       { return serde.Aliases(s.in) }

func (s versionSerde[V]) Clone(v version[V]) version[V] {
	v.v = serde.Clone(s.in, v.v)
	return v
}
