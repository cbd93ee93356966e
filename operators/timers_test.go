package operators

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

type timerEnv struct{ m Metrics }

func (*timerEnv) Task() ids.TaskID                    { return ids.TaskID{} }
func (*timerEnv) Store(string) (state.KV, error)      { return nil, nil }
func (*timerEnv) CacheBytes() int64                   { return 0 }
func (*timerEnv) Output(string, bool) (Output, error) { return nil, nil }
func (*timerEnv) Fail(e *RecordError) error           { return e }
func (*timerEnv) MaySkip() bool                       { return false }
func (e *timerEnv) Metrics() *Metrics                 { return &e.m }

func timerGraph() (*Graph, *Context) {
	g := &Graph{env: &timerEnv{}}
	g.timers.reset()
	c := &Context{}
	c.Ctx, c.Topic = context.Background(), "t"
	return g, c
}

func TestTimersFireInOrderOfDueTime(t *testing.T) {
	g, c := timerGraph()
	var fired []string
	add := func(name string, every int64) *Timer {
		return g.timers.add(&Timer{node: name, every: every, kind: StreamTime, f: func(c *Context, now int64) error {
			require.Equal(t, now, c.Timestamp)
			require.Equal(t, int64(-1), c.Offset)
			require.Empty(t, c.Topic)
			fired = append(fired, name)
			return nil
		}}, 0)
	}
	add("ten", 10)
	four := add("four", 4)
	add("also-four", 4)
	require.Equal(t, int64(4), g.NextStreamTime())
	require.Equal(t, int64(math.MaxInt64), g.NextWallClock())
	require.NoError(t, g.Punctuate(c, 3))
	require.Empty(t, fired)
	require.NoError(t, g.Punctuate(c, 25))
	require.Equal(t, []string{"four", "also-four", "ten"}, fired)
	require.Equal(t, "t", c.Topic, "the record is back")
	require.Equal(t, int64(28), g.NextStreamTime())

	fired = nil
	four.Cancel()
	four.Cancel()
	require.NoError(t, g.Punctuate(c, 28))
	require.Equal(t, []string{"also-four"}, fired)
}

func TestTimerMayScheduleAndCancelWithinItself(t *testing.T) {
	g, c := timerGraph()
	n := 0
	var self *Timer
	self = g.timers.add(&Timer{every: 5, kind: WallClock, f: func(_ *Context, now int64) error {
		n++
		self.Cancel()
		g.timers.add(&Timer{every: 7, kind: WallClock, f: func(*Context, int64) error { n += 10; return nil }}, -1)
		return nil
	}}, -1)
	self.ordinal = -1
	require.NoError(t, g.PunctuateWallClock(c, 100)) // sees the clock
	require.NoError(t, g.PunctuateWallClock(c, 105))
	require.Equal(t, 1, n)
	require.NoError(t, g.PunctuateWallClock(c, 112))
	require.Equal(t, 11, n)
	require.Len(t, g.timers.all, 1)
}

func TestTimersSnapshot(t *testing.T) {
	g, c := timerGraph()
	nop := func(*Context, int64) error { return nil }
	make2 := func(g *Graph) {
		g.timers.add(&Timer{node: "p", ordinal: 0, every: 10, kind: StreamTime, f: nop}, -1)
		g.timers.add(&Timer{node: "p", ordinal: 1, every: 3, kind: WallClock, f: nop}, -1)
		g.timers.add(&Timer{node: "q", ordinal: 0, every: 10, kind: StreamTime, f: nop}, -1)
	}
	make2(g)
	g.timers.add(&Timer{node: "p", ordinal: -1, every: 1, kind: StreamTime, f: nop}, 50)
	require.NoError(t, g.Punctuate(c, 57))
	g.timers.all[2].Cancel()
	b := g.SnapshotTimers()

	g2, _ := timerGraph()
	make2(g2)
	require.NoError(t, g2.RestoreTimers(b))
	require.Equal(t, int64(60), g2.NextStreamTime())
	require.Equal(t, int64(math.MaxInt64), g2.timers.all[2].due)
	require.NoError(t, g2.RestoreTimers(nil))
	require.ErrorContains(t, g2.RestoreTimers([]byte{9}), "version 9")
	require.ErrorIs(t, g2.RestoreTimers(b[:len(b)-1]), errTimers)
}

func FuzzTimers(f *testing.F) {
	f.Add([]byte{1, 1, 'p', 0, 20})
	f.Add([]byte{1})
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = decodeTimers(b)
	})
}

func FuzzStamped(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := stampedSerde[string]{serde.String()}
		v, err := s.Decode(b)
		if err != nil {
			return
		}
		again, err := s.Append(nil, v)
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}

func TestFloorAndClosed(t *testing.T) {
	require.Equal(t, int64(-10), floor(-1, 10))
	require.Equal(t, int64(0), floor(9, 10))
	require.Equal(t, int64(-10), floor(-10, 10))
	w := Windows{Size: 10, Grace: 5}
	require.False(t, w.closed(0, 14))
	require.True(t, w.closed(0, 15))
}

func TestExpiryDropsEachWindowOnce(t *testing.T) {
	var drops []int64
	e := newExpiry(Windows{Size: 10, Grace: 5}, func(before int64) error {
		drops = append(drops, before)
		return nil
	})
	for ts := range int64(60) {
		if ts >= e.due {
			require.NoError(t, e.advance(ts))
		}
	}
	require.Equal(t, []int64{-19, -9, 1, 11, 21, 31, 41}[:7], append([]int64{}, drops...))
}

// Any int64 may come as a timestamp: nothing fires or loops for ever.
func TestTimesAtTheEndsOfTheirRange(t *testing.T) {
	for _, now := range []int64{math.MinInt64, math.MinInt64 + 1, -1, maxTime, math.MaxInt64 - 1, math.MaxInt64} {
		g, c := timerGraph()
		fired := 0
		g.timers.add(&Timer{node: "p", every: 10, kind: StreamTime, f: func(*Context, int64) error { fired++; return nil }}, now)
		e := newExpiry(Windows{Size: 10, Grace: 5}, func(before int64) error {
			require.LessOrEqual(t, before, clampTime(now)+1)
			return nil
		})
		g.timers.expire(e)
		for range 3 {
			require.NoError(t, g.Punctuate(c, now))
		}
		require.LessOrEqual(t, fired, 1)
		w := Windows{Size: 10, Grace: 5}
		require.False(t, w.closed(floor(clampTime(now), 10), now), now)
	}
}
