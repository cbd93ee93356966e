package state_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
)

func memoryKV(t testing.TB) state.KV {
	e, err := memory.Open(t.TempDir())
	require.NoError(t, err)
	kv, err := e.Store("s")
	require.NoError(t, err)
	return kv
}

// The path of a count: Get and Put of a cached int64 by an 8-byte key.
func TestHitAllocatesNothing(t *testing.T) {
	cache := state.NewCache(1 << 20)
	s := state.NewKVStore("count", memoryKV(t), serde.Int64(), serde.Int64(), cache)
	w := state.NewWindowStore("windowed", memoryKV(t), serde.Int64(), serde.Int64(), cache)
	old := state.NewKVStore("old", memoryKV(t), serde.String(), serde.String(), cache, state.WithOldValues())
	var fail error
	note := func(err error) {
		if err != nil {
			fail = err
		}
	}
	work := func() {
		for k := range int64(100) {
			v, _, err := s.Get(k)
			note(err)
			note(s.Put(k, v+1))
			v, _, err = w.Get(k, 60_000*(k%3))
			note(err)
			note(w.Put(k, 60_000*(k%3), v+1))
			_, _, err = old.PutWithOld("key", "value")
			note(err)
		}
	}
	work()
	require.Zero(t, testing.AllocsPerRun(10, work))
	require.NoError(t, fail)
	require.NoError(t, s.Flush())
	// A flush over entries that were dirty before reuses its lists and buffers.
	require.Less(t, testing.AllocsPerRun(10, func() {
		for k := range int64(100) {
			note(s.Put(k, k))
		}
		note(s.Flush())
	}), 220.0, "the B-tree below copies each key and value once")
	require.NoError(t, fail)
}
