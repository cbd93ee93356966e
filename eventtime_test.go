package tidegate_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// perMinute counts all records of "in" per minute, behind a repartition topic.
func perMinute(t *testing.T) *tidegate.Topology {
	t.Helper()
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.String()).
		SelectKey(func(string, string) string { return "all" }, serde.String()).
		GroupByKey("per-minute").
		WindowedBy(tidegate.Tumbling(time.Minute).Grace(0), tidegate.ByWindow).
		Count("counts").ToStream().To("out")
	top, err := b.Build()
	require.NoError(t, err)
	return top
}

const anHour = int64(60)

// hour is a record per minute, from a minute to another one, for one partition.
func hour(partition int32, from, to int64) []testkit.Message {
	var out []testkit.Message
	for m := from; m <= to; m++ {
		out = append(out, testkit.Message{Partition: partition, Key: []byte{byte(partition)}, Value: []byte("v"), Timestamp: m * 60_000})
	}
	return out
}

// Upstream 0 replays an hour ahead of upstream 1 into one windowed task (R13).
func TestUpstreamAnHourAhead(t *testing.T) {
	for name, c := range map[string]struct {
		time tidegate.RepartitionTime
		late int64
	}{
		"slowest upstream": {tidegate.SlowestUpstream, 0},
		"maximum seen":     {tidegate.MaximumSeen, anHour - 1}, // all but those of the last minute
	} {
		inBothModes(t, name, func(t *testing.T, mode tidegate.Option) {
			b := newCluster(t, map[string]int32{"in": 2, "out": 2})
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			out, err := b.client.Read("out", 2, true)
			require.NoError(t, err)
			defer out.Close()
			app := b.app(perMinute(t), "a", tidegate.WithIdleTimeout(time.Hour), tidegate.WithRepartitionTime(c.time), mode)
			b.run(app)
			written := 0
			produce := func(list []testkit.Message, late int64) {
				require.NoError(t, b.client.Produce(ctx, "in", list))
				written += len(list)
				require.NoError(t, out.Await(ctx, func() bool { return out.Count() >= written-int(late) }))
			}
			produce(hour(1, 0, 0), 0)
			produce(hour(0, 0, anHour), 0)
			produce(hour(1, 1, anHour), c.late)
			require.Equal(t, c.late, app.Health().Late)
			counts := map[string]uint64{}
			for _, list := range out.All() {
				for _, m := range list {
					counts[string(m.Key)] = binary.BigEndian.Uint64(m.Value)
				}
			}
			full := uint64(0)
			for _, n := range counts {
				require.LessOrEqual(t, n, uint64(2))
				full += n - 1
			}
			require.Len(t, counts, int(anHour)+1)
			require.EqualValues(t, anHour+1-c.late, full, "windows with both records")

			// Both have passed the hour: the windows before it are closed.
			require.NoError(t, b.client.Produce(ctx, "in", hour(0, 5, 5)))
			require.Eventually(t, func() bool { return app.Health().Late == c.late+1 }, 20*time.Second, 10*time.Millisecond)
		})
	}
}

// inBothModes runs a test in barrier and in changelog mode.
func inBothModes(t *testing.T, name string, f func(t *testing.T, mode tidegate.Option)) {
	for _, m := range []tidegate.Mode{tidegate.Barrier, tidegate.Changelog} {
		t.Run(name+" "+m.String(), func(t *testing.T) { f(t, tidegate.WithMode(m)) })
	}
}

