package tidegatetest

import (
	"testing"

	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/pebblestore"
)

// TestOperatorsAllocateLittle bounds what a record allocates. One is the
// harness's. A store in memory keeps a copy of key and value of what it is given;
// a table of bytes keeps a copy of the value. The rest is the library's: nothing,
// but for what is written to Pebble's memtables and read from its iterators.
func TestOperatorsAllocateLittle(t *testing.T) {
	const harness = 1
	for _, c := range []struct {
		name   string
		pebble bool
		cache  int64
		most   float64
	}{
		{"map", false, 64 << 20, harness},
		{"aggregate", false, 64 << 20, harness},
		{"aggregate", true, 64 << 20, harness},
		{"windowed-aggregate", false, 64 << 20, harness},
		{"windowed-aggregate", true, 64 << 20, harness},
		{"join-table", false, 64 << 20, harness},
		{"join-table", true, 64 << 20, harness},
		{"join-stream", false, 64 << 20, harness + 2},
		{"join-stream", true, 64 << 20, harness + 1},
		{"left-join-stream", false, 64 << 20, harness + 4},
		{"left-join-stream", true, 64 << 20, harness + 1},
		{"session-aggregate", false, 64 << 20, harness + 2},
		{"session-aggregate", true, 64 << 20, harness + 1},
		{"sliding-aggregate", false, 64 << 20, harness + 4},
		{"sliding-aggregate", true, 64 << 20, harness + 1},
		{"suppress-early", false, 64 << 20, harness + 4},
		{"suppress-early", true, 64 << 20, harness + 1},
	} {
		opts := []Option{WithCacheBytes(c.cache)}
		what := c.name + " in memory"
		if c.pebble {
			what = c.name + " in Pebble"
			shared := pebblestore.NewShared(pebblestore.SharedOptions{})
			t.Cleanup(func() { _ = shared.Close() })
			opts = append(opts, WithEngine(func(dir string) (state.Engine, error) {
				return pebblestore.Open(shared, dir, pebblestore.Options{})
			}))
		}
		d := newBench(t, benchCases[c.name], opts...)
		feed := d.feeder(benchCases[c.name].topics)
		for range 2 * benchKeys {
			feed()
		}
		if n := testing.AllocsPerRun(10*benchRun, feed); n > c.most {
			t.Errorf("%s: %v allocations per record, want at most %v", what, n, c.most)
		} else {
			t.Logf("%s: %v", what, n)
		}
		d.Close()
	}
}
