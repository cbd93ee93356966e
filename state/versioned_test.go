package state_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/state/pebblestore"
)

// engines are the engines that every kind of store must work with.
func engines(t testing.TB) map[string]state.OpenFunc {
	shared := pebblestore.NewShared(pebblestore.SharedOptions{BlockCache: 4 << 20})
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	return map[string]state.OpenFunc{
		"memory": func(dir string) (state.Engine, error) { return memory.Open(dir) },
		"pebble": shared.OpenFunc(pebblestore.Options{}),
	}
}

// lives runs steps on a store over each engine, with restarts from snapshots in
// between. open makes the store, step does something to it, and flush is called
// before a snapshot.
type lives struct {
	seeds, steps int
	open         func(t *testing.T, rnd *rand.Rand, kv state.KV, cache *state.Cache)
	step         func(t *testing.T, rnd *rand.Rand)
	flush        func() error
}

func (l lives) run(t *testing.T, reset func()) {
	for name, open := range engines(t) {
		for seed := range l.seeds {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				reset()
				rnd := rand.New(rand.NewPCG(uint64(seed), 11))
				root := t.TempDir()
				dir, n := filepath.Join(root, "fresh"), 0
				var e state.Engine
				begin := func() {
					var err error
					e, err = open(dir)
					require.NoError(t, err)
					kv, err := e.Store("s")
					require.NoError(t, err)
					budgets := []int64{0, 300, 2000, 1 << 20}
					l.open(t, rnd, kv, state.NewCache(budgets[rnd.IntN(len(budgets))]))
				}
				begin()
				for range l.steps {
					l.step(t, rnd)
					if rnd.IntN(100) > 0 {
						continue
					}
					n++
					require.NoError(t, l.flush())
					snap, err := e.Snapshot(filepath.Join(root, fmt.Sprint("snapshot", n)))
					require.NoError(t, err)
					require.NoError(t, e.Close())
					dir = filepath.Join(root, fmt.Sprint("life", n))
					require.NoError(t, state.FillFolder(dir, "", snap.Files))
					begin()
				}
				require.NoError(t, e.Close())
			})
		}
	}
}

// versionEvent is a put or, without a value, a deletion.
type versionEvent struct {
	at    int64
	value string
	has   bool
}

// versionModel keeps every event of each key, in the order of time.
type versionModel map[string][]versionEvent

func (m versionModel) put(k string, e versionEvent) {
	i, ok := slices.BinarySearchFunc(m[k], e.at, func(x versionEvent, at int64) int { return int(x.at - at) })
	if ok {
		m[k][i] = e
		return
	}
	m[k] = slices.Insert(m[k], i, e)
}

// history is the versions valid within [from, to].
func (m versionModel) history(k string, from, to int64) []state.Version[string] {
	out := []state.Version[string]{}
	for i, e := range m[k] {
		end := int64(state.NoEnd)
		if i+1 < len(m[k]) {
			end = m[k][i+1].at
		}
		if e.has && e.at <= to && end > from {
			out = append(out, state.Version[string]{From: e.at, To: end, Value: e.value})
		}
	}
	return out
}

