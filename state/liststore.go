package state

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/serde"
)

// ListStore is a typed store of a list per key (Flink's ListState). Every element
// is a row of its own, so that appending to a long list, and taking from its ends,
// cost what they do with a short one.
//
// In the KV there is a head per key, and the elements below it, by key and
// position. Positions are the same for the life of an element: a list that lost
// its first elements begins with a higher one. See docs/format/stores.md.
type ListStore[K, V any] struct {
	heads *table[head]
	rows  *table[V]
	ks    serde.Serde[K]
	kbuf  []byte
	row   []byte
}

// head says which positions a list has: first, first+1, … without next. A list
// that is empty has none.
type head struct{ first, next int64 }

const (
	listHead byte = iota
	listElement
)

// deleteOneByOne is how many elements are deleted as rows; more go by one range
// deletion.
const deleteOneByOne = 8

// NewListStore returns a typed store over kv whose entries live in cache. The name
// appears in errors.
func NewListStore[K, V any](
	name string, kv KV, ks serde.Serde[K], vs serde.Serde[V], cache *Cache, opts ...StoreOption,
) *ListStore[K, V] {
	return &ListStore[K, V]{
		heads: newTable[head](name, kv, headSerde{}, cache, nil), rows: newTable(name, kv, vs, cache, opts), ks: ks,
	}
}

// Name returns the store's name.
func (s *ListStore[K, V]) Name() string { return s.rows.name }

// Len returns the number of elements of the list of k.
func (s *ListStore[K, V]) Len(k K) (int64, error) {
	h, err := s.head(k)
	return h.next - h.first, err
}

// Append puts v behind the last element of the list of k. The store keeps v
// itself, except for byte slices, which it copies.
func (s *ListStore[K, V]) Append(k K, v V) error {
	h, err := s.head(k)
	if err != nil {
		return err
	}
	// The element first: a value that cannot be encoded changes nothing.
	if err := s.rows.put(s.at(h.next), nil, v); err != nil {
		return err
	}
	h.next++
	return s.heads.put(s.kbuf, nil, h)
}

// At returns an element of the list of k, counted from 0. It is the cached value
// itself and must not be changed.
func (s *ListStore[K, V]) At(k K, i int64) (v V, ok bool, err error) {
	h, err := s.head(k)
	if err != nil || i < 0 || i >= h.next-h.first {
		return v, false, err
	}
	return s.element(h.first + i)
}

// RemoveFirst takes the first element off the list of k and returns it.
func (s *ListStore[K, V]) RemoveFirst(k K) (v V, ok bool, err error) { return s.remove(k, true) }

// RemoveLast takes the last element off the list of k and returns it.
func (s *ListStore[K, V]) RemoveLast(k K) (v V, ok bool, err error) { return s.remove(k, false) }

func (s *ListStore[K, V]) remove(k K, first bool) (v V, ok bool, err error) {
	h, err := s.head(k)
	if err != nil || h.first == h.next {
		return v, false, err
	}
	at := h.next - 1
	if first {
		at = h.first
	}
	if v, ok, err = s.element(at); err != nil {
		return v, false, err
	}
	if err := s.rows.del(s.at(at), nil); err != nil {
		return v, false, err
	}
	if first {
		h.first++
	} else {
		h.next--
	}
	return v, ok, s.setHead(h)
}

// Trim removes elements from the beginning of the list of k until no more than n
// are left, and returns how many it removed.
func (s *ListStore[K, V]) Trim(k K, n int64) (removed int64, err error) {
	h, err := s.head(k)
	if err != nil || h.next-h.first <= max(n, 0) {
		return 0, err
	}
	from, to := h.first, h.next-max(n, 0)
	if err := s.delete(from, to); err != nil {
		return 0, err
	}
	h.first = to
	return to - from, s.setHead(h)
}

// delete removes the elements at [from, to).
func (s *ListStore[K, V]) delete(from, to int64) error {
	if to-from <= deleteOneByOne {
		for at := from; at < to; at++ {
			if err := s.rows.del(s.at(at), nil); err != nil {
				return err
			}
		}
		return nil
	}
	for at := from; at < to; at++ {
		if e := s.rows.entries.get(s.at(at)); e != nil {
			s.rows.drop(e)
		}
	}
	lo := append([]byte(nil), s.at(from)...)
	if err := s.rows.kv.DeleteRange(lo, s.at(to)); err != nil {
		return s.rows.fail("trim", s.kbuf, err)
	}
	return nil
}

