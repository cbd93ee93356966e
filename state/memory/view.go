package memory

import (
	"bytes"

	"github.com/tidegate/tidegate/state"
)

var _ state.Viewer = (*Engine)(nil)

// View clones the trees, which copies nothing until one of both is written.
func (e *Engine) View() (state.View, error) {
	v := &frozen{trees: make(map[string]*tree, len(e.stores))}
	for _, s := range e.stores {
		v.trees[s.name] = s.tree.Clone()
	}
	var err error
	v.lease, err = e.views.Open(func() error { return nil })
	if err != nil {
		return nil, err
	}
	return v, nil
}

// frozen is a [state.View]. Its trees are never written.
type frozen struct {
	trees map[string]*tree
	lease *state.Lease
}

func (v *frozen) Store(name string) (state.ReadKV, bool) {
	t, ok := v.trees[name]
	return readKV{t, v.lease}, ok
}

func (v *frozen) Close() error { return v.lease.Close() }

type readKV struct {
	tree  *tree
	lease *state.Lease
}

func (r readKV) Get(key []byte) ([]byte, bool, error) {
	if err := r.lease.Enter(); err != nil {
		return nil, false, err
	}
	defer r.lease.Leave()
	_, v, ok := r.tree.Get(view(key))
	return bytes.Clone(v), ok, nil
}

func (r readKV) Scan(from, to []byte, reverse bool) state.Iterator {
	if err := r.lease.Enter(); err != nil {
		return state.FailedIterator(err)
	}
	// A store of its own: what a store keeps of its iterators is not for several
	// goroutines.
	it := (&store{tree: r.tree}).Scan(from, to, reverse)
	return &state.Leased{Iterator: it, Lease: r.lease}
}
