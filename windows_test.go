package tidegate_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

func TestWindowMistakes(t *testing.T) {
	w := tidegate.ByWindow[string]
	for want, describe := range map[string]func(g *tidegate.Grouped[string, string]){
		"the windows are empty: use Tumbling": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.TimeWindows{}, w).Count("n")
		},
		"window size 0s: must be at least 1ms": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Hopping(0, 0), w).Count("n")
		},
		"window advance 0s: must be at least 1ms": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Hopping(ms, 0), w).Count("n")
		},
		"window advance 2ms is larger than the size 1ms": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Hopping(ms, 2*ms), w).Count("n")
		},
		"Sliding: difference -1ms: must not be negative": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Sliding(-ms), w).Count("n")
		},
		"overflows": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Sliding((1 << 62 * time.Nanosecond).Truncate(ms)), w).Count("n")
		},
		"event time has whole milliseconds": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Hopping(2*ms, ms+1), w).Count("n")
		},
		"Daily: the location is nil: pass time.UTC": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Daily(nil), w).Count("n")
		},
		"Monthly: time.Local may differ between instances": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Monthly(time.Local), w).Count("n")
		},
		"window grace -1ms: must not be negative": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Daily(time.UTC).Grace(-ms), w).Count("n")
		},
		"Unlimited: the window never ends, so it takes no grace": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Unlimited().Grace(ms), w).Count("n")
		},
		"EmitOnClose: unlimited windows never close": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Unlimited(), w).EmitOnClose().Count("n")
		},
		"LateTo: the function is nil": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.Tumbling(ms), w).LateTo(nil).Count("n")
		},
		"WindowedBy: the key function is nil": func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy[string](tidegate.Tumbling(ms), nil).Count("n")
		},
		"session gap 0s: must be at least 1ms": func(g *tidegate.Grouped[string, string]) {
			g.SessionWindowedBy(tidegate.Session(0), w).Count("n")
		},
		"session grace -1ms: must not be negative": func(g *tidegate.Grouped[string, string]) {
			g.SessionWindowedBy(tidegate.Session(ms).Grace(-ms), w).Count("n")
		},
		"session gap 2562047h47m16.854s plus grace": func(g *tidegate.Grouped[string, string]) {
			g.SessionWindowedBy(tidegate.Session(time.Duration(math.MaxInt64).Truncate(ms)), w).Count("n")
		},
		"session gap 1ns": func(g *tidegate.Grouped[string, string]) {
			g.SessionWindowedBy(tidegate.Session(1), w).Count("n")
		},
		"SessionWindowedBy: the key function is nil": func(g *tidegate.Grouped[string, string]) {
			g.SessionWindowedBy[string](tidegate.Session(ms), nil).Count("n")
		},
		`Reduce("n"): the function is nil`: func(g *tidegate.Grouped[string, string]) {
			g.SessionWindowedBy(tidegate.Session(ms), w).Reduce("n", nil)
		},
		`Aggregate("n"): a function is nil`: func(g *tidegate.Grouped[string, string]) {
			g.SessionWindowedBy(tidegate.Session(ms), w).Aggregate("n", func() int64 { return 0 },
				func(_, _ string, a int64) int64 { return a }, nil, serde.Int64())
		},
		"the aggregate's serde is nil": func(g *tidegate.Grouped[string, string]) {
			g.SessionWindowedBy(tidegate.Session(ms), w).Aggregate("n", func() int64 { return 0 },
				func(_, _ string, a int64) int64 { return a }, func(_ string, a, _ int64) int64 { return a }, nil)
		},
	} {
		b := tidegate.NewBuilder()
		describe(b.Stream("in", str, str).GroupByKey("g"))
		_, err := b.Build()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "windows_test.go:")
		require.NotContains(t, err.Error(), "\n", "one mistake is one error")
	}
}

