package changelog

import (
	"strings"
	"unsafe"

	"github.com/RaduBerinde/btreemap"

	"github.com/tidegate/tidegate/state"
)

// change is what a layer knows of a key.
type change struct {
	value   []byte
	deleted bool
}

// keyRange is a deleted range of keys; a nil bound is open.
type keyRange struct{ from, to []byte }

func (r keyRange) holds(key string) bool {
	return (r.from == nil || key >= string(r.from)) && (r.to == nil || key < string(r.to))
}

// layer is the changes of one commit interval to one store. A key in the tree
// counts before the ranges: what a range deletion met was taken out of the tree.
type layer struct {
	tree   *btreemap.BTreeMap[string, change]
	ranges []keyRange
	bytes  int64
}

const (
	layerDegree = 32
	// perChange is what a change costs beside its bytes, roughly.
	perChange = 96
)

func newLayer() *layer {
	return &layer{tree: btreemap.New[string, change](layerDegree, strings.Compare)}
}

func (l *layer) empty() bool { return l.tree.Len() == 0 && len(l.ranges) == 0 }

// put notes a change of a copy of key; c's value is kept.
func (l *layer) put(key []byte, c change) {
	_, old, replaced := l.tree.ReplaceOrInsert(string(key), c)
	l.bytes += int64(len(c.value) - len(old.value))
	if !replaced {
		l.bytes += int64(len(key)) + perChange
	}
}

// drop deletes a range.
func (l *layer) drop(r keyRange) {
	var keys []string
	for k := range l.tree.Ascend(lower(r.from), upper(r.to)) {
		keys = append(keys, k)
	}
	for _, k := range keys {
		_, c, _ := l.tree.Delete(k)
		l.bytes -= int64(len(k)+len(c.value)) + perChange
	}
	kept := l.ranges[:0]
	for _, old := range l.ranges {
		if !covers(r, old) {
			kept = append(kept, old)
		}
	}
	l.ranges = append(kept, r)
}

// covers reports whether a holds all of b.
func covers(a, b keyRange) bool {
	low := a.from == nil || b.from != nil && string(a.from) <= string(b.from)
	high := a.to == nil || b.to != nil && string(a.to) >= string(b.to)
	return low && high
}

func (l *layer) dropped(key string) bool {
	for i := range l.ranges {
		if l.ranges[i].holds(key) {
			return true
		}
	}
	return false
}

// overlay is a state.KV that keeps changes apart from the KV below it until
// their transaction is committed. Layers are commit intervals, oldest first;
// the last one takes the writes.
type overlay struct {
	below  state.KV
	layers []*layer
}

func newOverlay(below state.KV) *overlay {
	return &overlay{below: below, layers: []*layer{newLayer()}}
}

// view is a string over b, for lookups only.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (o *overlay) top() *layer { return o.layers[len(o.layers)-1] }

func (o *overlay) Get(key []byte) ([]byte, bool, error) {
	k := view(key)
	for i := len(o.layers) - 1; i >= 0; i-- {
		l := o.layers[i]
		if _, c, ok := l.tree.Get(k); ok {
			return c.value, !c.deleted, nil
		}
		if l.dropped(k) {
			return nil, false, nil
		}
	}
	return o.below.Get(key)
}

func (o *overlay) Set(key, value []byte) error {
	v := make([]byte, len(value))
	copy(v, value)
	o.top().put(key, change{value: v})
	return nil
}

func (o *overlay) Delete(key []byte) error {
	o.top().put(key, change{deleted: true})
	return nil
}

func (o *overlay) DeleteRange(from, to []byte) error {
	if from != nil && to != nil && string(from) >= string(to) {
		return nil
	}
	o.top().drop(keyRange{clone(from), clone(to)})
	return nil
}

// seal ends a commit interval: what is written from now on is the next one's.
func (o *overlay) seal() { o.layers = append(o.layers, newLayer()) }

// apply writes the oldest sealed interval to the KV below. Writing a part of it
// again does no harm: changes are absolute.
func (o *overlay) apply() error {
	l := o.layers[0]
	for _, r := range l.ranges {
		if err := o.below.DeleteRange(r.from, r.to); err != nil {
			return err
		}
	}
	batch := batchOf(o.below)
	for k, c := range l.tree.Ascend(first, last) {
		key := unsafe.Slice(unsafe.StringData(k), len(k)) // only read
		var err error
		if c.deleted {
			err = batch.Delete(key)
		} else {
			err = batch.Set(key, c.value)
		}
		if err != nil {
			return err
		}
	}
	if err := batch.Commit(); err != nil {
		return err
	}
	o.layers = o.layers[1:]
	return nil
}

// drop forgets everything that was not applied.
func (o *overlay) drop() { o.layers = []*layer{newLayer()} }

func (o *overlay) bytes() (n int64) {
	for _, l := range o.layers {
		n += l.bytes
	}
	return n
}

// batchOf returns the KV's batch, or one that writes directly.
func batchOf(kv state.KV) state.Batch {
	if b, ok := kv.(state.Batcher); ok {
		return b.Batch()
	}
	return direct{kv}
}

type direct struct{ state.KV }

func (direct) Commit() error { return nil }

var (
	first = btreemap.Min[string]()
	last  = btreemap.Max[string]()
)

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
