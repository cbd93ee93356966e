package logfaults

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
)

// ticker forwards stream-time ticks, and counts those of the wall clock.
type ticker struct {
	ctx  *tidegate.ProcessorContext[string, string]
	wall *atomic.Int64
}

func (p *ticker) Init(ctx *tidegate.ProcessorContext[string, string]) error {
	p.ctx = ctx
	if _, err := ctx.Schedule(50*time.Millisecond, tidegate.WallClock, func(int64) error { p.wall.Add(1); return nil }); err != nil {
		return err
	}
	_, err := ctx.Schedule(100*time.Millisecond, tidegate.StreamTime, func(int64) error { return ctx.Forward("tick", "") })
	return err
}

func (p *ticker) Process(string, tidegate.Opt[string]) error { return nil }

// Stream time that went on because an input is idle, long after the records that
// it comes from were committed, does not go back over a restart: what its timers
// sent comes once.
func TestIdleTimeOverARestart(t *testing.T) {
	c := newCluster(t, map[string]int32{"fast": parts, "slow": parts, "out": parts})
	var wall atomic.Int64
	b := tidegate.NewBuilder()
	b.Stream("fast", str, str).Merge(b.Stream("slow", str, str)).
		Process("p", func() tidegate.Processor[string, string, string, string] { return &ticker{wall: &wall} }).
		As(str, str).To("out")
	topo, err := b.Build()
	require.NoError(t, err)
	out := c.read("out", parts)
	for p := range int32(parts) {
		c.produce("fast", message(p, "k", "v", 1000))
	}
	a := c.start(topo, "a")
	c.await(func() bool { return out.Count() >= parts }, a)
	a.end()
	wall.Store(0)
	a = c.start(topo, "b")
	c.await(func() bool { return wall.Load() > 15*parts }, a) // well behind the idle timeout
	a.end()
	all, err := c.client.ReadToEnd(c.ctx, "out", parts, true)
	require.NoError(t, err)
	n := 0
	for _, list := range all {
		n += len(list)
	}
	require.Equal(t, parts, n, "ticks, one of each task")
}
