package state_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// userStores are the kinds of stores that only processors have.
type userStores struct {
	timed *state.TimedStore[string, int64]
	ttl   *state.TTLStore[string, int64]
	list  *state.ListStore[string, int64]
	e     state.Engine
}

const (
	modelTTL     = 100
	modelSegment = 50
)

func openUserStores(t *testing.T, open state.OpenFunc, dir string, cacheBytes int64) *userStores {
	t.Helper()
	e, err := open(dir)
	require.NoError(t, err)
	kv := func(name string) state.KV {
		kv, err := e.Store(name)
		require.NoError(t, err)
		return kv
	}
	cache := state.NewCache(cacheBytes)
	timed, err := state.NewTimedStore("timed", kv("timed"), serde.String(), serde.Int64(), modelSegment, cache)
	require.NoError(t, err)
	return &userStores{
		timed, state.NewTTLStore("ttl", kv("ttl"), serde.String(), serde.Int64(), modelTTL, cache),
		state.NewListStore("list", kv("list"), serde.String(), serde.Int64(), cache), e,
	}
}

// Random operations with checkpoints and restores in between, against maps.
func TestUserStoresAgainstModels(t *testing.T) {
	onEngines(t, func(t *testing.T, open state.OpenFunc) {
		for seed := range uint64(4) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			root, n := t.TempDir(), 0
			dir := func() string { n++; return filepath.Join(root, fmt.Sprint(n)) }
			cacheBytes := []int64{0, 2000, 1 << 20}[rnd.IntN(3)]
			s := openUserStores(t, open, dir(), cacheBytes)
			type row struct {
				at  int64
				key string
			}
			timed, ttl, lists := map[row]int64{}, map[string][2]int64{}, map[string][]int64{}
			now := int64(0)
			for range 2000 {
				k, v := []string{"a", "ab", "b", "bbb"}[rnd.IntN(4)], rnd.Int64N(1000)
				at := rnd.Int64N(300) - 100
				switch rnd.IntN(14) {
				case 0, 1:
					require.NoError(t, s.timed.Put(k, at, v))
					timed[row{at, k}] = v
				case 2:
					require.NoError(t, s.timed.Delete(k, at))
					delete(timed, row{at, k})
				case 3:
					from, to, reverse := at, at+rnd.Int64N(200), rnd.IntN(2) == 0
					if rnd.IntN(4) == 0 {
						from, to = math.MinInt64, math.MaxInt64
					}
					var want, got []int64
					for r := range timed {
						if r.key == k && r.at >= from && r.at < to {
							want = append(want, r.at)
						}
					}
					slices.Sort(want)
					if reverse {
						slices.Reverse(want)
					}
					require.NoError(t, s.timed.Fetch(k, from, to, reverse, func(at, v int64) bool {
						require.Equal(t, timed[row{at, k}], v)
						got = append(got, at)
						return true
					}))
					require.Equal(t, want, got)
					count := 0
					require.NoError(t, s.timed.Range(from, to, reverse, func(k string, at, v int64) bool {
						require.Equal(t, timed[row{at, k}], v)
						count++
						return true
					}))
					maps.DeleteFunc(maps.Clone(timed), func(r row, _ int64) bool {
						if r.at >= from && r.at < to {
							count--
						}
						return false
					})
					require.Zero(t, count)
				case 4:
					if rnd.IntN(10) == 0 {
						require.NoError(t, s.timed.ExpireBefore(modelSegment*(at/modelSegment)))
						maps.DeleteFunc(timed, func(r row, _ int64) bool { return r.at < modelSegment*(at/modelSegment) })
					}
				case 5, 6:
					now += rnd.Int64N(20)
					require.NoError(t, s.ttl.Put(k, v, now))
					ttl[k] = [2]int64{v, now}
				case 7:
					got, ok, alive, err := s.ttl.Get(k, now)
					require.NoError(t, err)
					want, had := ttl[k]
					require.Equal(t, had && now-want[1] < modelTTL, alive)
					if alive {
						require.True(t, ok)
						require.Equal(t, want[0], got)
						require.NoError(t, s.ttl.Refresh(k, now))
						ttl[k] = [2]int64{want[0], now}
					}
				case 8:
					now += rnd.Int64N(60)
					more, err := s.ttl.Clean(now)
					require.NoError(t, err)
					require.False(t, more)
					maps.DeleteFunc(ttl, func(_ string, e [2]int64) bool { return now-e[1] >= modelTTL })
					left := 0
					require.NoError(t, s.ttl.Scan(nil, nil, false, true, now, func(string, int64) bool { left++; return true }))
					require.Len(t, ttl, left)
					length, err := s.ttl.ApproximateLen()
					require.NoError(t, err)
					require.Equal(t, int64(left), length, "an index row each")
				case 9:
					require.NoError(t, s.ttl.Delete(k))
					delete(ttl, k)
				case 10, 11:
					require.NoError(t, s.list.Append(k, v))
					lists[k] = append(lists[k], v)
				case 12:
					if keep := rnd.Int64N(30); rnd.IntN(4) == 0 {
						_, err := s.list.Trim(k, keep)
						require.NoError(t, err)
						lists[k] = lists[k][max(0, int64(len(lists[k]))-keep):]
					} else if len(lists[k]) > 0 {
						got, ok, err := s.list.RemoveFirst(k)
						require.NoError(t, err)
						require.True(t, ok)
						require.Equal(t, lists[k][0], got)
						lists[k] = lists[k][1:]
					}
					got := []int64{}
					require.NoError(t, s.list.Each(k, false, func(v int64) bool { got = append(got, v); return true }))
					require.Equal(t, append([]int64{}, lists[k]...), got)
				case 13:
					if rnd.IntN(10) > 0 {
						continue
					}
					for _, f := range []func() error{s.timed.Flush, s.ttl.Flush, s.list.Flush} {
						require.NoError(t, f())
					}
					snap, err := s.e.Snapshot(dir())
					require.NoError(t, err)
					require.NoError(t, s.timed.Put(k, at, -1), "is not in the snapshot")
					require.NoError(t, s.list.Append(k, -1))
					require.NoError(t, s.e.Close())
					restored := dir()
					require.NoError(t, state.FillFolder(restored, "checkpoint", snap.Files))
					s = openUserStores(t, open, restored, cacheBytes)
				}
			}
			require.NoError(t, s.e.Close())
		}
	})
}
