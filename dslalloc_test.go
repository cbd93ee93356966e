package tidegate_test

import (
	"context"
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
)

// nullEnv is a task whose outputs only count.
type nullEnv struct {
	id      ids.TaskID
	engine  state.Engine
	metrics operators.Metrics
	written int
}

func (e *nullEnv) Task() ids.TaskID                    { return e.id }
func (e *nullEnv) Store(name string) (state.KV, error) { return e.engine.Store(name) }
func (e *nullEnv) CacheBytes() int64                   { return 64 << 20 }
func (e *nullEnv) MaySkip() bool                       { return false }
func (e *nullEnv) Fail(err *operators.RecordError) error {
	return err
}
func (e *nullEnv) Metrics() *operators.Metrics                   { return &e.metrics }
func (e *nullEnv) Output(string, bool) (operators.Output, error) { return e, nil }
func (e *nullEnv) Partitions() int32                             { return 4 }
func (e *nullEnv) Append(int32, []byte, []byte, record.Null, int64, record.Headers) error {
	e.written++
	return nil
}

// countGraph is the count workload of the benchmarks: re-key, count, write
// every update; optionally windowed.
func countGraph(t testing.TB, sub int32, windowed bool) (*operators.Graph, *nullEnv, string) {
	b := tidegate.NewBuilder()
	g := b.Stream("in", serde.Int64(), serde.Bytes()).
		Filter(func(_ int64, v []byte) bool { return len(v) > 0 }).
		SelectKey(func(k int64, _ []byte) int64 { return k % 1000 }, serde.Int64()).
		GroupByKey("by-key")
	if windowed {
		g.WindowedBy(tidegate.Tumbling(time.Second), tidegate.ByWindow).Count("counts").ToStream().To("out")
	} else {
		g.Count("counts").ToStream().To("out")
	}
	top, err := b.Build()
	require.NoError(t, err)
	res, err := top.Graph().Resolve("app", map[string]int32{"in": 4, "out": 4})
	require.NoError(t, err)
	dir := t.TempDir() + "/state"
	require.NoError(t, os.MkdirAll(dir, 0o755))
	engine, err := memory.Open(dir)
	require.NoError(t, err)
	env := &nullEnv{id: ids.TaskID{Sub: sub}, engine: engine}
	graph, err := operators.Instantiate(res.Subtopologies()[sub], env)
	require.NoError(t, err)
	return graph, env, []string{"in", "app-by-key-repartition"}[sub]
}

// feed returns a function that sends the next of many records.
func feed(t testing.TB, g *operators.Graph, topic string) func() {
	src, ok := g.Source(topic)
	require.True(t, ok)
	var c operators.Context
	c.Ctx = context.Background()
	key, value := make([]byte, 8), make([]byte, 100)
	raw := record.Raw{Key: key, Value: value}
	n := int64(0)
	return func() {
		n++
		binary.BigEndian.PutUint64(key, uint64(n%1000))
		raw.Timestamp, raw.Offset = n, n
		c.StreamTime = n
		if err := src(&c, &raw); err != nil {
			t.Fatal(err)
		}
		if n >= g.NextStreamTime() {
			if err := g.Punctuate(&c, n); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestCountPathDoesNotAllocate(t *testing.T) {
	for _, windowed := range []bool{false, true} {
		for sub := range int32(2) {
			g, env, topic := countGraph(t, sub, windowed)
			next := feed(t, g, topic)
			for range 3000 {
				next()
			}
			before := env.written
			allocs := testing.AllocsPerRun(10_000, next)
			require.Greater(t, env.written, before+10_000)
			if windowed && sub == 1 {
				// New windows make new entries of the cache.
				require.LessOrEqual(t, allocs, 2.0)
				continue
			}
			require.Zero(t, allocs, "subtopology %d", sub)
		}
	}
}

func BenchmarkRekey(b *testing.B) { benchmarkCount(b, 0) }
func BenchmarkCount(b *testing.B) { benchmarkCount(b, 1) }

func benchmarkCount(b *testing.B, sub int32) {
	g, _, topic := countGraph(b, sub, false)
	next := feed(b, g, topic)
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
}
