package tidegatetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/tidegatetest"
)

// cost counts what steps ask of their stores.
type cost struct{ gets, writes, scans, scanned int }

// counting is an engine that counts.
type counting struct {
	state.Engine
	c *cost
}

func (e counting) Store(name string) (state.KV, error) {
	kv, err := e.Engine.Store(name)
	return countingKV{kv, e.c}, err
}

type countingKV struct {
	state.KV
	c *cost
}

func (k countingKV) Get(key []byte) ([]byte, bool, error) { k.c.gets++; return k.KV.Get(key) }
func (k countingKV) Set(key, value []byte) error          { k.c.writes++; return k.KV.Set(key, value) }
func (k countingKV) Delete(key []byte) error              { k.c.writes++; return k.KV.Delete(key) }
func (k countingKV) DeleteRange(from, to []byte) error {
	k.c.writes++
	return k.KV.DeleteRange(from, to)
}
func (k countingKV) Scan(from, to []byte, reverse bool) state.Iterator {
	k.c.scans++
	return countingIterator{k.KV.Scan(from, to, reverse), k.c}
}

type countingIterator struct {
	state.Iterator
	c *cost
}

func (i countingIterator) Next() bool {
	ok := i.Iterator.Next()
	if ok {
		i.c.scanned++
	}
	return ok
}

// counted makes a driver whose stores are counted and not cached.
func countedDriver(t *testing.T, b *tidegate.Builder) (*tidegatetest.Driver, *cost) {
	t.Helper()
	c := new(cost)
	return tidegatetest.New(t, build(t, b), tidegatetest.WithCacheBytes(0), tidegatetest.WithEngine(func(dir string) (state.Engine, error) {
		e, err := memory.Open(dir)
		return counting{e, c}, err
	})), c
}

// A windowed aggregation touches the windows of the record and nothing else,
// however many other windows and keys there are.
func TestWindowedAggregationTouchesItsWindowsOnly(t *testing.T) {
	for name, w := range map[string]struct {
		windows tidegate.TimeWindows
		touched int // by a record
	}{
		"tumbling": {tidegate.Tumbling(time.Second).Grace(time.Hour), 1},
		"hopping":  {tidegate.Hopping(time.Second, 250*time.Millisecond).Grace(time.Hour), 4},
	} {
		var before cost
		for _, size := range []int{10, 3000} {
			b := tidegate.NewBuilder()
			b.Stream("in", str, str).GroupByKey("g").WindowedBy(w.windows, tidegate.ByWindow).Count("n").ToStream().To("out")
			d, c := countedDriver(t, b)
			in := d.Input("in", str, str)
			for i := range size {
				in.Queue(fmt.Sprint("key", i%50), "v", tidegatetest.At(10_000+int64(i)*900))
			}
			in.Pipe("key1", "v", tidegatetest.At(10_000))
			*c = cost{}
			in.Pipe("key1", "v", tidegatetest.At(10_000))
			require.LessOrEqual(t, c.gets, w.touched, "%s with %d records: %+v", name, size, *c)
			require.LessOrEqual(t, c.writes, w.touched, "%s with %d records: %+v", name, size, *c)
			require.Zero(t, c.scanned, "%s with %d records: %+v", name, size, *c)
			if before != (cost{}) {
				require.Equal(t, before, *c, "the same whatever the store holds")
			}
			before = *c
		}
	}
}

// A join of streams reads the rows of its key and window: its cost does not grow
// with other keys, nor with rows of the key outside of the window.
func TestJoinCostDoesNotGrowWithTheStore(t *testing.T) {
	joins := map[string]func(l, r *tidegate.Stream[string, string], w tidegate.JoinWindows){
		"inner": func(l, r *tidegate.Stream[string, string], w tidegate.JoinWindows) {
			l.JoinStream("j", r, w, func(l, r string) string { return l + r }, str).To("out")
		},
		"left": func(l, r *tidegate.Stream[string, string], w tidegate.JoinWindows) {
			l.LeftJoinStream("j", r, w, func(l string, r tidegate.Opt[string]) string { return l + r.Or("") }, str).To("out")
		},
	}
	for name, join := range joins {
		var before cost
		for _, size := range []int{10, 3000} {
			b := tidegate.NewBuilder()
			join(b.Stream("l", str, str), b.Stream("r", str, str), tidegate.JoinWithin(5*ms).Grace(time.Hour))
			d, c := countedDriver(t, b)
			l, r := d.Input("l", str, str), d.Input("r", str, str)
			for i := range size {
				// Other keys within the window, and the key before it.
				r.Queue(fmt.Sprint("other", i), "v", tidegatetest.At(100_000))
				r.Queue("key", "v", tidegatetest.At(10_000+int64(i)*20))
			}
			for range 3 {
				r.Queue("key", "m", tidegatetest.At(100_000))
			}
			l.Pipe("key", "warm", tidegatetest.At(100_000))
			d.Output("out", str, str).ReadAll()
			*c = cost{}
			l.Pipe("key", "x", tidegatetest.At(100_001))
			require.Equal(t, 3, d.Output("out", str, str).Len(), name)
			require.LessOrEqual(t, c.scanned, 8, "%s with %d rows: %+v", name, size, *c)
			require.LessOrEqual(t, c.gets+c.scans, 8, "%s with %d rows: %+v", name, size, *c)
			if before != (cost{}) {
				require.Equal(t, before, *c, "%s: the same whatever the store holds", name)
			}
			before = *c
		}
	}
}

// A table join is one lookup.
func TestTableJoinIsOneLookup(t *testing.T) {
	b := tidegate.NewBuilder()
	rows := b.Table("rows", "rows", str, serde.Int64())
	b.Stream("in", str, str).JoinTable("j", rows, func(l string, r int64) string { return fmt.Sprint(l, r) }, str).To("out")
	d, c := countedDriver(t, b)
	in, tab := d.Input("in", str, str), d.Input("rows", str, serde.Int64())
	for i := range int64(2000) {
		tab.Queue(fmt.Sprint("key", i), i, tidegatetest.At(1))
	}
	in.Pipe("key1", "v", tidegatetest.At(2))
	*c = cost{}
	in.Pipe("key7", "v", tidegatetest.At(2))
	require.Equal(t, cost{gets: 1}, *c)
}
