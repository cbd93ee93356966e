package state

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/tidegate/tidegate/serde"
)

const (
	// entryOverhead is what an entry costs beside key and value: its struct, its
	// place in the map, in the ring and in the dirty list.
	entryOverhead = 160
	// writeBackChunk is how many dirty entries are written when one of them has
	// to be evicted: the next victims are clean then.
	writeBackChunk = 512
	// measureEvery is how often a Put of a type of unknown size is encoded just
	// to learn its size.
	measureEvery = 64
	// maxFree bounds the entries kept for reuse, per store.
	maxFree = 4096
	// maxFreeBytes bounds the encoded value that such an entry may hold.
	maxFreeBytes = 1024
	// shortKey is the length of keys up to which they lie in their entry: a
	// window start and an 8-byte key, and a little more.
	shortKey = 20
)

// StoreOption changes how a typed store works.
type StoreOption func(*storeOptions)

type storeOptions struct{ old bool }

// WithOldValues makes a store keep every cached value in encoded form as well,
// which GetOld and PutWithOld need. It costs an encoding per Put instead of one
// per flush, and the memory; nothing for types without pointers and for strings.
func WithOldValues() StoreOption { return func(o *storeOptions) { o.old = true } }

// table is the cached part of a typed store, keyed by serialised keys.
type table[V any] struct {
	name  string
	kv    KV
	batch Batch
	vs    serde.Serde[V]
	cache *Cache

	shape shape
	clone func(V) V // nil where values never alias the bytes they came from
	old   bool      // entries keep enc; false for plain shapes, which need none
	olds  bool      // old values were asked for

	entries index[V]
	last    *entry[V] // the entry used last: a Put mostly follows its Get
	free    []*entry[V]

	sorted   []ordered   // scratch of flush
	dirty    []*entry[V] // in the order of becoming dirty; nil where written since
	nDirty   int
	buf      []byte // scratch for values being written
	loaded   []byte // scratch for a value being read
	puts     int
	meanSize int64 // of an encoded value, where the shape does not tell
}

// entry is one key of a store, present or known to be absent. What a hit
// touches comes first, to lie in one line of the processor's cache.
type entry[V any] struct {
	key     string
	short   [shortKey]byte // the key's memory, where it fits
	val     V
	used    bool
	present bool
	absent  bool  // the KV is known not to hold the key
	dirtyAt int32 // place in the dirty list, −1 when clean
	ring    int32 // place in the cache's ring
	groupAt int32
	size    int64 // charged to the cache
	tab     *table[V]
	group   *group[V]
	enc     []byte // the stored value, encoded; only with table.old
}

// keep makes key the entry's key.
func (e *entry[V]) keep(key []byte) {
	if len(key) == 0 || len(key) > shortKey {
		e.key = string(key)
		return
	}
	// The string is valid while the entry is in the map: short is not written
	// before drop has taken it out.
	e.key = unsafe.String(&e.short[0], copy(e.short[:], key))
}

// group is the cached entries of one window.
type group[V any] struct {
	start   int64
	members []*entry[V]
}

func newTable[V any](name string, kv KV, vs serde.Serde[V], cache *Cache, opts []StoreOption) *table[V] {
	var o storeOptions
	for _, opt := range opts {
		opt(&o)
	}
	t := &table[V]{
		name: name, kv: kv, batch: batchOf(kv), vs: vs, cache: cache,
		shape:   shapeOf[V](),
		clone:   serde.CloneFunc(vs),
		entries: newIndex[V](),
	}
	t.olds = o.old
	t.old = o.old && t.shape != shapePlain && t.shape != shapeString
	return t
}

// find returns the cached entry of key, or nil. It allocates nothing.
func (t *table[V]) find(key []byte) *entry[V] {
	if e := t.last; e != nil && e.key == string(key) {
		e.used = true
		t.cache.m.Hits++
		return e
	}
	e := t.entries.get(key)
	if e == nil {
		t.cache.m.Misses++
		return nil
	}
	t.cache.m.Hits++
	e.used = true
	t.last = e
	return e
}

// load returns the entry of key, read from the KV when it is not cached.
func (t *table[V]) load(key []byte, g *group[V]) (*entry[V], error) {
	if e := t.find(key); e != nil {
		return e, nil
	}
	b, ok, err := t.kv.Get(key)
	if err != nil {
		return nil, t.fail("read", key, err)
	}
	var v V
	if ok {
		// Decode before anything else touches the KV: b is valid until then.
		if v, err = t.decode(b); err != nil {
			return nil, t.fail("decode the value of", key, err)
		}
	}
	if t.old {
		t.loaded = append(t.loaded[:0], b...)
	}
	e, err := t.insert(key, g, len(b))
	if err != nil {
		return nil, err
	}
	e.val, e.present, e.absent = v, ok, !ok
	if t.old && ok {
		e.enc = append(e.enc[:0], t.loaded...)
	}
	return e, nil
}

