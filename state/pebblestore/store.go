package pebblestore

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tidegate/tidegate/state"
)

// store is one KV: the keys with one prefix.
type store struct {
	e      *Engine
	prefix [prefixSize]byte
	end    [prefixSize]byte // behind the last key
	key    []byte           // scratch
	to     []byte           // scratch
	value  []byte           // what Get returned last
	batch  batch
	free   []*iterator // that Scan can use again
}

func newStore(e *Engine, id uint16) *store {
	s := &store{e: e}
	binary.BigEndian.PutUint16(s.prefix[:], id)
	binary.BigEndian.PutUint16(s.end[:], id+1)
	s.batch.s = s
	return s
}

// full returns a key with its prefix, in scratch.
func (s *store) full(key []byte) []byte {
	s.key = append(append(s.key[:0], s.prefix[:]...), key...)
	return s.key
}

// bounds returns a range with its prefixes; a nil to is the store's end.
func (s *store) bounds(from, to []byte) (lo, hi []byte) {
	lo = s.full(from)
	if to == nil {
		return lo, s.end[:]
	}
	s.to = append(append(s.to[:0], s.prefix[:]...), to...)
	return lo, s.to
}

func (s *store) Get(key []byte) ([]byte, bool, error) {
	v, closer, err := s.e.db.Get(s.full(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, s.e.err()
	}
	if err != nil {
		return nil, false, s.e.wrap("get", err)
	}
	// A copy, because the value would keep its memtable or block alive.
	s.value = append(s.value[:0], v...)
	if err := closer.Close(); err != nil {
		return nil, false, s.e.wrap("get", err)
	}
	return s.value, true, nil
}

func (s *store) Set(key, value []byte) error {
	if err := s.e.err(); err != nil {
		return err
	}
	if err := s.e.db.Set(s.full(key), value, pebble.NoSync); err != nil {
		return s.e.wrap("set", err)
	}
	return s.e.wrote(len(key) + len(value))
}

func (s *store) Delete(key []byte) error {
	if err := s.e.err(); err != nil {
		return err
	}
	if err := s.e.db.Delete(s.full(key), pebble.NoSync); err != nil {
		return s.e.wrap("delete", err)
	}
	return s.e.wrote(len(key))
}

func (s *store) DeleteRange(from, to []byte) error {
	if err := s.e.err(); err != nil {
		return err
	}
	lo, hi := s.bounds(from, to)
	if string(lo) >= string(hi) {
		return nil
	}
	if err := s.e.db.DeleteRange(lo, hi, pebble.NoSync); err != nil {
		return s.e.wrap("delete a range", err)
	}
	return s.e.wrote(len(lo) + len(hi))
}

func (s *store) Scan(from, to []byte, reverse bool) state.Iterator {
	s.e.scans++
	lo, hi := s.bounds(from, to)
	var it *iterator
	if n := len(s.free); n > 0 {
		it, s.free = s.free[n-1], s.free[:n-1]
	} else {
		it = &iterator{s: s}
	}
	it.reverse, it.started, it.closed, it.err = reverse, false, false, nil
	if string(lo) >= string(hi) {
		return it
	}
	it.bounds = append(append(it.bounds[:0], lo...), hi...)
	it.opts = pebble.IterOptions{LowerBound: it.bounds[:len(lo):len(lo)], UpperBound: it.bounds[len(lo):]}
	if it.it, it.err = s.e.db.NewIter(&it.opts); it.err != nil {
		it.it, it.err = nil, s.e.wrap("scan", it.err)
	}
	return it
}

// iterator is a range of one store.
type iterator struct {
	s       *store
	it      *pebble.Iterator
	opts    pebble.IterOptions
	bounds  []byte
	reverse bool
	started bool
	closed  bool
	err     error
}

func (i *iterator) Next() bool {
	if i.it == nil {
		return false
	}
	first := !i.started
	i.started = true
	switch {
	case first && i.reverse:
		return i.it.Last()
	case first:
		return i.it.First()
	case i.reverse:
		return i.it.Prev()
	}
	return i.it.Next()
}

func (i *iterator) Key() []byte   { return i.it.Key()[prefixSize:] }
func (i *iterator) Value() []byte { return i.it.Value() }

func (i *iterator) Err() error {
	switch {
	case i.err != nil:
		return i.err
	case i.it == nil:
		return nil
	}
	if err := i.it.Error(); err != nil {
		return i.s.e.wrap("scan", err)
	}
	return i.s.e.err()
}

// Close gives the iterator back to the store.
func (i *iterator) Close() error {
	if i.closed {
		return nil
	}
	i.closed = true
	err := i.err
	if i.it != nil {
		if e := i.it.Close(); e != nil {
			err = i.s.e.wrap("scan", e)
		}
		i.it = nil
	}
	i.s.free = append(i.s.free, i)
	return err
}

// batch is the store's one batch. It is applied in pieces that fit well into a
// memtable: nothing needs the writes of a flush to be atomic, because a snapshot
// is only taken between flushes, and a piece above half a memtable would take
// another, slower way through Pebble and lose its buffer.
type batch struct {
	s *store
	b *pebble.Batch
}

const batchSize = 128 << 10

// Batch returns the store's batch, empty.
func (s *store) Batch() state.Batch {
	if s.batch.b != nil {
		s.batch.b.Reset()
	}
	return &s.batch
}

// get makes the batch when it is first needed.
func (b *batch) get() *pebble.Batch {
	if b.b == nil {
		b.b = b.s.e.db.NewBatch(pebble.WithInitialSizeBytes(1<<10), pebble.WithMaxRetainedSizeBytes(2*batchSize))
	}
	return b.b
}

func (b *batch) Set(key, value []byte) error {
	p := b.get()
	op := p.SetDeferred(prefixSize+len(key), len(value))
	copy(op.Key[copy(op.Key, b.s.prefix[:]):], key)
	copy(op.Value, value)
	if err := op.Finish(); err != nil {
		return b.s.e.wrap("fill a batch", err)
	}
	if p.Len() >= batchSize {
		return b.Commit()
	}
	return nil
}

func (b *batch) Delete(key []byte) error {
	p := b.get()
	op := p.DeleteDeferred(prefixSize + len(key))
	copy(op.Key[copy(op.Key, b.s.prefix[:]):], key)
	if err := op.Finish(); err != nil {
		return b.s.e.wrap("fill a batch", err)
	}
	if p.Len() >= batchSize {
		return b.Commit()
	}
	return nil
}

func (b *batch) Commit() error {
	if b.b == nil || b.b.Empty() {
		return b.s.e.err()
	}
	n := b.b.Len()
	err := b.s.e.err()
	if err == nil {
		err = b.s.e.wrap("apply a batch", b.s.e.db.Apply(b.b, pebble.NoSync))
	}
	b.b.Reset()
	if err != nil {
		return err
	}
	return b.s.e.wrote(n)
}

func (b *batch) close() {
	if b.b != nil {
		_ = b.b.Close()
		b.b = nil
	}
}
