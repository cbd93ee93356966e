package state_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// faulty is a KV whose writes fail while broken is set. It has no batch.
type faulty struct {
	state.KV
	broken error
	sets   []string
}

func (f *faulty) Set(key, value []byte) error {
	if f.broken != nil {
		return f.broken
	}
	f.sets = append(f.sets, string(key))
	return f.KV.Set(key, value)
}

// A write that failed is repeated: entries stay dirty, also when it was an
// eviction that made a Get fail.
func TestEntriesStayDirtyOverFailedWrites(t *testing.T) {
	kv := &faulty{KV: memoryKV(t)}
	cache := state.NewCache(10_000)
	s := state.NewKVStore("s", kv, serde.String(), serde.Int64(), cache)
	kv.broken = errors.New("disk on fire")
	n := int64(0)
	var err error
	for ; err == nil && n < 10_000; n++ {
		err = s.Put(fmt.Sprintf("%05d", n), n)
	}
	require.ErrorIs(t, err, kv.broken)
	require.ErrorContains(t, err, `store "s"`)
	require.ErrorIs(t, s.Flush(), kv.broken)
	_, _, err = s.Get("not cached")
	require.ErrorIs(t, err, kv.broken)
	kv.broken = nil
	require.NoError(t, s.Flush())
	require.Zero(t, s.Dirty())
	for i := range n - 1 { // the last Put reported its failure
		v, ok, err := s.Get(fmt.Sprintf("%05d", i))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, i, v)
	}
	for i := range int64(200) {
		require.NoError(t, s.Put(fmt.Sprintf("%05d", 20_000+i), i))
	}
	m := cache.Metrics()
	require.Positive(t, m.Evictions)
	require.LessOrEqual(t, m.UsedBytes, int64(10_000))
}

// broken is a serde whose values cannot be encoded when negative.
type broken struct{ serde.Serde[*int64] }

var errNegative = errors.New("negative")

func (broken) Append(dst []byte, v *int64) ([]byte, error) {
	if *v < 0 {
		return append(dst, "half"...), errNegative
	}
	return append(dst, byte(*v)), nil
}

func (broken) Decode(b []byte) (*int64, error) { v := int64(b[0]); return &v, nil }

// With old values a Put that cannot be encoded changes nothing.
func TestPutOfAnUnencodableValue(t *testing.T) {
	s := state.NewKVStore("s", memoryKV(t), serde.String(), serde.Serde[*int64](broken{}), state.NewCache(1<<20), state.WithOldValues())
	good, bad := int64(7), int64(-1)
	require.NoError(t, s.Put("k", &good))
	require.ErrorIs(t, s.Put("k", &bad), errNegative)
	require.ErrorIs(t, s.Put("other", &bad), errNegative)
	v, ok, err := s.GetOld("k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, good, *v)
	_, ok, err = s.Get("other")
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, s.Flush())

	plain := state.NewKVStore("plain", memoryKV(t), serde.String(), serde.Int64(), state.NewCache(0))
	_, _, err = plain.GetOld("k")
	require.ErrorIs(t, err, state.ErrNoOldValues)
}

// What came and went between two flushes is not written at all, and a flush
// writes in key order.
func TestFlushWritesWhatItMust(t *testing.T) {
	kv := &faulty{KV: memoryKV(t)}
	s := state.NewKVStore("s", kv, serde.String(), serde.Int64(), state.NewCache(1<<20))
	for _, k := range []string{"m", "z", "a", "a longer key that is not kept in its entry", ""} {
		_, _, err := s.Get(k)
		require.NoError(t, err)
		require.NoError(t, s.Put(k, 1))
	}
	require.NoError(t, s.Delete("z"))
	require.NoError(t, s.Flush())
	require.Equal(t, []string{"", "a", "a longer key that is not kept in its entry", "m"}, kv.sets)
	kv.sets = nil
	require.NoError(t, s.Flush())
	require.Empty(t, kv.sets)
}

// ranges counts the range deletions.
type ranges struct {
	state.KV
	n int
}

func (r *ranges) DeleteRange(from, to []byte) error {
	r.n++
	return r.KV.DeleteRange(from, to)
}

// Expiring is called for every record; only closed windows cost something.
func TestExpireBefore(t *testing.T) {
	kv := &ranges{KV: memoryKV(t)}
	w := state.NewWindowStore("w", kv, serde.String(), serde.Int64(), state.NewCache(1<<20))
	for now := range int64(10_000) {
		require.NoError(t, w.Put("k", now/100*100, now))
		require.NoError(t, w.ExpireBefore(now-500))
	}
	require.Less(t, kv.n, 110)
	it, err := w.Scan(math.MinInt64, math.MaxInt64, false)
	require.NoError(t, err)
	var starts []int64
	for it.Next() {
		starts = append(starts, it.Start())
	}
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
	require.Equal(t, []int64{9500, 9600, 9700, 9800, 9900}, starts)

	// A store over what an earlier life left finds it.
	again := state.NewWindowStore("w", kv, serde.String(), serde.Int64(), state.NewCache(1<<20))
	require.NoError(t, again.ExpireBefore(9800))
	_, ok, err := again.Get("k", 9700)
	require.NoError(t, err)
	require.False(t, ok)
	v, ok, err := again.Get("k", 9800)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 9899, v)
}
