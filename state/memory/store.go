package memory

import (
	"strings"
	"unsafe"

	"github.com/RaduBerinde/btreemap"

	"github.com/tidegate/tidegate/state"
)

const (
	degree = 32
	// chunk is how many entries an iterator takes out of the tree at a time.
	chunk = 64
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

func (s *store) Set(key, value []byte) error {
	v := make([]byte, len(value))
	copy(v, value)
	_, old, replaced := s.tree.ReplaceOrInsert(string(key), v)
	s.bytes += int64(len(v) - len(old))
	if !replaced {
		s.bytes += int64(len(key))
	}
	s.changed = true
	return nil
}

func (s *store) Delete(key []byte) error {
	if k, v, ok := s.tree.Delete(view(key)); ok {
		s.bytes -= int64(len(k) + len(v))
		s.changed = true
	}
	return nil
}

func (s *store) DeleteRange(from, to []byte) error {
	// The tree must not change under its iterator: collect first.
	var keys []string
	for k := range s.tree.Ascend(lower(from), upper(to)) {
		keys = append(keys, k)
	}
	for _, k := range keys {
		if _, v, ok := s.tree.Delete(k); ok {
			s.bytes -= int64(len(k) + len(v))
			s.changed = true
		}
	}
	return nil
}

func (s *store) Scan(from, to []byte, reverse bool) state.Iterator {
	it := &iterator{reverse: reverse, lo: lower(clone(from)), hi: upper(clone(to))}
	if from == nil || to == nil || string(from) < string(to) {
		it.tree = s.tree.Clone() // copies nothing until one of both is written
	}
	return it
}

// Batch makes a flush go straight into the tree.
func (s *store) Batch() state.Batch { return batch{s} }

type batch struct{ *store }

func (batch) Commit() error { return nil }

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

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

// iterator walks over a clone of the tree, a chunk at a time.
type iterator struct {
	tree    *tree // nil at the end
	lo      btreemap.LowerBound[string]
	hi      btreemap.UpperBound[string]
	reverse bool

	keys   []string
	values [][]byte
	at     int
}

func (i *iterator) Next() bool {
	i.at++
	if i.at < len(i.keys) {
		return true
	}
	if i.tree == nil {
		i.keys, i.values = nil, nil
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
	}
	i.keys, i.values, i.at = i.keys[:0], i.values[:0], 0
	take := func(k string, v []byte) bool {
		i.keys, i.values = append(i.keys, k), append(i.values, v)
		return len(i.keys) < chunk
	}
	if i.reverse {
		i.tree.Descend(i.hi, i.lo)(take)
	} else {
		i.tree.Ascend(i.lo, i.hi)(take)
	}
	if len(i.keys) < chunk {
		i.tree = nil
	}
}

func (i *iterator) Key() []byte   { return []byte(i.keys[i.at]) }
func (i *iterator) Value() []byte { return i.values[i.at] }
func (i *iterator) Err() error    { return nil }
func (i *iterator) Close() error  { i.tree, i.keys, i.values = nil, nil, nil; return nil }

// ApproximateLen is the number of keys.
func (s *store) ApproximateLen() (int64, error) { return int64(s.tree.Len()), nil }