// Each calls yield for the elements of the list of k, in order, downwards if
// reverse, until it returns false. Dirty elements are written first; see
// [KVStore.Scan]. yield sees the list as it was, its values decoded for the
// caller, and may change the store.
func (s *ListStore[K, V]) Each(k K, reverse bool, yield func(v V) bool) (err error) {
	h, err := s.head(k)
	if err != nil || h.first == h.next {
		return err
	}
	if err := s.rows.flush(); err != nil {
		return err
	}
	lo := append([]byte(nil), s.at(h.first)...)
	it := s.rows.kv.Scan(lo, s.at(h.next), reverse)
	defer func() {
		if e := it.Close(); err == nil && e != nil {
			err = s.rows.fail("scan", nil, e)
		}
	}()
	n := int64(0)
	for ; it.Next(); n++ {
		v, err := s.rows.decode(it.Value())
		if err != nil {
			return s.rows.fail("decode the element", it.Key(), err)
		}
		if !yield(v) {
			return nil
		}
	}
	if err := it.Err(); err != nil {
		return s.rows.fail("scan", nil, err)
	}
	if n != h.next-h.first {
		return s.rows.fail("scan", lo, fmt.Errorf("%w: %d elements, their head says %d", errList, n, h.next-h.first))
	}
	return nil
}

// Keys calls yield for every key that has a list, and its length, in the order of
// serialised keys, downwards if reverse, until it returns false. It shows the
// store as it was, and yield may change it.
func (s *ListStore[K, V]) Keys(reverse bool, yield func(k K, n int64) bool) (err error) {
	if err := s.heads.flush(); err != nil {
		return err
	}
	it := &KVIterator[K, head]{t: s.heads, ks: s.ks, it: s.heads.kv.Scan([]byte{listHead}, []byte{listElement}, reverse), skip: 1}
	defer func() {
		if e := it.Close(); err == nil {
			err = e
		}
	}()
	for it.Next() {
		if h := it.Value(); !yield(it.Key(), h.next-h.first) {
			return nil
		}
	}
	return it.Err()
}

// Flush writes every dirty entry to the KV; they stay cached.
func (s *ListStore[K, V]) Flush() error {
	if err := s.heads.flush(); err != nil {
		return err
	}
	return s.rows.flush()
}

// head reads the head of a list and leaves its key in kbuf.
func (s *ListStore[K, V]) head(k K) (head, error) {
	b, err := s.ks.Append(append(s.kbuf[:0], listHead), k)
	if err != nil {
		return head{}, s.heads.fail("encode a key", nil, err)
	}
	s.kbuf = b
	e, err := s.heads.load(b, nil)
	if err != nil {
		return head{}, err
	}
	return e.val, nil
}

func (s *ListStore[K, V]) setHead(h head) error {
	if h.first == h.next {
		return s.heads.del(s.kbuf, nil)
	}
	return s.heads.put(s.kbuf, nil, h)
}

var errList = errors.New("a list has other elements than its head says")

func (s *ListStore[K, V]) element(at int64) (v V, ok bool, err error) {
	e, err := s.rows.load(s.at(at), nil)
	switch {
	case err != nil:
		return v, false, err
	case !e.present:
		return v, false, s.rows.fail("read", s.row, errList)
	}
	return e.val, true, nil
}

// at is the key of an element of the list whose key is in kbuf.
func (s *ListStore[K, V]) at(position int64) []byte {
	s.row = append(s.row[:0], listElement)
	s.row = binary.AppendUvarint(s.row, uint64(len(s.kbuf)-1))
	s.row = append(s.row, s.kbuf[1:]...)
	s.row = binary.BigEndian.AppendUint64(s.row, uint64(position))
	return s.row
}

// headSerde writes both positions.
type headSerde struct{}

func (headSerde) Append(dst []byte, h head) ([]byte, error) {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(h.first)), uint64(h.next)), nil
}

func (headSerde) Decode(b []byte) (head, error) {
	if len(b) != 16 {
		return head{}, fmt.Errorf("the head of a list has %d bytes", len(b))
	}
	h := head{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}
	if h.first < 0 || h.next <= h.first {
		return head{}, fmt.Errorf("the head of a list says that it goes from %d to %d", h.first, h.next)
	}
	return h, nil
}

func (headSerde) Fingerprint() string { return "list-head" }
