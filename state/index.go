package state

import "encoding/binary"

// index finds entries by key. Keys of eight bytes, such as integers and hashes,
// have a map of their own: a look-up compares a word in the map instead of
// following a pointer to the key's bytes.
type index[V any] struct {
	words map[uint64]*entry[V]
	other map[string]*entry[V]
}

func newIndex[V any]() index[V] {
	return index[V]{words: map[uint64]*entry[V]{}, other: map[string]*entry[V]{}}
}

func (x *index[V]) get(key []byte) *entry[V] {
	if len(key) == 8 {
		return x.words[binary.NativeEndian.Uint64(key)]
	}
	return x.other[string(key)]
}

func (x *index[V]) set(key []byte, e *entry[V]) {
	if len(key) == 8 {
		x.words[binary.NativeEndian.Uint64(key)] = e
		return
	}
	x.other[e.key] = e
}

func (x *index[V]) remove(e *entry[V]) {
	if len(e.key) == 8 {
		delete(x.words, binary.NativeEndian.Uint64([]byte(e.key)))
		return
	}
	delete(x.other, e.key)
}