// insert adds an entry for key after making room for it.
func (t *table[V]) insert(key []byte, g *group[V], encoded int) (*entry[V], error) {
	size := t.charge(len(key), encoded)
	if err := t.cache.shrink(size, -1); err != nil {
		return nil, err
	}
	var e *entry[V]
	if n := len(t.free); n > 0 {
		e = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		e = &entry[V]{tab: t}
	}
	e.keep(key)
	e.size, e.dirtyAt, e.used = size, -1, true
	e.ring = t.cache.add(e, size)
	if g != nil {
		e.group, e.groupAt = g, int32(len(g.members))
		g.members = append(g.members, e)
	}
	t.entries.set(key, e)
	t.last = e
	return e, nil
}

// drop forgets an entry without writing it.
func (t *table[V]) drop(e *entry[V]) {
	t.clean(e)
	t.entries.remove(e)
	t.cache.remove(e.ring, e.size)
	if t.last == e {
		t.last = nil
	}
	if g := e.group; g != nil {
		last := len(g.members) - 1
		g.members[e.groupAt] = g.members[last]
		g.members[e.groupAt].groupAt = e.groupAt
		g.members[last] = nil
		g.members = g.members[:last]
	}
	if len(t.free) < maxFree && cap(e.enc) <= maxFreeBytes {
		*e = entry[V]{tab: t, enc: e.enc[:0]}
		t.free = append(t.free, e)
	}
}

// put stores v for key; a missing entry is not read first.
func (t *table[V]) put(key []byte, g *group[V], v V) error {
	v = t.own(v)
	if t.old {
		// Encode first: a value that cannot be encoded changes nothing.
		b, err := t.vs.Append(t.loaded[:0], v)
		if err != nil {
			return t.fail("encode the value of", key, err)
		}
		t.loaded = b
	}
	e := t.find(key)
	if e == nil {
		var err error
		if e, err = t.insert(key, g, t.sizeOf(v)); err != nil {
			return err
		}
	}
	if t.old {
		e.enc = append(e.enc[:0], t.loaded...)
	}
	e.val, e.present = v, true
	t.mark(e)
	if t.shape == shapePlain {
		return nil
	}
	return t.resize(e, t.sizeOf(v))
}

// del removes key; a missing entry is not read first.
func (t *table[V]) del(key []byte, g *group[V]) error {
	e := t.find(key)
	if e == nil {
		var err error
		if e, err = t.insert(key, g, 0); err != nil {
			return err
		}
	}
	var zero V
	e.val, e.present, e.enc = zero, false, e.enc[:0]
	t.mark(e)
	return nil
}

// oldOf returns the stored value of an entry, shared with nobody.
func (t *table[V]) oldOf(e *entry[V]) (V, bool, error) {
	if !t.old || !e.present {
		return e.val, e.present, nil
	}
	v, err := t.decode(e.enc)
	if err != nil {
		var zero V
		return zero, false, t.fail("decode the value of", []byte(e.key), err)
	}
	return v, true, nil
}

// revert throws away what the owner did to a value since it was last put.
func (t *table[V]) revert(key []byte) (bool, error) {
	e := t.entries.get(key)
	switch {
	case e == nil, t.shape == shapePlain, t.shape == shapeString, !e.present:
		return true, nil
	case t.old:
		v, _, err := t.oldOf(e)
		if err == nil {
			e.val = v
		}
		return err == nil, err
	case e.dirtyAt < 0:
		t.drop(e)
		return true, nil
	}
	return false, nil
}

func (t *table[V]) mark(e *entry[V]) {
	if e.dirtyAt >= 0 {
		return
	}
	if len(t.dirty) > 1024 && len(t.dirty) > 2*t.nDirty {
		t.compactDirty()
	}
	e.dirtyAt = int32(len(t.dirty))
	t.dirty = append(t.dirty, e)
	t.nDirty++
}

func (t *table[V]) clean(e *entry[V]) {
	if e.dirtyAt < 0 {
		return
	}
	t.dirty[e.dirtyAt] = nil
	e.dirtyAt = -1
	t.nDirty--
}

// compactDirty takes the holes out of the dirty list.
func (t *table[V]) compactDirty() {
	live := t.dirty[:0]
	for _, e := range t.dirty {
		if e != nil {
			e.dirtyAt = int32(len(live))
			live = append(live, e)
		}
	}
	clear(t.dirty[len(live):])
	t.dirty = live
}

