package state_test

import (
	"cmp"
	"fmt"
	"math"
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

func eachEngine(t *testing.T, f func(t *testing.T, open state.OpenFunc)) {
	t.Run("memory", func(t *testing.T) {
		f(t, func(dir string) (state.Engine, error) { return memory.Open(dir) })
	})
	t.Run("pebble", func(t *testing.T) {
		shared := pebblestore.NewShared(pebblestore.SharedOptions{BlockCache: 1 << 20})
		defer func() { require.NoError(t, shared.Close()) }()
		f(t, shared.OpenFunc(pebblestore.Options{}))
	})
}

type span struct {
	key        string
	start, end int64
	val        string
}

// spans is a session store beside what it should hold.
type spans struct {
	t       *testing.T
	open    state.OpenFunc
	root    string
	n       int
	engine  state.Engine
	store   *state.SessionStore[string, string]
	segment int64
	model   []span
}

func (w *spans) start(dir string) {
	var err error
	w.engine, err = w.open(dir)
	require.NoError(w.t, err)
	kv, err := w.engine.Store("s")
	require.NoError(w.t, err)
	w.store, err = state.NewSessionStore("s", kv, serde.String(), serde.String(), w.segment)
	require.NoError(w.t, err)
}

func (w *spans) restart() {
	w.n++
	snap, err := w.engine.Snapshot(filepath.Join(w.root, fmt.Sprint("snap", w.n)))
	require.NoError(w.t, err)
	require.NoError(w.t, w.engine.Close())
	dir := filepath.Join(w.root, fmt.Sprint("life", w.n))
	require.NoError(w.t, state.FillFolder(dir, "test", snap.Files))
	w.start(dir)
}

// want is the part of the model for which f is true, by end.
func (w *spans) want(f func(span) bool) []span {
	var out []span
	for _, s := range w.model {
		if f(s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.end, b.end) })
	return out
}

func (w *spans) check(k string, from, to int64) {
	var got []span
	collect := func(start, end int64, v string) (bool, error) {
		got = append(got, span{k, start, end, v})
		return true, nil
	}
	require.NoError(w.t, w.store.Find(k, from, to, collect))
	require.Equal(w.t, w.want(func(s span) bool { return s.key == k && s.end >= from && s.start <= to }), got)
	for _, reverse := range []bool{false, true} {
		got = nil
		require.NoError(w.t, w.store.Range(k, from, to, reverse, collect))
		want := w.want(func(s span) bool { return s.key == k && s.end >= from && s.end <= to })
		if reverse {
			slices.Reverse(want)
		}
		require.Equal(w.t, want, got)
	}
}

// Random sessions, looked up, merged, expired and restarted, are those of a list.
func TestSessionStoreModel(t *testing.T) {
	eachEngine(t, func(t *testing.T, open state.OpenFunc) {
		rnd := rand.New(rand.NewPCG(7, 11))
		w := &spans{t: t, open: open, root: t.TempDir(), segment: 50}
		w.start(filepath.Join(w.root, "life"))
		base := int64(-400)
		for i := range 3000 {
			k := []string{"", "a", "ab", "b"}[rnd.IntN(4)]
			at := base + rnd.Int64N(400)
			w.check(k, at-10, at+10)
			// Put a session and take out those that it touches.
			start, end := at, at+rnd.Int64N(30)
			if rnd.IntN(20) == 0 {
				end += 200
			}
			touched := w.want(func(s span) bool { return s.key == k && s.end >= start && s.start <= end })
			for _, s := range touched {
				require.NoError(t, w.store.Delete(k, s.start, s.end))
				w.model = slices.DeleteFunc(w.model, func(x span) bool { return x == s })
				start, end = min(start, s.start), max(end, s.end)
			}
			s := span{k, start, end, fmt.Sprint(i)}
			require.NoError(t, w.store.Put(k, start, end, s.val))
			w.model = append(w.model, s)
			v, ok, err := w.store.Get(k, start, end)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, s.val, v)
			_, ok, err = w.store.Get(k, start-1, end)
			require.NoError(t, err)
			require.False(t, ok)

			switch rnd.IntN(40) {
			case 0:
				base += rnd.Int64N(300)
				require.NoError(t, w.store.ExpireBefore(base))
				cut := int64(math.Floor(float64(base)/50)) * 50
				w.model = slices.DeleteFunc(w.model, func(x span) bool { return x.end < cut })
			case 1:
				w.restart()
			case 2:
				var got []span
				require.NoError(t, w.store.All(func(k string, start, end int64, v string) bool {
					got = append(got, span{k, start, end, v})
					return true
				}))
				require.ElementsMatch(t, w.model, got)
			}
		}
		require.NoError(t, w.store.ExpireBefore(math.MaxInt64/4))
		w.model = nil
		w.check("a", -1000, 1000)
		require.NoError(t, w.store.Put("a", math.MinInt64/4, math.MaxInt64/4, "whole time"))
		w.model = append(w.model, span{"a", math.MinInt64 / 4, math.MaxInt64 / 4, "whole time"})
		w.restart()
		w.check("a", 5, 6)
		require.NoError(t, w.engine.Close())
	})
}

