package state

import (
	"math"
	"slices"
)

// MaxTime bounds the times that segmented stores reckon with, downwards as well:
// any int64 may come as a record's timestamp, and sums of two times and a
// retention must not overflow. Times beyond are brought to the bound.
const MaxTime = math.MaxInt64 / 4

func clampTime(t int64) int64 { return min(max(t, -MaxTime), MaxTime) }

// segments are the spans of time into which a store divides its entries, so that
// old ones are dropped by one range deletion. Their entries' keys begin with a
// prefix and the segment's start. The starts of those that hold something are
// known: a look-up over a long time visits no empty segment.
type segments struct {
	kv     KV
	prefix []byte
	length int64
	starts []int64 // in order
}

// openSegments finds the segments that the KV holds.
func openSegments(kv KV, prefix []byte, length int64) (s segments, err error) {
	s = segments{kv: kv, prefix: prefix, length: length}
	end := append(slices.Clone(prefix), 0xff)
	for from := slices.Clone(prefix); ; {
		start, ok, err := s.firstFrom(from, end)
		if err != nil || !ok {
			return s, err
		}
		s.starts = append(s.starts, start)
		from = s.key(from[:0], start+1)
	}
}

func (s *segments) firstFrom(from, end []byte) (start int64, ok bool, err error) {
	it := s.kv.Scan(from, end, false)
	if it.Next() {
		ok = true
		start, _, err = splitStart(it.Key()[len(s.prefix):])
	}
	if err == nil {
		err = it.Err()
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return start, ok && err == nil, err
}

// key appends the beginning of the keys of a segment.
func (s *segments) key(dst []byte, start int64) []byte {
	return appendStart(append(dst, s.prefix...), start)
}

// of is the segment of a time.
func (s *segments) of(t int64) int64 {
	r := t % s.length
	if r < 0 {
		r += s.length
	}
	return t - r
}

// use notes that a segment holds something.
func (s *segments) use(start int64) {
	if n := len(s.starts); n > 0 && s.starts[n-1] == start {
		return
	}
	if i, ok := slices.BinarySearch(s.starts, start); !ok {
		s.starts = slices.Insert(s.starts, i, start)
	}
}

// between lists the segments that hold something and have times in [from, to].
func (s *segments) between(from, to int64) []int64 {
	if from > to {
		return nil
	}
	lo, _ := slices.BinarySearch(s.starts, s.of(from))
	hi, ok := slices.BinarySearch(s.starts, s.of(to))
	if ok {
		hi++
	}
	return s.starts[lo:hi]
}

// dropBefore removes the segments that begin before start.
func (s *segments) dropBefore(start int64) error {
	n, _ := slices.BinarySearch(s.starts, start)
	if n == 0 {
		return nil
	}
	if err := s.kv.DeleteRange(s.prefix, s.key(nil, start)); err != nil {
		return err
	}
	s.starts = slices.Delete(s.starts, 0, n)
	return nil
}
