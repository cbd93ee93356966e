package memory

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/RaduBerinde/btreemap"

	"github.com/tidegate/tidegate/state"
)

const (
	degree = 32
	// chunk is how many entries an iterator takes out of the tree at a time,
	// firstChunk how many at first: most scans are for few.
	chunk      = 64
	firstChunk = 8
	// perEntry is what an entry costs beside its bytes, roughly.
	perEntry = 48
)

type tree = btreemap.BTreeMap[string, []byte]

var (
	first = btreemap.Min[string]()
	last  = btreemap.Max[string]()
)

// store is one KV.
type store struct {
	name  string
	index int
	tree  *tree
	bytes int64 // of keys and values

	// open are the iterators that have not read their range to its end: before the
	// tree changes they get a clone. free are those that Scan can use again.
	open, free []*iterator

	changed bool // since its file was written
	file    string
	size    int64 // of the file
}

func newStore(name string) *store {
	return &store{name: name, tree: btreemap.New[string, []byte](degree, strings.Compare)}
}

// view is a string over b, for lookups only.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (s *store) Get(key []byte) ([]byte, bool, error) {
	_, v, ok := s.tree.Get(view(key))
	return v, ok, nil
}

// change prepares a change of the tree.
func (s *store) change() {
	s.changed = true
	for _, it := range s.open {
		// What was cloned copies nothing until it is written.
		it.tree = s.tree.Clone()
		it.listed = false
	}
	clear(s.open)
	s.open = s.open[:0]
}

func (s *store) Set(key, value []byte) error {
	s.change()
	v := make([]byte, len(value))
	copy(v, value)
	_, old, replaced := s.tree.ReplaceOrInsert(string(key), v)
	s.bytes += int64(len(v) - len(old))
	if !replaced {
		s.bytes += int64(len(key))
	}
	return nil
}

func (s *store) Delete(key []byte) error {
	if !s.tree.Has(view(key)) {
		return nil
	}
	s.change()
	if k, v, ok := s.tree.Delete(view(key)); ok {
		s.bytes -= int64(len(k) + len(v))
	}
	return nil
}

func (s *store) DeleteRange(from, to []byte) error {
	// The tree must not change under its iterator: collect first.
	var keys []string
	for k := range s.tree.Ascend(lower(from), upper(to)) {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil
	}
	s.change()
	for _, k := range keys {
		if _, v, ok := s.tree.Delete(k); ok {
			s.bytes -= int64(len(k) + len(v))
		}
	}
	return nil
}

func (s *store) Scan(from, to []byte, reverse bool) state.Iterator {
	var it *iterator
	if n := len(s.free); n > 0 {
		it, s.free = s.free[n-1], s.free[:n-1]
	} else {
		it = &iterator{s: s, bounds: []byte{}}
		it.take = it.add
	}
	it.begin(from, to, reverse)
	return it
}

// Batch makes a flush go straight into the tree.
func (s *store) Batch() state.Batch { return batch{s} }

type batch struct{ *store }

func (batch) Commit() error { return nil }

func lower(from []byte) btreemap.LowerBound[string] {
	if from == nil {
		return first
	}
	return btreemap.GE(view(from))
}

func upper(to []byte) btreemap.UpperBound[string] {
	if to == nil {
		return last
	}
	return btreemap.LT(view(to))
}

// iterator walks over the tree, a chunk at a time. As long as it has more to read
// and the tree did not change, it reads the store's own tree, and is in the list of
// those for which change makes a clone.
type iterator struct {
	s       *store
	tree    *tree // nil at the end
	listed  bool
	closed  bool
	reverse bool
	lo      btreemap.LowerBound[string]
	hi      btreemap.UpperBound[string]
	// bounds holds the bytes of both bounds, key those of the present key.
	bounds, key []byte

	keys   []string
	values [][]byte
	at     int
	most   int // how many the chunk may have
	take   func(k string, v []byte) bool
}

// begin makes the iterator one over a range.
func (i *iterator) begin(from, to []byte, reverse bool) {
	i.bounds = append(append(i.bounds[:0], from...), to...)
	if from != nil {
		from = i.bounds[:len(from):len(from)]
	}
	if to != nil {
		to = i.bounds[len(from):]
	}
	i.lo, i.hi, i.reverse, i.closed = lower(from), upper(to), reverse, false
	i.at, i.most = -1, firstChunk
	if from == nil || to == nil || string(from) < string(to) {
		i.tree, i.listed = i.s.tree, true
		i.s.open = append(i.s.open, i)
	}
}

func (i *iterator) Next() bool {
	i.at++
	if i.at < len(i.keys) {
		return true
	}
	if i.tree == nil {
		i.keys, i.values = i.keys[:0], i.values[:0]
		return false
	}
	i.fill()
	return len(i.keys) > 0
}

// fill takes the next chunk out of the tree.
func (i *iterator) fill() {
	if n := len(i.keys); n > 0 {
		if edge := i.keys[n-1]; i.reverse {
			i.hi = btreemap.LT(edge)
		} else {
			i.lo = btreemap.GT(edge)
		}
		i.most = chunk
	}
	i.keys, i.values, i.at = i.keys[:0], i.values[:0], 0
	if i.reverse {
		i.tree.DescendFunc(i.hi, i.lo, i.take)
	} else {
		i.tree.AscendFunc(i.lo, i.hi, i.take)
	}
	if len(i.keys) < i.most {
		i.unlist()
		i.tree = nil
	}
}

func (i *iterator) add(k string, v []byte) bool {
	i.keys, i.values = append(i.keys, k), append(i.values, v)
	return len(i.keys) < i.most
}

// unlist takes the iterator out of the list of those that need a clone.
func (i *iterator) unlist() {
	if !i.listed {
		return
	}
	i.listed = false
	i.s.open = slices.DeleteFunc(i.s.open, func(o *iterator) bool { return o == i })
}

func (i *iterator) Key() []byte {
	i.key = append(i.key[:0], i.keys[i.at]...)
	return i.key
}

func (i *iterator) Value() []byte { return i.values[i.at] }
func (i *iterator) Err() error    { return nil }

// Close gives the iterator back to the store.
func (i *iterator) Close() error {
	if i.closed {
		return nil
	}
	i.unlist()
	clear(i.keys)
	clear(i.values)
	i.tree, i.keys, i.values, i.closed = nil, i.keys[:0], i.values[:0], true
	i.lo, i.hi = first, last
	i.s.free = append(i.s.free, i)
	return nil
}

// ApproximateLen is the number of keys.
func (s *store) ApproximateLen() (int64, error) { return int64(s.tree.Len()), nil }