func TestSessionStoreStopsAndFails(t *testing.T) {
	e, err := memory.Open(t.TempDir())
	require.NoError(t, err)
	kv, err := e.Store("s")
	require.NoError(t, err)
	s, err := state.NewSessionStore("s", kv, serde.String(), serde.Int64(), 10)
	require.NoError(t, err)
	require.Equal(t, "s", s.Name())
	require.ErrorContains(t, s.Put("k", 2, 1, 0), `store "s": put: a span from 2 to 1 ends before it starts`)
	for i := range int64(5) {
		require.NoError(t, s.Put("k", i*20, i*20, i))
	}
	n := 0
	require.NoError(t, s.Find("k", 0, 100, func(_, _ int64, v int64) (bool, error) { n++; return v < 2, nil }))
	require.Equal(t, 3, n)
	boom := fmt.Errorf("boom")
	require.ErrorIs(t, s.Find("k", 0, 100, func(_, _ int64, v int64) (bool, error) { return true, boom }), boom)
	n = 0
	require.NoError(t, s.All(func(string, int64, int64, int64) bool { n++; return false }))
	require.Equal(t, 1, n)

	// What is no session is an error, not a panic.
	require.NoError(t, kv.Set([]byte("12345678 is no key"), nil))
	require.ErrorContains(t, s.All(func(string, int64, int64, int64) bool { return true }), "cut short or malformed")
	require.NoError(t, kv.Set([]byte{0}, []byte("x")))
	_, err = state.NewSessionStore("s", kv, serde.String(), serde.Int64(), 10)
	require.ErrorContains(t, err, "read the longest span")
	require.NoError(t, e.Close())
}

// A look-up reads the sessions of its key that it returns, and at most one more.
func TestSessionLookupIsBounded(t *testing.T) {
	e, err := memory.Open(t.TempDir())
	require.NoError(t, err)
	kv, err := e.Store("s")
	require.NoError(t, err)
	counted := &scanCounter{KV: kv}
	s, err := state.NewSessionStore("s", counted, serde.String(), serde.String(), 100)
	require.NoError(t, err)
	for i := range int64(2000) {
		for _, k := range []string{"a", "b", "c"} {
			require.NoError(t, s.Put(k, i*30, i*30+5, "v"))
		}
	}
	counted.scans, counted.rows = 0, 0
	found := 0
	require.NoError(t, s.Find("b", 30_000, 30_010, func(int64, int64, string) (bool, error) { found++; return true, nil }))
	require.Equal(t, 1, found)
	require.LessOrEqual(t, counted.scans, 2)
	require.LessOrEqual(t, counted.rows, 2)
	require.NoError(t, e.Close())
}

type scanCounter struct {
	state.KV
	scans, rows int
}

func (c *scanCounter) Scan(from, to []byte, reverse bool) state.Iterator {
	c.scans++
	return &rowCounter{c.KV.Scan(from, to, reverse), c}
}

type rowCounter struct {
	state.Iterator
	c *scanCounter
}

func (r *rowCounter) Next() bool {
	ok := r.Iterator.Next()
	if ok {
		r.c.rows++
	}
	return ok
}