func TestVersionedStoreAgainstModel(t *testing.T) {
	const history = 10_000 // segments of 2500
	var (
		st   *state.VersionedStore[string, string]
		m    versionModel
		now  int64
		most int64
	)
	l := lives{seeds: 10, steps: 1500, flush: func() error { return st.Flush() }}
	if testing.Short() {
		l.seeds, l.steps = 2, 500
	}
	l.open = func(t *testing.T, rnd *rand.Rand, kv state.KV, cache *state.Cache) {
		var err error
		var opts []state.StoreOption
		if rnd.IntN(2) == 0 {
			opts = append(opts, state.WithOldValues())
		}
		st, err = state.NewVersionedStore("s", kv, serde.String(), serde.String(), history, cache, opts...)
		require.NoError(t, err)
	}
	l.step = func(t *testing.T, rnd *rand.Rand) {
		k := []string{"a", "ab", "b", "", "\xff"}[rnd.IntN(5)]
		oldest := min(now, most) - history
		switch op := rnd.IntN(100); {
		case op < 60:
			if rnd.IntN(3) == 0 {
				now += int64(rnd.IntN(1500))
			}
			at := now - int64(rnd.IntN(12_000))
			switch rnd.IntN(4) {
			case 0:
				at = now
			case 1:
				at = now - now%700 // often the same time
			case 2:
				at = now + int64(rnd.IntN(500)) // ahead of the task
			}
			oldest = min(now, most) - history
			e := versionEvent{at, fmt.Sprint(rnd.IntN(1000)), rnd.IntN(4) > 0}
			end, ok, err := st.Put(k, e.value, e.has, at, now)
			require.NoError(t, err)
			require.Equal(t, at >= oldest, ok)
			if !ok {
				break
			}
			most = max(most, at)
			m.put(k, e)
			want := int64(state.NoEnd)
			for _, x := range slices.Backward(m[k]) {
				if x.at > at {
					want = x.at
				}
			}
			require.Equal(t, want, end)
		case op < 70:
			v, from, ok, err := st.Get(k)
			require.NoError(t, err)
			last := versionEvent{}
			if n := len(m[k]); n > 0 && m[k][n-1].has {
				last = m[k][n-1]
			}
			require.Equal(t, last.has, ok)
			if ok {
				require.Equal(t, last, versionEvent{from, v, true})
			}
		case op < 85:
			at := oldest + int64(rnd.IntN(14_000))
			v, from, ok, err := st.GetAsOf(k, at)
			require.NoError(t, err)
			want := m.history(k, at, at)
			require.Equal(t, len(want) > 0, ok, "%q at %d", k, at)
			if ok {
				require.Equal(t, versionEvent{want[0].From, want[0].Value, true}, versionEvent{from, v, true})
			}
		case op < 92:
			from := oldest + int64(rnd.IntN(12_000))
			to := from + int64(rnd.IntN(8000))
			reverse := rnd.IntN(2) == 0
			want := m.history(k, from, to)
			if reverse {
				slices.Reverse(want)
			}
			got := []state.Version[string]{}
			require.NoError(t, st.History(k, from, to, reverse, func(v state.Version[string]) bool {
				got = append(got, v)
				return true
			}))
			require.Equal(t, want, got)
		case op < 96:
			got := map[string]string{}
			it, err := st.Scan(rnd.IntN(2) == 0)
			require.NoError(t, err)
			for it.Next() {
				got[it.Key()] = it.Version().Value
			}
			require.NoError(t, it.Err())
			require.NoError(t, it.Close())
			want := map[string]string{}
			for k, es := range m {
				if e := es[len(es)-1]; e.has {
					want[k] = e.value
				}
			}
			require.Equal(t, want, got)
		default:
			require.NoError(t, st.ExpireBefore(now-history+1-state.VersionSegment(history)))
		}
	}
	l.run(t, func() { m, now, most = versionModel{}, 0, -state.MaxTime })
}

// The cost of expiry is that of whole segments, and far times do not make a
// look-up visit what is not there.
func TestVersionedStoreExtremeTimes(t *testing.T) {
	for name, open := range engines(t) {
		t.Run(name, func(t *testing.T) {
			e, err := open(filepath.Join(t.TempDir(), "live"))
			require.NoError(t, err)
			kv, err := e.Store("s")
			require.NoError(t, err)
			st, err := state.NewVersionedStore("s", kv, serde.String(), serde.String(), 1000, state.NewCache(1000))
			require.NoError(t, err)
			for _, at := range []int64{-1 << 63, -5, 0, 1<<63 - 1} {
				_, ok, err := st.Put("k", fmt.Sprint(at), true, at, 0)
				require.NoError(t, err)
				require.True(t, ok)
			}
			v, from, ok, err := st.GetAsOf("k", -1)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "-5", v)
			require.Equal(t, int64(-5), from)
			_, ok, err = st.Put("k", "late", true, -1001, 0)
			require.NoError(t, err)
			require.False(t, ok, "before the history")
			_, ok, err = st.Put("k", "late", true, -1000, 0)
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, st.Flush())
			rows := func() (n int) {
				it := kv.Scan([]byte{2}, []byte{3}, false)
				for it.Next() {
					n++
				}
				require.NoError(t, it.Close())
				return n
			}
			require.Equal(t, 4, rows())
			require.NoError(t, st.ExpireBefore(1<<62))
			require.Equal(t, 1, rows(), "only what was replaced far in the future is left")
			require.NoError(t, e.Close())
		})
	}
}

// A store's rows may be damaged: decoding fails and does not panic.
func FuzzVersionedRow(f *testing.F) {
	f.Add([]byte("\x02\x80\x00\x00\x00\x00\x00\x00\x00\x01k\x80\x00\x00\x00\x00\x00\x00\x05"), []byte("\x00\x00\x00\x00\x00\x00\x00\x01\x01v"))
	f.Add([]byte("\x02"), []byte{})
	f.Add([]byte("\x01k"), []byte("\x00\x00\x00\x00\x00\x00\x00\x01v"))
	f.Add([]byte("\x00"), []byte("\x00\x00\x00\x00\x00\x00\x00\x07"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		e, err := memory.Open(filepath.Join(t.TempDir(), "live"))
		require.NoError(t, err)
		kv, err := e.Store("s")
		require.NoError(t, err)
		require.NoError(t, kv.Set(key, value))
		st, err := state.NewVersionedStore("s", kv, serde.String(), serde.String(), 1000, state.NewCache(1000))
		if err != nil {
			return
		}
		_, _, _, _ = st.GetAsOf("k", 3)
		_ = st.History("k", -1<<63, 1<<62, false, func(state.Version[string]) bool { return true })
		if it, err := st.Scan(false); err == nil {
			for it.Next() {
			}
			_ = it.Close()
		}
		_, _, _ = st.Put("k", "v", true, 2, 2)
	})
}
