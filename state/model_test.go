package state_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/state/pebblestore"
)

// list is a value that its owner changes in place, as an aggregate would be.
type list struct{ Items []int64 }

type listSerde struct{}

func (listSerde) Append(dst []byte, v *list) ([]byte, error) {
	for _, i := range v.Items {
		dst = binary.BigEndian.AppendUint64(dst, uint64(i))
	}
	return dst, nil
}

func (listSerde) Decode(b []byte) (*list, error) {
	v := &list{}
	for ; len(b) >= 8; b = b[8:] {
		v.Items = append(v.Items, int64(binary.BigEndian.Uint64(b)))
	}
	return v, nil
}

func (listSerde) Fingerprint() string { return "list" }

type windowKey struct {
	start int64
	key   string
}

// model is what the typed stores should hold.
type model struct {
	kv    map[string][]int64
	win   map[windowKey]int64
	bytes map[string]string
}

func (m *model) clone() *model {
	c := &model{kv: map[string][]int64{}, win: map[windowKey]int64{}, bytes: map[string]string{}}
	for k, v := range m.kv {
		c.kv[k] = slices.Clone(v)
	}
	for k, v := range m.win {
		c.win[k] = v
	}
	for k, v := range m.bytes {
		c.bytes[k] = v
	}
	return c
}

// world is the stores of one task over one engine.
type world struct {
	t      *testing.T
	rnd    *rand.Rand
	open   state.OpenFunc
	root   string
	n      int
	engine state.Engine
	kv     *state.KVStore[string, *list]
	win    *state.WindowStore[string, int64]
	bytes  *state.KVStore[string, []byte]
	m      *model
	at     *model // at the last snapshot
	snap   state.Snapshot
}

func (w *world) dir(what string) string {
	w.n++
	return filepath.Join(w.root, fmt.Sprintf("%s-%d", what, w.n))
}

func (w *world) start(dir string) {
	var err error
	w.engine, err = w.open(dir)
	require.NoError(w.t, err)
	store := func(name string) state.KV {
		kv, err := w.engine.Store(name)
		require.NoError(w.t, err)
		return kv
	}
	budgets := []int64{0, 300, 2000, 10_000, 1 << 20}
	cache := state.NewCache(budgets[w.rnd.IntN(len(budgets))])
	var opts []state.StoreOption
	// The list store needs it, the others must work both ways.
	old := state.WithOldValues()
	if w.rnd.IntN(2) == 0 {
		opts = append(opts, old)
	}
	w.kv = state.NewKVStore("lists", store("lists"), serde.String(), listSerde{}, cache, old)
	w.win = state.NewWindowStore("windows", store("windows"), serde.String(), serde.Int64(), cache, opts...)
	w.bytes = state.NewKVStore("bytes", store("bytes"), serde.String(), serde.Bytes(), cache, opts...)
}

func (w *world) snapshot() {
	t := w.t
	require.NoError(t, w.kv.Flush())
	require.NoError(t, w.win.Flush())
	require.NoError(t, w.bytes.Flush())
	snap, err := w.engine.Snapshot(w.dir("snapshot"))
	require.NoError(t, err)
	require.True(t, slices.IsSortedFunc(snap.Files, func(a, b state.File) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}))
	w.snap, w.at = snap, w.m.clone()
}

// restore goes back to the last snapshot, as a failed task does.
func (w *world) restore() {
	require.NoError(w.t, w.engine.Close())
	dir := w.dir("restored")
	if w.at == nil {
		w.m = (&model{}).clone()
	} else {
		require.NoError(w.t, state.FillFolder(dir, "checkpoint", w.snap.Files))
		w.m = w.at.clone()
	}
	w.start(dir)
}

func (w *world) key() string { return fmt.Sprintf("k%02d", w.rnd.IntN(40)) }