// What the windows are is part of the topology's fingerprint.
func TestWindowsAreInTheFingerprint(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	seen := map[string]int{}
	w := tidegate.ByWindow[string]
	for i, describe := range []func(g *tidegate.Grouped[string, string]){
		func(g *tidegate.Grouped[string, string]) { g.WindowedBy(tidegate.Tumbling(10*ms), w).Count("n") },
		func(g *tidegate.Grouped[string, string]) { g.WindowedBy(tidegate.Hopping(10*ms, 5*ms), w).Count("n") },
		func(g *tidegate.Grouped[string, string]) { g.WindowedBy(tidegate.Hopping(10*ms, 2*ms), w).Count("n") },
		func(g *tidegate.Grouped[string, string]) { g.WindowedBy(tidegate.Sliding(10*ms), w).Count("n") },
		func(g *tidegate.Grouped[string, string]) { g.WindowedBy(tidegate.Daily(time.UTC), w).Count("n") },
		func(g *tidegate.Grouped[string, string]) { g.WindowedBy(tidegate.Daily(berlin), w).Count("n") },
		func(g *tidegate.Grouped[string, string]) { g.WindowedBy(tidegate.Monthly(berlin), w).Count("n") },
		func(g *tidegate.Grouped[string, string]) { g.WindowedBy(tidegate.Unlimited(), w).Count("n") },
		func(g *tidegate.Grouped[string, string]) {
			g.WindowedBy(tidegate.UnlimitedFrom(time.UnixMilli(1)), w).Count("n")
		},
		func(g *tidegate.Grouped[string, string]) { g.SessionWindowedBy(tidegate.Session(10*ms), w).Count("n") },
		func(g *tidegate.Grouped[string, string]) { g.SessionWindowedBy(tidegate.Session(11*ms), w).Count("n") },
		func(g *tidegate.Grouped[string, string]) {
			g.SessionWindowedBy(tidegate.Session(10*ms).Grace(ms), w).Count("n")
		},
	} {
		b := tidegate.NewBuilder()
		describe(b.Stream("in", str, str).GroupByKey("g"))
		top, err := b.Build()
		require.NoError(t, err)
		res, err := top.Graph().Resolve("app", map[string]int32{"in": 1})
		require.NoError(t, err)
		first, same := seen[res.Fingerprint()]
		require.False(t, same, "%d and %d", first, i)
		seen[res.Fingerprint()] = i
	}
	b := tidegate.NewBuilder()
	g := b.Stream("in", str, str).GroupByKey("g")
	g.WindowedBy(tidegate.Daily(berlin).Grace(time.Second), w).Count("days")
	g.SessionWindowedBy(tidegate.Session(10*ms), w).EmitOnClose().Count("sessions")
	require.Contains(t, b.Describe(), "days: windows-1, key string, value int64, days of Europe/Berlin+3600, grace 1000 ms")
	require.Contains(t, b.Describe(), "sessions: sessions-1, key string, value int64, sessions with a gap of 10 ms, grace 0 ms")
	require.Contains(t, b.Describe(), "sessions-closing: closing-1")
}

// A timestamp may be anything; what lies beyond 73 million years counts as if it
// lay there.
func TestWindowsTakeAnyTimestamp(t *testing.T) {
	w := tidegate.ByWindow[string]
	for name, describe := range map[string]func(g *tidegate.Grouped[string, string]) *tidegate.Table[tidegate.Windowed[string], int64]{
		"hopping": func(g *tidegate.Grouped[string, string]) *tidegate.Table[tidegate.Windowed[string], int64] {
			return g.WindowedBy(tidegate.Hopping(10*ms, 5*ms).Grace(ms), w).Count("n")
		},
		"hopping on close": func(g *tidegate.Grouped[string, string]) *tidegate.Table[tidegate.Windowed[string], int64] {
			return g.WindowedBy(tidegate.Hopping(10*ms, 5*ms).Grace(ms), w).EmitOnClose().Count("n")
		},
		"sliding": func(g *tidegate.Grouped[string, string]) *tidegate.Table[tidegate.Windowed[string], int64] {
			return g.WindowedBy(tidegate.Sliding(10*ms).Grace(ms), w).EmitOnClose().Count("n")
		},
		"monthly": func(g *tidegate.Grouped[string, string]) *tidegate.Table[tidegate.Windowed[string], int64] {
			return g.WindowedBy(tidegate.Monthly(time.UTC).Grace(ms), w).EmitOnClose().Count("n")
		},
		"unlimited": func(g *tidegate.Grouped[string, string]) *tidegate.Table[tidegate.Windowed[string], int64] {
			return g.WindowedBy(tidegate.Unlimited(), w).Count("n")
		},
		"session": func(g *tidegate.Grouped[string, string]) *tidegate.Table[tidegate.Windowed[string], int64] {
			return g.SessionWindowedBy(tidegate.Session(10*ms).Grace(ms), w).EmitOnClose().Count("n")
		},
		"session updates": func(g *tidegate.Grouped[string, string]) *tidegate.Table[tidegate.Windowed[string], int64] {
			return g.SessionWindowedBy(tidegate.Session(10*ms).Grace(ms), w).Count("n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := tidegate.NewBuilder()
			in := b.Stream("in", str, str).PeekCtx(func(c *tidegate.RecordContext, _, v string) (err error) {
				c.Timestamp, err = strconv.ParseInt(v, 10, 64)
				return err
			})
			// Sinks take Kafka's timestamps only: look at the results here.
			seen := 0
			describe(in.GroupByKey("g")).ToStream().ForEach(func(tidegate.Windowed[string], int64) { seen++ })
			r := start(t, b, map[string]int32{"in": 1})
			for i, ts := range []int64{math.MinInt64, -1, -7, 0, 3, math.MaxInt64 / 4, math.MaxInt64, math.MaxInt64, 0, -1} {
				at := int64(0) // stream time
				if i > 7 {
					at = 9223372036854 // the largest that Kafka has
				}
				r.in("in", "k", strconv.FormatInt(ts, 10), at)
				require.NoError(t, r.d.Restart())
			}
			require.Positive(t, seen)
		})
	}
}
