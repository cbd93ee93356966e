package logfaults

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/testkit"
	config "github.com/tidegate/tidegate/runtime"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// gate holds up batches that are written to state, as a restore does.
type gate struct {
	entered chan struct{} // closed by the first
	open    chan struct{}
	once    sync.Once
}

func newGate() *gate { return &gate{entered: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) option(c *config.Config) {
	c.TestRules.Engine = func(e state.Engine) state.Engine { return gatedEngine{e, g} }
}

type gatedEngine struct {
	state.Engine
	g *gate
}

func (e gatedEngine) Store(name string) (state.KV, error) {
	kv, err := e.Engine.Store(name)
	return gatedKV{kv, e.g}, err
}

func (e gatedEngine) Flush() error { return e.Engine.(interface{ Flush() error }).Flush() }

type gatedKV struct {
	state.KV
	g *gate
}

func (kv gatedKV) Batch() state.Batch { return gatedBatch{kv.KV.(state.Batcher).Batch(), kv.g} }

type gatedBatch struct {
	state.Batch
	g *gate
}

func (b gatedBatch) Commit() error {
	b.g.once.Do(func() {
		close(b.g.entered)
		<-b.g.open
	})
	return b.Batch.Commit()
}

// Kafka removes old windows from a changelog while its restore is on the way: the
// task is restored from what is left.
func TestChangelogShortenedDuringRestore(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 1, "out": 1})
	b := tidegate.NewBuilder()
	g := b.Stream("in", str, str).GroupByKey("by-key").WindowedBy(tidegate.Tumbling(time.Hour), tidegate.ByWindow)
	g.Count("w1")
	g.Count("w2").ToStream().
		Map(func(w tidegate.Windowed[string], n int64) (string, int64) { return w.Key, n }).As(str, serde.Int64()).To("out")
	topo, err := b.Build()
	require.NoError(t, err)
	out := c.read("out", 1)
	var list []testkit.Message
	for i := range 100 {
		list = append(list, message(0, fmt.Sprint("k", i), "v", int64(i)))
	}
	c.produce("in", list...)
	a := c.start(topo, "a")
	c.await(func() bool { return out.Count() >= 100 }, a)
	a.end()
	held := newGate()
	a = c.start(topo, "b", held.option)
	c.await(func() bool {
		select {
		case <-held.entered:
			return true
		default:
			return false
		}
	}, a)
	require.NoError(t, c.client.K.Admin().DeleteRecords(c.ctx, map[ids.TopicPartition]int64{{Topic: "app-w2-changelog"}: 50}))
	close(held.open)
	c.produce("in", message(0, "k99", "v", 100))
	c.await(func() bool { return out.Count() >= 101 }, a)
	a.end()
	last := out.All()[0][100]
	require.Equal(t, "k99", string(last.Key))
	require.EqualValues(t, 2, last.Value[7])
}

// A stop in the middle of a restore, again and again, costs nothing but time.
func TestStopsDuringRestore(t *testing.T) {
	c := newCounted(t, true)
	a := c.start(c.topo, "a")
	c.round(5000, a)
	a.end()
	for range 5 {
		held := newGate()
		a = c.start(c.topo, "b", held.option)
		c.await(func() bool {
			select {
			case <-held.entered:
				return true
			default:
				return false
			}
		}, a)
		a.stop()
		close(held.open)
		a.end()
	}
	a = c.start(c.topo, "b")
	c.round(500, a)
	a.end()
	c.check()
}
