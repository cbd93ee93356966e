package tidegatetest_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/state/pebblestore"
	"github.com/tidegate/tidegate/tidegatetest"
)

type (
	windowedString = tidegate.Windowed[string]
	stringTable    = tidegate.Table[windowedString, string]
)

// show writes a table's updates to "out" as text: "k[0,10)=v".
func show(t *stringTable) {
	t.ToStream().SelectKey(func(k windowedString, _ string) string {
		return fmt.Sprintf("%s[%d,%d)", k.Key, k.Start, k.End)
	}, str).To("out")
}

// grouped is the stream whose windows are looked at, behind a repartition topic
// if wanted.
func groupedIn(b *tidegate.Builder, rekey bool) *tidegate.Grouped[string, string] {
	in := b.Stream("in", str, str)
	if rekey {
		in = in.SelectKey(func(k, _ string) string { return k }, str)
	}
	return in.GroupByKey("g")
}

func joined() (func() string, func(string, string, string) string) {
	return func() string { return "0" }, func(_, v, a string) string { return a + "+" + v }
}

// line is the unread records of an output.
func line(out *tidegatetest.Output[string, string]) string { return strings.Join(lines(out), " ") }

var engines = map[string]state.OpenFunc{
	"memory": func(dir string) (state.Engine, error) { return memory.Open(dir) },
	"pebble": pebblestore.NewShared(pebblestore.SharedOptions{BlockCache: 1 << 20}).OpenFunc(pebblestore.Options{}),
}

// eachWay runs a topology in every way that must make no difference: behind a
// repartition topic, restarted after every record, without cache, on either
// engine.
func eachWay(t *testing.T, describe func(g *tidegate.Grouped[string, string]), run func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out *tidegatetest.Output[string, string])) {
	t.Helper()
	for _, way := range []string{"memory", "memory rekey", "memory restart", "memory rekey restart nocache", "pebble restart", "pebble nocache"} {
		t.Run(way, func(t *testing.T) {
			b := tidegate.NewBuilder()
			describe(groupedIn(b, strings.Contains(way, "rekey")))
			opts := []tidegatetest.Option{tidegatetest.WithEngine(engines[strings.Fields(way)[0]])}
			if strings.Contains(way, "nocache") {
				opts = append(opts, tidegatetest.WithCacheBytes(0))
			}
			d := tidegatetest.New(t, build(t, b), opts...)
			in := d.Input("in", str, str)
			run(t, d, func(k, v string, ts int64) {
				t.Helper()
				in.Pipe(k, v, tidegatetest.At(ts))
				if strings.Contains(way, "restart") {
					d.Restart()
				}
			}, d.Output("out", str, str))
		})
	}
}

func TestHoppingWindows(t *testing.T) {
	windows := tidegate.Hopping(10*ms, 5*ms)
	feed := func(pipe func(k, v string, ts int64)) {
		pipe("A", "1", 0)
		pipe("A", "2", 5)
		pipe("A", "3", 10)
		pipe("B", "4", 6)
		pipe("B", "5", 11)
		pipe("B", "6", 15)
		pipe("C", "7", 25)
	}
	eachWay(t, func(g *tidegate.Grouped[string, string]) {
		init, add := joined()
		show(g.WindowedBy(windows, tidegate.ByWindow).Aggregate("agg", init, add, str))
	}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out *tidegatetest.Output[string, string]) {
		feed(pipe)
		require.Equal(t, "A[0,10)=0+1@0 A[0,10)=0+1+2@5 A[5,15)=0+2@5 A[5,15)=0+2+3@10 A[10,20)=0+3@10 "+
			"B[5,15)=0+4@6 B[5,15)=0+4+5@11 B[10,20)=0+5@11 B[10,20)=0+5+6@15 B[15,25)=0+6@15 "+
			"C[20,30)=0+7@25 C[25,35)=0+7@25", line(out))
		require.Zero(t, d.Late(), "a record that is late for one of its windows only is not late")
	})
	// On close: no window is lost when stream time jumps.
	eachWay(t, func(g *tidegate.Grouped[string, string]) {
		init, add := joined()
		show(g.WindowedBy(windows, tidegate.ByWindow).EmitOnClose().Aggregate("agg", init, add, str))
	}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out *tidegatetest.Output[string, string]) {
		feed(pipe)
		require.Equal(t, "A[0,10)=0+1+2@5 A[5,15)=0+2+3@10 B[5,15)=0+4+5@11 A[10,20)=0+3@10 B[10,20)=0+5+6@15 B[15,25)=0+6@15", line(out))
		d.AdvanceStreamTime(29)
		require.Empty(t, line(out))
		d.AdvanceStreamTime(1_000_000)
		require.Equal(t, "C[20,30)=0+7@25 C[25,35)=0+7@25", line(out))
	})
}

