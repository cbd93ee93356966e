package pebblestore_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/pebblestore"
)

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBarrier is what a barrier costs a counting task: 100 k dirty keys of
// 8 bytes are flushed and the engine is snapshotted.
func BenchmarkBarrier(b *testing.B) {
	for _, keys := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			shared := pebblestore.NewShared(pebblestore.SharedOptions{})
			defer shared.Close()
			root := b.TempDir()
			e, err := pebblestore.Open(shared, filepath.Join(root, "db"), pebblestore.Options{})
			require.NoError(b, err)
			defer e.Close()
			kv, err := e.Store("counts")
			require.NoError(b, err)
			s := state.NewKVStore("counts", kv, serde.Int64(), serde.Int64(), state.NewCache(64<<20))
			order := rand.New(rand.NewPCG(1, 2)).Perm(keys)
			var put, flush, snap time.Duration
			var used time.Duration
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				t0 := time.Now()
				for _, k := range order {
					v, _, err := s.Get(int64(k))
					if err != nil {
						b.Fatal(err)
					}
					if err := s.Put(int64(k), v+1); err != nil {
						b.Fatal(err)
					}
				}
				t1, c1 := time.Now(), cpu()
				require.NoError(b, s.Flush())
				t2 := time.Now()
				dir := filepath.Join(root, fmt.Sprint("snap", n))
				_, err := e.Snapshot(dir)
				require.NoError(b, err)
				put, flush, snap = put+t1.Sub(t0), flush+t2.Sub(t1), snap+time.Since(t2)
				used += cpu() - c1
				require.NoError(b, os.RemoveAll(dir))
			}
			each := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(n) }
			b.ReportMetric(each(put), "ms-put")
			b.ReportMetric(each(flush), "ms-flush")
			b.ReportMetric(each(snap), "ms-snapshot")
			b.ReportMetric(each(used), "cpu-ms")
		})
	}
}