// flush writes every dirty entry, in the order of their keys.
func (t *table[V]) flush() error {
	if t.nDirty == 0 {
		return nil
	}
	t.sortDirty()
	for i := range t.sorted {
		if err := t.write(t.dirty[t.sorted[i].at]); err != nil {
			t.abandon()
			return err
		}
	}
	if err := t.batch.Commit(); err != nil {
		return t.fail("flush", nil, err)
	}
	t.cache.m.Flushed += int64(t.nDirty)
	for i, e := range t.dirty {
		if e != nil {
			e.dirtyAt, e.absent = -1, !e.present
			t.dirty[i] = nil
		}
	}
	t.dirty, t.nDirty = t.dirty[:0], 0
	clear(t.sorted) // its keys may lie in entries that are evicted and reused
	return nil
}

// sortDirty lists the dirty entries in the order of their keys. The engine
// takes ordered writes with a third less work: a memtable inserts each one next
// to the one before. The first bytes of the keys are compared as numbers, which
// spares most comparisons the way to the key's memory.
func (t *table[V]) sortDirty() {
	t.sorted = t.sorted[:0]
	for i, e := range t.dirty {
		if e != nil {
			t.sorted = append(t.sorted, ordered{rank(e.key), e.key, int32(i)})
		}
	}
	sortOrdered(t.sorted)
}

// sortOrdered has no type parameter, so that it is compiled once and not for
// every type of value.
func sortOrdered(list []ordered) {
	slices.SortFunc(list, func(a, b ordered) int {
		if a.rank != b.rank {
			if a.rank < b.rank {
				return -1
			}
			return 1
		}
		return strings.Compare(a.key, b.key)
	})
}

// rank is a number that orders keys as their first eight bytes do.
func rank(key string) uint64 {
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// ordered is a dirty entry's place in the list, with the start of its key.
type ordered struct {
	rank uint64
	key  string
	at   int32
}

// flushMembers writes the dirty entries of one window.
func (t *table[V]) flushMembers(g *group[V]) error {
	var n int64
	for _, e := range g.members {
		if e.dirtyAt < 0 {
			continue
		}
		if err := t.write(e); err != nil {
			t.abandon()
			return err
		}
		n++
	}
	if n == 0 {
		return nil
	}
	if err := t.batch.Commit(); err != nil {
		return t.fail("flush", nil, err)
	}
	t.cache.m.Flushed += n
	for _, e := range g.members {
		t.clean(e)
		e.absent = !e.present
	}
	return nil
}

// writeBack writes victim and the entries that have been dirty for longest.
func (t *table[V]) writeBack(victim *entry[V]) error {
	if t.nDirty < len(t.dirty) {
		t.compactDirty()
	}
	n := min(writeBackChunk, len(t.dirty))
	for _, e := range t.dirty[:n] {
		if err := t.write(e); err != nil {
			t.abandon()
			return err
		}
	}
	extra := int(victim.dirtyAt) >= n
	if extra {
		if err := t.write(victim); err != nil {
			t.abandon()
			return err
		}
	}
	if err := t.batch.Commit(); err != nil {
		return t.fail("write back", []byte(victim.key), err)
	}
	t.cache.m.WriteBacks += int64(n)
	for _, e := range t.dirty[:n] {
		t.clean(e)
		e.absent = !e.present
	}
	if extra {
		t.clean(victim)
		t.cache.m.WriteBacks++
	}
	return nil
}

// abandon empties a batch that could not be filled to its end. Its writes are
// what the entries hold, so applying a part of them does no harm; the entries
// stay dirty and are written again.
func (t *table[V]) abandon() { _ = t.batch.Commit() }

// write puts one entry into the batch.
func (t *table[V]) write(e *entry[V]) error {
	key := unsafe.Slice(unsafe.StringData(e.key), len(e.key)) // only read
	if !e.present {
		if e.absent {
			return nil // came and went between two flushes
		}
		if err := t.batch.Delete(key); err != nil {
			return t.fail("delete", key, err)
		}
		return nil
	}
	val := e.enc
	if !t.old {
		var err error
		if t.buf, err = t.vs.Append(t.buf[:0], e.val); err != nil {
			return t.fail("encode the value of", key, err)
		}
		val = t.buf
		if t.shape == shapeOther {
			t.learn(len(val))
		}
	}
	if err := t.batch.Set(key, val); err != nil {
		return t.fail("write", key, err)
	}
	return nil
}

func (t *table[V]) fail(what string, key []byte, err error) error {
	if key == nil {
		return fmt.Errorf("store %q: %s: %w", t.name, what, err)
	}
	return fmt.Errorf("store %q: %s key %x: %w", t.name, what, key, err)
}

func (e *entry[V]) second() bool {
	u := e.used
	e.used = false
	return u
}

func (e *entry[V]) moved(to int32) { e.ring = to }

func (e *entry[V]) evict() error {
	t := e.tab
	if e.dirtyAt >= 0 {
		if err := t.writeBack(e); err != nil {
			return err
		}
	}
	t.drop(e)
	return nil
}
