package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tidegate/tidegate/state"
)

var _ state.Viewer = (*Engine)(nil)

// View takes a snapshot of the database, whose entries compactions then keep.
func (e *Engine) View() (state.View, error) {
	if err := e.err(); err != nil {
		return nil, err
	}
	v := &view{e: e, ids: maps.Clone(e.ids), snap: e.db.NewSnapshot()}
	var err error
	if v.lease, err = e.views.Open(v.snap.Close); err != nil {
		return nil, errors.Join(err, v.snap.Close())
	}
	return v, nil
}

// view is a [state.View].
type view struct {
	e     *Engine
	ids   map[string]uint16
	snap  *pebble.Snapshot
	lease *state.Lease
}

func (v *view) Store(name string) (state.ReadKV, bool) {
	id, ok := v.ids[name]
	return readKV{v, id}, ok
}

func (v *view) Close() error { return v.e.wrap("close a view", v.lease.Close()) }

// readKV is one store of a view. It has no scratch: many goroutines may use it.
type readKV struct {
	v  *view
	id uint16
}

func (r readKV) full(key []byte) []byte {
	return append(binary.BigEndian.AppendUint16(make([]byte, 0, prefixSize+len(key)), r.id), key...)
}

func (r readKV) Get(key []byte) ([]byte, bool, error) {
	if err := r.v.lease.Enter(); err != nil {
		return nil, false, err
	}
	defer r.v.lease.Leave()
	b, closer, err := r.v.snap.Get(r.full(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, r.v.e.err()
	}
	if err != nil {
		return nil, false, r.v.e.wrap("get", err)
	}
	b = bytes.Clone(b)
	if err := closer.Close(); err != nil {
		return nil, false, r.v.e.wrap("get", err)
	}
	return b, true, nil
}

func (r readKV) Scan(from, to []byte, reverse bool) state.Iterator {
	if err := r.v.lease.Enter(); err != nil {
		return state.FailedIterator(err)
	}
	lo, hi := r.full(from), binary.BigEndian.AppendUint16(nil, r.id+1)
	if to != nil {
		hi = r.full(to)
	}
	it := &iterator{s: &store{e: r.v.e}, reverse: reverse}
	if bytes.Compare(lo, hi) < 0 {
		if it.it, it.err = r.v.snap.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi}); it.err != nil {
			it.it, it.err = nil, r.v.e.wrap("scan", it.err)
		}
	}
	return &state.Leased{Iterator: it, Lease: r.v.lease}
}
