package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/tidegate/tidegate/serde"
)

// SessionStore is a typed store of spans of time per key (Kafka Streams'
// SessionStore): sessions, and windows that begin at records. Both ends of a span
// are in it. The spans of one key must be such that they have the same order by
// their starts and by their ends.
//
// In the KV comes first the segment, the span's end rounded down to a multiple of
// the segment length, then the key, the end and the start. So old segments are
// dropped with one range deletion, and the spans of one key in a segment lie
// together: a look-up reads no other key's spans, and no more segments than lie
// between the times it asks for plus the longest span that was ever stored.
//
// Nothing is cached: every call reads or writes the KV, and values are decoded
// for the caller. Times must be within ±2^62.
type SessionStore[K, V any] struct {
	name    string
	kv      KV
	ks      serde.Serde[K]
	vs      serde.Serde[V]
	clone   func(V) V
	segment int64
	// No span lies in a segment before oldest or behind newest; nothing is stored
	// when newest is less. No span is longer than longest.
	oldest, newest, longest int64

	kbuf, key, lo, hi, val []byte
}

// spanMeta is the key of the length of the longest span. Keys of spans are
// longer and sort behind it.
var spanMeta = []byte{0}

var errSpanKey = errors.New("the key of a span is cut short or malformed")

// noSegment is the newest segment of an empty store.
const noSegment = math.MinInt64

// NewSessionStore returns a typed store over kv with segments of that many
// milliseconds. The name appears in errors.
func NewSessionStore[K, V any](name string, kv KV, ks serde.Serde[K], vs serde.Serde[V], segment int64) (*SessionStore[K, V], error) {
	s := &SessionStore[K, V]{
		name: name, kv: kv, ks: ks, vs: vs, clone: serde.CloneFunc(vs), segment: max(1, segment),
	}
	b, ok, err := kv.Get(spanMeta)
	if err != nil {
		return nil, s.fail("read the longest span", err)
	}
	if ok {
		if len(b) != startSize {
			return nil, s.fail("read the longest span", errSpanKey)
		}
		s.longest = int64(binary.BigEndian.Uint64(b))
	}
	if s.oldest, err = s.edge(false); err == nil {
		s.newest, err = s.edge(true)
	}
	return s, err
}

// Name returns the store's name.
func (s *SessionStore[K, V]) Name() string { return s.name }

// edge returns the first or last segment.
func (s *SessionStore[K, V]) edge(last bool) (segment int64, err error) {
	it := s.kv.Scan(appendStart(nil, math.MinInt64), nil, last)
	defer s.close(it, &err)
	if !it.Next() {
		segment = math.MaxInt64
		if last {
			segment = noSegment
		}
		return segment, it.Err()
	}
	segment, _, err = splitStart(it.Key())
	if err != nil {
		return 0, s.fail("look for segments", err)
	}
	return segment, nil
}

func (s *SessionStore[K, V]) close(it Iterator, err *error) {
	if e := it.Close(); *err == nil && e != nil {
		*err = s.fail("scan", e)
	}
}

func (s *SessionStore[K, V]) segmentOf(t int64) int64 {
	r := t % s.segment
	if r < 0 {
		r += s.segment
	}
	return t - r
}

// encode serialises a key into kbuf.
func (s *SessionStore[K, V]) encode(k K) (err error) {
	if s.kbuf, err = s.ks.Append(s.kbuf[:0], k); err != nil {
		return s.fail("encode a key", err)
	}
	return nil
}

// appendSpan appends the key of a span up to the end.
func appendSpan(dst []byte, segment int64, key []byte, end int64) []byte {
	dst = appendStart(dst, segment)
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	return appendStart(dst, end)
}

// splitSpan takes the key of a span apart.
func splitSpan(b []byte) (key []byte, start, end int64, err error) {
	if len(b) < startSize {
		return nil, 0, 0, errSpanKey
	}
	b = b[startSize:]
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)) || uint64(len(b)-w) != n+2*startSize {
		return nil, 0, 0, errSpanKey
	}
	key, b = b[w:w+int(n)], b[w+int(n):]
	if end, b, err = splitStart(b); err == nil {
		start, _, err = splitStart(b)
	}
	if err != nil || start > end {
		return nil, 0, 0, errSpanKey
	}
	return key, start, end, nil
}

// span makes s.key the key of a span.
func (s *SessionStore[K, V]) span(k K, start, end int64) error {
	if err := s.encode(k); err != nil {
		return err
	}
	s.key = appendStart(appendSpan(s.key[:0], s.segmentOf(end), s.kbuf, end), start)
	return nil
}

// Get returns the value of a span, decoded for the caller.
func (s *SessionStore[K, V]) Get(k K, start, end int64) (v V, ok bool, err error) {
	if err := s.span(k, start, end); err != nil {
		return v, false, err
	}
	b, ok, err := s.kv.Get(s.key)
	if err != nil {
		return v, false, s.fail("get", err)
	}
	if !ok {
		return v, false, nil
	}
	v, err = s.decode(b)
	return v, err == nil, err
}

// Put makes v the value of a span.
func (s *SessionStore[K, V]) Put(k K, start, end int64, v V) (err error) {
	if start > end {
		return s.fail("put", fmt.Errorf("a span from %d to %d ends before it starts", start, end))
	}
	if s.val, err = s.vs.Append(s.val[:0], v); err != nil {
		return s.fail("encode a value", err)
	}
	if err := s.span(k, start, end); err != nil {
		return err
	}
	if end-start > s.longest {
		if err := s.lengthen(end - start); err != nil {
			return err
		}
	}
	if err := s.kv.Set(s.key, s.val); err != nil {
		return s.fail("put", err)
	}
	seg := s.segmentOf(end)
	s.oldest, s.newest = min(s.oldest, seg), max(s.newest, seg)
	return nil
}