// A source's idle timeout lets time go on, where the application's would not yet.
func TestIdleAfterEndToEnd(t *testing.T) {
	inBothModes(t, "", func(t *testing.T, mode tidegate.Option) {
		c := newCluster(t, map[string]int32{"in": 2, "out": 2})
		b := tidegate.NewBuilder()
		b.Stream("in", serde.String(), serde.String(), tidegate.IdleAfter(100*time.Millisecond)).
			SelectKey(func(string, string) string { return "all" }, serde.String()).
			GroupByKey("g").WindowedBy(tidegate.Tumbling(time.Minute).Grace(0), tidegate.ByWindow).Count("n").ToStream().To("out")
		top, err := b.Build()
		require.NoError(t, err)
		app := c.app(top, "a", tidegate.WithIdleTimeout(time.Hour), mode)
		c.run(app)
		require.NoError(t, c.client.Produce(t.Context(), "in", hour(1, 0, 0)))
		require.Eventually(t, func() bool { // once partition 1 was silent for long enough
			require.NoError(t, c.client.Produce(t.Context(), "in", hour(0, anHour, anHour)))
			require.NoError(t, c.client.Produce(t.Context(), "in", hour(1, 1, 1)))
			return app.Health().Late > 0
		}, 30*time.Second, 300*time.Millisecond)
	})
}

// The same in the driver, with an upstream that falls idle: IdleAfter of its
// source lets time go on, where the application's idle timeout would not yet.
func TestIdleAfter(t *testing.T) {
	build := func(opts ...tidegate.SourceOption) *tidegate.Topology {
		b := tidegate.NewBuilder()
		b.Stream("in", serde.String(), serde.String(), opts...).
			SelectKey(func(string, string) string { return "all" }, serde.String()).
			GroupByKey("g").WindowedBy(tidegate.Tumbling(time.Minute).Grace(0), tidegate.ByWindow).Count("n").ToStream().To("out")
		top, err := b.Build()
		require.NoError(t, err)
		return top
	}
	for _, c := range []struct {
		opts []tidegate.SourceOption
		time tidegate.RepartitionTime
		late int64
	}{
		{nil, tidegate.SlowestUpstream, 0},
		{[]tidegate.SourceOption{tidegate.IdleAfter(time.Second)}, tidegate.SlowestUpstream, 1},
		{nil, tidegate.MaximumSeen, 1},
	} {
		d := tidegatetest.New(t, build(c.opts...), tidegatetest.WithPartitions(2), tidegatetest.WithRepartitionTime(c.time))
		in := d.Input("in", serde.String(), serde.String())
		in.Pipe("k", "v", tidegatetest.At(0), tidegatetest.Partition(1))
		in.Pipe("k", "v", tidegatetest.At(0), tidegatetest.Partition(0))
		d.AdvanceWallClock(2 * time.Second)
		in.Pipe("k", "v", tidegatetest.At(3_600_000), tidegatetest.Partition(0))
		d.Restart()
		in.Pipe("k", "v", tidegatetest.At(60_000), tidegatetest.Partition(1))
		require.Equal(t, c.late, d.Late())
	}
}

func TestEventTimeOptionsAreChecked(t *testing.T) {
	_, err := tidegate.New(perMinute(t), tidegate.WithRepartitionTime(7))
	require.ErrorContains(t, err, "WithRepartitionTime(7): want SlowestUpstream or MaximumSeen")
}

// A join of two inputs does not wait for the empty one when it is told not to,
// and ends all the same when it waits longer.
func TestMaxTaskIdle(t *testing.T) {
	for _, idle := range []time.Duration{-1, 200 * time.Millisecond} {
		inBothModes(t, idle.String(), func(t *testing.T, mode tidegate.Option) {
			c := newCluster(t, map[string]int32{"l": 1, "r": 1, "out": 1})
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			b := tidegate.NewBuilder()
			b.StreamOf([]string{"l", "r"}, serde.String(), serde.String()).To("out")
			top, err := b.Build()
			require.NoError(t, err)
			c.run(c.app(top, "a", tidegate.WithMaxTaskIdle(idle), mode))
			out, err := c.client.Read("out", 1, true)
			require.NoError(t, err)
			require.NoError(t, c.client.Produce(ctx, "l", hour(0, 0, 9)))
			require.NoError(t, out.Await(ctx, func() bool { return out.Count() >= 10 }))
			out.Close()
		})
	}
}