func TestTumblingOnClose(t *testing.T) {
	eachWay(t, func(g *tidegate.Grouped[string, string]) {
		show(g.WindowedBy(tidegate.Tumbling(2*ms).Grace(1*ms), tidegate.ByWindow).EmitOnClose().
			Count("n").MapValues(func(n int64) string { return strconv.FormatInt(n, 10) }, str))
	}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out *tidegatetest.Output[string, string]) {
		for _, ts := range []int64{0, 1, 2, 1, 0} {
			pipe("k1", "v", ts)
		}
		require.Empty(t, line(out))
		pipe("k1", "v", 5)
		require.Equal(t, "k1[0,2)=4@1 k1[2,4)=1@2", line(out))
		pipe("k1", "v", 0)
		require.Empty(t, line(out))
		require.Equal(t, int64(1), d.Late())
		pipe("k1", "v", 7)
		require.Equal(t, "k1[4,6)=1@5", line(out))
		require.Len(t, d.WindowStore("n", str, serde.Int64()).All(), 1, "what was sent is gone")
	})
}

func TestLateRecordsGoToAStream(t *testing.T) {
	eachWay(t, func(g *tidegate.Grouped[string, string]) {
		init, add := joined()
		show(g.WindowedBy(tidegate.Hopping(10*ms, 5*ms).Grace(1*ms), tidegate.ByWindow).
			LateTo(func(late *tidegate.Stream[string, string]) {
				late.MapValues(func(v string) string { return "late " + v }, str).To("out")
			}).EmitOnClose().Aggregate("agg", init, add, str))
	}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out *tidegatetest.Output[string, string]) {
		pipe("k", "a", 1)
		pipe("k", "b", 15)
		pipe("k", "c", 6) // for [5,15), but not for [0,10)
		pipe("k", "d", 4)
		pipe("k", "e", 5)
		pipe("k", "f", 16)
		pipe("k", "g", 6)
		require.Equal(t, "k[0,10)=0+a@1 k=late d@4 k[5,15)=0+c+e@6 k=late g@6", line(out))
		require.Equal(t, int64(2), d.Late())
		require.Equal(t, 11*ms, d.MaxLateness())
	})
}

func TestDailyWindows(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	at := func(text string) int64 {
		ts, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return ts.UnixMilli()
	}
	for _, onClose := range []bool{false, true} {
		b := tidegate.NewBuilder()
		days := groupedIn(b, true).WindowedBy(tidegate.Daily(berlin).Grace(time.Hour), tidegate.ByWindow)
		if onClose {
			days = days.EmitOnClose()
		}
		days.Count("days").ToStream().To("out")
		d := tidegatetest.New(t, build(t, b))
		in, out := d.Input("in", str, str), d.Output("out", serde.WindowedSpan(str), serde.Int64())
		for _, ts := range []string{
			"2024-03-30T23:59:59Z", "2024-03-30T22:59:59Z", "2024-03-31T00:30:00Z", "2024-03-31T21:59:59Z", "2024-03-31T22:00:00Z",
			"2024-03-30T22:00:00Z", // late: its day ended 24 hours ago
		} {
			in.Pipe("k", "v", tidegatetest.At(at(ts)))
			d.Restart()
		}
		d.AdvanceStreamTime(at("2024-04-01T23:00:00Z")) // an hour after the end of April 1st
		counts := map[string]int64{}
		out1 := out.ReadAll()
		for _, r := range out1 {
			counts[r.Key.StartTime().Format(time.RFC3339)+" "+r.Key.EndTime().Sub(r.Key.StartTime()).String()] = r.Value
		}
		require.Equal(t, map[string]int64{
			"2024-03-29T23:00:00Z 24h0m0s": 1, "2024-03-30T23:00:00Z 23h0m0s": 3, "2024-03-31T22:00:00Z 24h0m0s": 1,
		}, counts)
		require.Equal(t, int64(1), d.Late())
		if onClose {
			require.Len(t, out1, 3)
		}
		require.Empty(t, d.WindowStore("days", str, serde.Int64()).All())
		in.Pipe("k", "v", tidegatetest.At(at("2024-10-27T12:00:00Z")))
		all := d.WindowStore("days", str, serde.Int64()).All()
		require.Len(t, all, 1)
		require.Equal(t, 25*time.Hour, all[0].Key.EndTime().Sub(all[0].Key.StartTime()))
	}
}

func TestUnlimitedWindows(t *testing.T) {
	eachWay(t, func(g *tidegate.Grouped[string, string]) {
		init, add := joined()
		show(g.WindowedBy(tidegate.UnlimitedFrom(time.UnixMilli(5)), tidegate.ByWindow).Aggregate("agg", init, add, str))
	}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out *tidegatetest.Output[string, string]) {
		pipe("k", "a", 4)
		pipe("k", "b", 5)
		pipe("k", "c", 1_000_000_000_000)
		pipe("k", "d", 6)
		end := int64(math.MaxInt64)
		require.Equal(t, fmt.Sprintf("k[5,%d)=0+b@5 k[5,%d)=0+b+c@1000000000000 k[5,%d)=0+b+c+d@1000000000000", end, end, end), line(out))
		require.Equal(t, int64(1), d.Late())
	})
}