// lengthen notes that spans get longer. Powers of two keep it rare.
func (s *SessionStore[K, V]) lengthen(length int64) error {
	longest := int64(1)<<min(62, bits.Len64(uint64(length))) - 1
	if err := s.kv.Set(spanMeta, binary.BigEndian.AppendUint64(nil, uint64(longest))); err != nil {
		return s.fail("note the longest span", err)
	}
	s.longest = longest
	return nil
}

// Delete removes a span.
func (s *SessionStore[K, V]) Delete(k K, start, end int64) error {
	if err := s.span(k, start, end); err != nil {
		return err
	}
	if err := s.kv.Delete(s.key); err != nil {
		return s.fail("delete", err)
	}
	return nil
}

// Find calls yield for the spans of k that have a time in [from, to] in common
// with them, by their ends, until it returns false or an error. yield may change
// the store, of which it sees what was there before, but not look into it.
func (s *SessionStore[K, V]) Find(k K, from, to int64, yield func(start, end int64, v V) (bool, error)) error {
	return s.scan(k, from, to+s.longest, to, false, yield)
}

// Range calls yield for the spans of k that end in [from, to], by their ends,
// downwards if reverse, until it returns false or an error; see Find.
func (s *SessionStore[K, V]) Range(k K, from, to int64, reverse bool, yield func(start, end int64, v V) (bool, error)) error {
	return s.scan(k, from, to, math.MaxInt64, reverse, yield)
}

// scan goes over the spans that end in [from, to] up to one that starts after
// latest.
func (s *SessionStore[K, V]) scan(
	k K, from, to, latest int64, reverse bool, yield func(start, end int64, v V) (bool, error),
) error {
	if from > to || s.newest < s.oldest {
		return nil
	}
	if err := s.encode(k); err != nil {
		return err
	}
	// yield may serialise another key.
	key := append(s.hi[:0], s.kbuf...)
	s.hi = key
	lo, hi := max(s.segmentOf(from), s.oldest), min(s.segmentOf(to), s.newest)
	for n := (hi - lo) / s.segment; lo <= hi && n >= 0; n-- {
		seg := hi - n*s.segment
		if reverse {
			seg = lo + n*s.segment
		}
		more, err := s.scanSegment(seg, key, from, to, latest, reverse, yield)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (s *SessionStore[K, V]) scanSegment(
	seg int64, key []byte, from, to, latest int64, reverse bool, yield func(start, end int64, v V) (bool, error),
) (more bool, err error) {
	s.lo = appendSpan(s.lo[:0], seg, key, from)
	mid := len(s.lo)
	s.lo = appendSpan(s.lo, seg, key, to+1)
	it := s.kv.Scan(s.lo[:mid:mid], s.lo[mid:], reverse)
	defer s.close(it, &err)
	for it.Next() {
		_, start, end, err := splitSpan(it.Key())
		if err != nil {
			return false, s.fail("scan", err)
		}
		if start > latest {
			return false, nil
		}
		v, err := s.decode(it.Value())
		if err != nil {
			return false, err
		}
		if more, err := yield(start, end, v); err != nil || !more {
			return false, err
		}
	}
	if err := it.Err(); err != nil {
		return false, s.fail("scan", err)
	}
	return true, nil
}

// All calls yield for every span, by segment, serialised key and end, until it
// returns false. A key that aliases its serialised form (serde.Bytes) is valid
// during the call.
func (s *SessionStore[K, V]) All(yield func(k K, start, end int64, v V) bool) (err error) {
	it := s.kv.Scan(appendStart(nil, math.MinInt64), nil, false)
	defer s.close(it, &err)
	for it.Next() {
		b, start, end, err := splitSpan(it.Key())
		if err != nil {
			return s.fail("scan", err)
		}
		k, err := s.ks.Decode(b)
		if err != nil {
			return s.fail("decode a key", err)
		}
		v, err := s.decode(it.Value())
		if err != nil {
			return err
		}
		if !yield(k, start, end, v) {
			return nil
		}
	}
	if err := it.Err(); err != nil {
		return s.fail("scan", err)
	}
	return nil
}

// ExpireBefore removes the segments all of whose spans end before a time, with
// one range deletion; spans of the segment in which the time lies stay. It may be
// called for every record: where no segment is that old it compares two numbers.
func (s *SessionStore[K, V]) ExpireBefore(end int64) (err error) {
	cut := s.segmentOf(end)
	if s.newest < s.oldest || cut <= s.oldest {
		return nil
	}
	if err := s.kv.DeleteRange(appendStart(nil, math.MinInt64), appendStart(nil, cut)); err != nil {
		return s.fail("expire", err)
	}
	if s.oldest, err = s.edge(false); err == nil && s.oldest == math.MaxInt64 {
		s.newest = noSegment
	}
	return err
}

func (s *SessionStore[K, V]) decode(b []byte) (V, error) {
	v, err := s.vs.Decode(b)
	if err != nil {
		return v, s.fail("decode a value", err)
	}
	if s.clone != nil {
		v = s.clone(v)
	}
	return v, nil
}

func (s *SessionStore[K, V]) fail(what string, err error) error {
	return fmt.Errorf("store %q: %s: %w", s.name, what, err)
}
