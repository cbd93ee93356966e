package state_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/state/pebblestore"
)

// onEngines runs a test on both engines.
func onEngines(t *testing.T, f func(t *testing.T, open state.OpenFunc)) {
	t.Helper()
	shared := pebblestore.NewShared(pebblestore.SharedOptions{BlockCache: 1 << 20})
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	for name, open := range map[string]state.OpenFunc{
		"memory": func(dir string) (state.Engine, error) { return memory.Open(dir) },
		"pebble": shared.OpenFunc(pebblestore.Options{}),
	} {
		t.Run(name, func(t *testing.T) { f(t, open) })
	}
}

// sum adds up what a view holds: every transfer keeps it.
func sum(kv state.ReadKV, reverse bool) (total, n int, err error) {
	it := kv.Scan([]byte("account"), nil, reverse)
	for it.Next() {
		var v int
		if _, err := fmt.Sscan(string(it.Value()), &v); err != nil {
			return 0, 0, err
		}
		total, n = total+v, n+1
	}
	err = it.Err()
	if e := it.Close(); err == nil {
		err = e
	}
	return total, n, err
}

// Readers see whole views, each of one moment, while the task writes.
func TestViewsWithConcurrentReaders(t *testing.T) {
	onEngines(t, func(t *testing.T, open state.OpenFunc) {
		const accounts, views, readers = 50, 10, 3
		e, err := open(t.TempDir())
		require.NoError(t, err)
		kv, err := e.Store("accounts")
		require.NoError(t, err)
		other, err := e.Store("other")
		require.NoError(t, err)
		require.NoError(t, other.Set([]byte("account"), []byte("1000000")))
		set := func(i, v int) {
			require.NoError(t, kv.Set(fmt.Appendf(nil, "account%03d", i), fmt.Append(nil, v)))
		}
		balance := make([]int, accounts)
		for i := range accounts {
			balance[i] = 10
			set(i, 10)
		}
		require.NoError(t, kv.Set([]byte("a"), []byte("before")))
		errs := make(chan error, views*readers)
		var wg sync.WaitGroup
		for n := range views {
			v, err := e.(state.Viewer).View()
			require.NoError(t, err)
			read, ok := v.Store("accounts")
			require.True(t, ok)
			_, ok = v.Store("none")
			require.False(t, ok)
			var left sync.WaitGroup
			for r := range readers {
				left.Add(1)
				wg.Go(func() {
					defer left.Done()
					total, count, err := sum(read, r%2 == 0)
					if err == nil && (total != 10*accounts || count != accounts) {
						err = fmt.Errorf("view %d: %d accounts with %d together", n, count, total)
					}
					if b, ok, e := read.Get([]byte("a")); err == nil && (e != nil || !ok || string(b) != "before") {
						err = fmt.Errorf("view %d: %q, %v, %w", n, b, ok, e)
					}
					errs <- err
				})
			}
			wg.Go(func() { left.Wait(); _ = v.Close() })
			for range 100 { // transfers, two writes each
				from, to := n%accounts, (n*7+3)%accounts
				if from == to {
					continue
				}
				balance[from]--
				balance[to]++
				set(from, balance[from])
				set(to, balance[to])
			}
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		require.NoError(t, e.Close())
	})
}

// A view outlives nothing: neither its Close nor its engine's, which waits for
// iterators only.
func TestViewsClose(t *testing.T) {
	onEngines(t, func(t *testing.T, open state.OpenFunc) {
		e, err := open(t.TempDir())
		require.NoError(t, err)
		kv, err := e.Store("s")
		require.NoError(t, err)
		require.NoError(t, kv.Set([]byte("k"), []byte("1")))
		view := func() (state.View, state.ReadKV) {
			v, err := e.(state.Viewer).View()
			require.NoError(t, err)
			r, ok := v.Store("s")
			require.True(t, ok)
			return v, r
		}
		v, read := view()
		require.NoError(t, kv.Set([]byte("k"), []byte("2")))
		b, ok, err := read.Get([]byte("k"))
		require.Equal(t, []any{"1", true, nil}, []any{string(b), ok, err})
		_, ok, err = read.Get([]byte("none"))
		require.False(t, ok)
		require.NoError(t, err)
		empty := read.Scan([]byte("z"), []byte("a"), false)
		require.False(t, empty.Next())
		require.NoError(t, empty.Close())
		it := read.Scan(nil, nil, false)
		require.NoError(t, v.Close())
		require.NoError(t, v.Close())
		require.True(t, it.Next(), "an open iterator goes on")
		require.Equal(t, "1", string(it.Value()))
		_, _, err = read.Get([]byte("k"))
		require.ErrorIs(t, err, state.ErrViewClosed)
		late := read.Scan(nil, nil, false)
		require.False(t, late.Next())
		require.ErrorIs(t, late.Err(), state.ErrViewClosed)
		require.NoError(t, late.Close())
		require.NoError(t, it.Close())
		require.NoError(t, it.Close())

		_, read = view()
		it = read.Scan(nil, nil, true)
		require.True(t, it.Next())
		closed := make(chan error)
		go func() { closed <- e.Close() }()
		for { // until Close has got to the view
			if _, _, err = read.Get([]byte("k")); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, state.ErrViewClosed)
		require.Equal(t, "2", string(it.Value()))
		select {
		case closeErr := <-closed:
			require.Fail(t, "the engine closed over an open iterator", "%v", closeErr)
		default:
		}
		require.NoError(t, it.Close())
		require.NoError(t, <-closed)
	})
}
