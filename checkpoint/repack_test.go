package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
)

// lsm is an engine whose small files come and go as those of a log-structured tree
// do: each step flushes some, and now and then most of them are merged into one. A
// few live long, and would each keep the pack that they came in.
type lsm struct {
	*engine
	rng  *rand.Rand
	next int
	// first is the object that each file was put into at first, with its size.
	first map[string]checkpoint.FileRef
}

func newLSM(seed uint64) *lsm {
	return &lsm{engine: newEngine(), rng: rand.New(rand.NewPCG(seed, 1)), first: map[string]checkpoint.FileRef{}}
}

func (l *lsm) step() {
	for range 3 + l.rng.IntN(6) {
		l.write(fmt.Sprintf("%06d.sst", l.next), 20+l.rng.IntN(400), l.next)
		l.next++
	}
	if l.rng.IntN(4) > 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(l.files)) {
		if cold := name[5] == '0'; !cold || l.rng.IntN(30) == 0 { // one in ten lives long
			delete(l.files, name)
		}
	}
	l.write(fmt.Sprintf("%06d.sst", l.next), 600, l.next) // an object of its own
	l.next++
}

// note remembers where files were stored first, and returns what would be stored
// if none were ever packed again: all of each object of which a file lives.
func (l *lsm) note(files []checkpoint.FileRef) (without int64) {
	seen := map[string]bool{}
	for _, f := range files {
		if _, ok := l.first[f.Name]; !ok {
			l.first[f.Name] = f
		}
		if o := l.first[f.Name]; !seen[o.Key] {
			seen[o.Key] = true
			without += max(o.Packed, o.Size)
		}
	}
	return without
}

// R15: repacking keeps what one checkpoint holds stored below twice its live
// bytes, and what is stored at all below twice the live bytes of all that are
// retained, in whatever order files die. Without it single files that live long
// keep whole packs.
func TestRepackingBoundsWhatIsStored(t *testing.T) {
	const checkpoints, retain = 300, 3
	w := newWorld(t, nil)
	l := newLSM(7)
	var refs []checkpoint.CheckpointRef
	var live, stored, without, written, fresh int64
	var lives []int64 // bytes of each checkpoint
	base := ids.NoCheckpoint
	for k := range checkpoints {
		l.step()
		n := ids.CheckpointID(10 * (k + 1))
		out := w.upload(l.engine, n, base)
		refs = append(refs, w.finish(n, out.Files))
		l.table.Completed(n, n)
		kept := refs[max(0, len(refs)-retain):]
		w.clean(checkpoint.CleanRequest{ReadTo: n + 1, Retained: kept})
		if k%50 == 49 { // whatever is retained can be restored
			w.same(w.restore(kept[len(kept)-1]), l.engine)
			for _, ref := range kept[:len(kept)-1] {
				w.restore(ref)
			}
		}
		one := int64(0)
		objects := map[string]bool{}
		held := int64(0)
		for _, f := range out.Files {
			one += f.Size
			if !objects[f.Key] {
				objects[f.Key] = true
				held += max(f.Packed, f.Size)
			}
		}
		if held > 2*one {
			t.Errorf("checkpoint %d of %d live bytes holds objects of %d", n, one, held)
		}
		lives = append(lives, one)
		bound := int64(0)
		for _, b := range lives[max(0, len(lives)-retain):] {
			bound += 2 * b
		}
		if total := l.stored(w); total > bound {
			t.Errorf("retained checkpoints of %d bytes are %d stored bytes", bound/2, total)
		}
		for _, f := range out.Files {
			if _, old := l.first[f.Name]; !old {
				fresh += f.Size
			}
		}
		live, stored, without, written = live+one, stored+held, without+l.note(out.Files), written+out.Bytes
		base = n
	}
	t.Logf("stored bytes per live byte: %.2f with repacking, %.2f without; %.2f bytes uploaded per new one",
		float64(stored)/float64(live), float64(without)/float64(live), float64(written)/float64(fresh))
	if without < 2*live {
		t.Errorf("without repacking %d bytes, with it %d: the test shows nothing", without, stored)
	}
}

// stored is the size of all state objects in the store.
func (l *lsm) stored(w *world) (total int64) {
	w.Helper()
	for key, size := range w.sizes() {
		name, err := checkpoint.ParseName(key)
		w.ok(err)
		if name.Kind == checkpoint.NameFile || name.Kind == checkpoint.NamePack {
			total += size
		}
	}
	return total
}

// A checkpoint that packs again fails at each of its puts, or its instance dies
// behind it and before the decision: nothing of the base is lost, neither by the
// abort nor by the cleaning, and the next one goes through.
func TestRepackingCutShort(t *testing.T) {
	for fail := 0; ; fail++ {
		w := newWorld(t, nil)
		e := newEngine()
		for i := range 60 {
			e.write(fmt.Sprintf("%02d.sst", i), small, 1)
		}
		base := w.take(e, 10, ids.NoCheckpoint)
		before := e.copy()
		for i := range 60 {
			if i%3 > 0 { // a third of each pack is left
				delete(e.files, fmt.Sprintf("%02d.sst", i))
			}
		}
		for i := range 30 {
			e.write(fmt.Sprintf("new%02d.sst", i), small, 2)
		}
		broken := &failing{Store: w.store}
		broken.left.Store(int32(fail))
		up := checkpoint.NewUploader(broken, testUpload)
		out, err := up.Upload(t.Context(), w.request(e, 20, 10, 0))
		if err != nil && !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		whole := err == nil
		if whole && out.Referenced != 0 {
			t.Fatalf("nothing was packed again: %+v", out)
		}
		// Not decided, then aborted: cleaning in both states.
		w.clean(checkpoint.CleanRequest{ReadTo: 15, Undecided: []ids.CheckpointID{20}, Retained: []checkpoint.CheckpointRef{base}})
		w.same(w.restore(base), before)
		e.table.Aborted(20)
		w.clean(checkpoint.CleanRequest{ReadTo: 21, Retained: []checkpoint.CheckpointRef{base}})
		again := w.restore(base) // a new owner
		w.same(again, before)
		// Who lived packs the next one; the base is cleaned away behind it.
		ref := w.take(e, 30, 10)
		w.clean(checkpoint.CleanRequest{ReadTo: 31, Retained: []checkpoint.CheckpointRef{ref}})
		w.same(w.restore(ref), e)
		for key := range w.sizes() {
			if name, err := checkpoint.ParseName(key); err != nil || name.Checkpoint != 30 {
				t.Errorf("put %d fails: %s is left (%v)", fail, key, err)
			}
		}
		if whole {
			if fail < 2 {
				t.Fatalf("the checkpoint needs %d puts only", fail)
			}
			return
		}
	}
}

var errBroken = errors.New("broken")

// failing fails the put after left others, and all that follow.
type failing struct {
	checkpoint.Store
	left atomic.Int32
}

func (f *failing) Put(ctx context.Context, key string, src checkpoint.Source) error {
	if f.left.Add(-1) < 0 {
		return errBroken
	}
	return f.Store.Put(ctx, key, src)
}

// sizes are those of all objects, by key.
func (w *world) sizes() map[string]int64 {
	w.Helper()
	out := map[string]int64{}
	for o, err := range w.store.List(w.Context(), "") {
		w.ok(err)
		out[o.Key] = o.Size
	}
	return out
}