func (w *world) step() {
	t, k := w.t, w.key()
	start := int64(w.rnd.IntN(12)-4) * 1000
	wk := windowKey{start, k}
	switch op := w.rnd.IntN(100); {
	case op < 30: // aggregate in place
		old, had, err := w.kv.GetOld(k)
		require.NoError(t, err)
		v, ok, err := w.kv.Get(k)
		require.NoError(t, err)
		require.Equal(t, had, ok)
		if !ok {
			v = &list{}
		}
		require.Equal(t, w.m.kv[k], v.Items)
		v.Items = append(v.Items, w.rnd.Int64())
		_, _, err = w.win.Get(w.key(), start) // may evict the entry meanwhile
		require.NoError(t, err)
		if w.rnd.IntN(8) == 0 { // the owner failed
			done, err := w.kv.Revert(k)
			require.NoError(t, err)
			require.True(t, done)
			break
		}
		if had {
			require.Equal(t, w.m.kv[k], old.Items)
		}
		w.m.kv[k] = slices.Clone(v.Items)
		prev, had2, err := w.kv.PutWithOld(k, v)
		require.NoError(t, err)
		require.Equal(t, had, had2)
		if had {
			require.Equal(t, old, prev)
		}
	case op < 50: // windowed count
		v, ok, err := w.win.Get(k, start)
		require.NoError(t, err)
		want, had := w.m.win[wk]
		require.Equal(t, had, ok)
		require.Equal(t, want, v)
		require.NoError(t, w.win.Put(k, start, v+1))
		w.m.win[wk] = v + 1
	case op < 65: // blind put of a buffer that is used again
		buf := []byte(fmt.Sprint(w.rnd.Int64()))
		require.NoError(t, w.bytes.Put(k, buf))
		w.m.bytes[k] = string(buf)
		clear(buf)
	case op < 75:
		v, ok, err := w.bytes.Get(k)
		require.NoError(t, err)
		want, had := w.m.bytes[k]
		require.Equal(t, had, ok)
		require.Equal(t, want, string(v))
	case op < 80:
		require.NoError(t, w.bytes.Delete(k))
		delete(w.m.bytes, k)
		require.NoError(t, w.kv.Delete(k))
		delete(w.m.kv, k)
	case op < 83:
		require.NoError(t, w.win.Delete(k, start))
		delete(w.m.win, wk)
	case op < 86:
		require.NoError(t, w.win.ExpireBefore(start))
		for at := range w.m.win {
			if at.start < start {
				delete(w.m.win, at)
			}
		}
	case op < 90:
		w.scan()
	case op < 93:
		w.scanWindows()
	case op < 96:
		require.NoError(t, w.bytes.Flush())
		require.NoError(t, w.win.Flush())
	case op < 99:
		w.snapshot()
	default:
		w.restore()
	}
}

func (w *world) scan() {
	t := w.t
	a, b := w.key(), w.key()
	from, to := []byte(a), []byte(b)
	if w.rnd.IntN(3) == 0 {
		from, a = nil, ""
	}
	if w.rnd.IntN(3) == 0 {
		to, b = nil, "z"
	}
	var want []string
	for k := range w.m.kv {
		if k >= a && k < b {
			want = append(want, k)
		}
	}
	sort.Strings(want)
	reverse := w.rnd.IntN(2) == 0
	if reverse {
		slices.Reverse(want)
	}
	it, err := w.kv.Scan(from, to, reverse)
	require.NoError(t, err)
	var got []string
	for it.Next() {
		got = append(got, it.Key())
		require.Equal(t, w.m.kv[it.Key()], it.Value().Items)
	}
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
	require.Equal(t, want, got)
}

func (w *world) scanWindows() {
	t := w.t
	from, to := int64(w.rnd.IntN(8)-4)*1000, int64(w.rnd.IntN(8)-2)*1000
	if w.rnd.IntN(3) == 0 {
		from = math.MinInt64
	}
	if w.rnd.IntN(3) == 0 {
		to = math.MaxInt64
	}
	want := []windowKey{}
	for k := range w.m.win {
		if k.start >= from && k.start < to {
			want = append(want, k)
		}
	}
	reverse := w.rnd.IntN(2) == 0
	sort.Slice(want, func(i, j int) bool {
		less := want[i].start < want[j].start || want[i].start == want[j].start && want[i].key < want[j].key
		return less != reverse
	})
	it, err := w.win.Scan(from, to, reverse)
	require.NoError(t, err)
	got := []windowKey{}
	for it.Next() {
		k := windowKey{it.Start(), it.Key()}
		got = append(got, k)
		require.Equal(t, w.m.win[k], it.Value())
	}
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
	require.Equal(t, want, got)
}

// TestAgainstModel does random operations on typed stores with caches of all
// sizes and compares them with plain maps, over snapshots and restores.
func TestAgainstModel(t *testing.T) {
	shared := pebblestore.NewShared(pebblestore.SharedOptions{BlockCache: 4 << 20})
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	engines := map[string]state.OpenFunc{
		"memory": func(dir string) (state.Engine, error) { return memory.Open(dir) },
		"pebble": shared.OpenFunc(pebblestore.Options{}),
	}
	seeds, steps := 12, 1500
	if testing.Short() {
		seeds, steps = 3, 500
	}
	for _, name := range []string{"memory", "pebble"} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				w := &world{
					t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 7)), open: engines[name],
					root: t.TempDir(), m: (&model{}).clone(),
				}
				w.start(w.dir("fresh"))
				for range steps {
					w.step()
				}
				require.NoError(t, w.engine.Close())
				require.NoError(t, os.RemoveAll(w.root))
			})
		}
	}
}
