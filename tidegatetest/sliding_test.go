package tidegatetest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

func TestSlidingWindows(t *testing.T) {
	for _, onClose := range []bool{false, true} {
		eachWay(t, func(g *tidegate.Grouped[string, string]) {
			init, add := joined()
			w := g.WindowedBy(tidegate.Sliding(10*ms).Grace(50*ms), tidegate.ByWindow)
			if onClose {
				w = w.EmitOnClose()
			}
			show(w.Aggregate("agg", init, add, str))
		}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out *tidegatetest.Output[string, string]) {
			pipe("A", "1", 10)
			pipe("A", "2", 15)
			pipe("A", "3", 20)
			pipe("A", "4", 22)
			pipe("A", "5", 30)
			all := d.SessionStore("agg", str, str).All()
			require.Len(t, all, 9)
			d.AdvanceStreamTime(10_000)
			if onClose {
				require.Equal(t, "A[0,10)=0+1@10 A[5,15)=0+1+2@15 A[10,20)=0+1+2+3@20 A[11,21)=0+2+3@20 A[12,22)=0+2+3+4@22 "+
					"A[16,26)=0+3+4@22 A[20,30)=0+3+4+5@30 A[21,31)=0+4+5@30 A[23,33)=0+5@30", line(out))
				return
			}
			require.Equal(t, "A[0,10)=0+1@10 A[11,21)=0+2@15 A[5,15)=0+1+2@15 "+
				"A[11,21)=0+2+3@20 A[16,26)=0+3@20 A[10,20)=0+1+2+3@20 "+
				"A[16,26)=0+3+4@22 A[21,31)=0+4@22 A[12,22)=0+2+3+4@22 "+
				"A[21,31)=0+4+5@30 A[23,33)=0+5@30 A[20,30)=0+3+4+5@30", line(out))
		})
	}
}

// Out of order, and less than the difference behind the epoch.
func TestSlidingWindowsOfEarlyRecords(t *testing.T) {
	eachWay(t, func(g *tidegate.Grouped[string, string]) {
		init, add := joined()
		show(g.WindowedBy(tidegate.Sliding(50*ms).Grace(200*ms), tidegate.ByWindow).Aggregate("agg", init, add, str))
	}, func(t *testing.T, _ *tidegatetest.Driver, pipe func(k, v string, ts int64), out *tidegatetest.Output[string, string]) {
		pipe("A", "1", 0)
		require.Equal(t, "A[0,50)=0+1@0", line(out))
		pipe("A", "2", 5)
		require.Equal(t, "A[1,51)=0+2@5 A[0,50)=0+1+2@5", line(out))
		pipe("A", "3", 3)
		require.Equal(t, "A[1,51)=0+2+3@5 A[4,54)=0+2@5 A[0,50)=0+1+2+3@5", line(out))
		pipe("A", "4", 52)
		require.Equal(t, "A[4,54)=0+2+4@52 A[6,56)=0+4@52 A[2,52)=0+2+3+4@52", line(out))
	})
}

// Random records give the windows that a plain list gives: [max(0, t − d), t] of
// every record and [t + 1, t + 1 + d] of those with another record in it.
func TestSlidingWindowsAreThoseOfAList(t *testing.T) {
	const diff = 20
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		b := tidegate.NewBuilder()
		g := b.Stream("in", str, str).GroupByKey("g")
		w := g.WindowedBy(tidegate.Sliding(diff*ms).Grace(150*ms), tidegate.ByWindow)
		// The aggregate is changed in place: windows must not share it.
		list := serde.JSON[[]int64]()
		add := func(_, _ string, a []int64) []int64 { return append(a, 1) }
		w.Aggregate("rows", func() []int64 { return make([]int64, 0, 64) }, add, list).ToStream().
			MapValues(func(a []int64) int64 { return int64(len(a)) }, serde.Int64()).To("rows")
		w.EmitOnClose().Count("final").ToStream().To("final")
		d := tidegatetest.New(t, build(t, b), tidegatetest.WithCacheBytes(rnd.Int64N(2000)))
		in := d.Input("in", str, str)
		times := map[string][]int64{}
		at := int64(rnd.IntN(2) * 1000)
		for range 250 {
			at += rnd.Int64N(8)
			k, ts := fmt.Sprint("k", rnd.IntN(4)), max(0, at-rnd.Int64N(100))
			times[k] = append(times[k], ts)
			in.Pipe(k, "v", tidegatetest.At(ts))
			if rnd.IntN(30) == 0 {
				d.Restart()
			}
		}
		d.AdvanceStreamTime(at + 100_000)
		require.Zero(t, d.Late())
		var want []string
		for k, all := range times {
			starts := map[int64]bool{}
			for _, ts := range all {
				starts[max(0, ts-diff)] = true
				if slices.ContainsFunc(all, func(o int64) bool { return o > ts && o <= ts+1+diff }) {
					starts[ts+1] = true
				}
			}
			for start := range starts {
				n, last := 0, int64(0)
				for _, ts := range all {
					if ts >= start && ts <= start+diff {
						n, last = n+1, max(last, ts)
					}
				}
				want = append(want, fmt.Sprintf("[%s@%d/%d]=%d@%d", k, start, start+diff, n, last))
			}
		}
		ws := serde.Windowed(str, diff*ms)
		rows := map[string]string{}
		for _, l := range lines(d.Output("rows", ws, serde.Int64())) {
			k, _, _ := strings.Cut(l, "=")
			rows[k] = l
		}
		var last []string
		for _, l := range rows {
			last = append(last, l)
		}
		require.ElementsMatch(t, want, last)
		require.ElementsMatch(t, want, lines(d.Output("final", ws, serde.Int64())))
	}
}

func TestSlidingLateRecordsAndRetention(t *testing.T) {
	eachWay(t, func(g *tidegate.Grouped[string, string]) {
		init, add := joined()
		show(g.WindowedBy(tidegate.Sliding(10*ms).Grace(5*ms), tidegate.ByWindow).
			LateTo(func(late *tidegate.Stream[string, string]) {
				late.MapValues(func(v string) string { return "late " + v }, str).To("out")
			}).Aggregate("agg", init, add, str))
	}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out *tidegatetest.Output[string, string]) {
		pipe("k", "a", 100)
		pipe("k", "b", 120)
		require.Equal(t, "k[90,100)=0+a@100 k[110,120)=0+b@120", line(out))
		pipe("k", "c", 110) // [100,110] is closed, [110,120] and [101,111] are not: 115 is
		require.Equal(t, "k[110,120)=0+b+c@120 k[111,121)=0+b@120", line(out))
		pipe("k", "d", 104) // can be in [100..104, 114] only
		pipe("k", "e", 105)
		require.Equal(t, "k=late d@104 k=late e@105", line(out))
		require.Equal(t, int64(2), d.Late())
		require.Equal(t, 16*ms, d.MaxLateness())
		d.AdvanceStreamTime(time.Hour.Milliseconds())
		require.Empty(t, d.SessionStore("agg", str, str).All())
	})
}

// A difference of nothing: records of one timestamp meet.
func TestSlidingWindowsOfNoDifference(t *testing.T) {
	eachWay(t, func(g *tidegate.Grouped[string, string]) {
		init, add := joined()
		show(g.WindowedBy(tidegate.Sliding(0), tidegate.ByWindow).Aggregate("agg", init, add, str))
	}, func(t *testing.T, _ *tidegatetest.Driver, pipe func(k, v string, ts int64), out *tidegatetest.Output[string, string]) {
		pipe("k", "a", 0)
		pipe("k", "b", 1)
		pipe("k", "c", 1)
		require.Equal(t, "k[0,0)=0+a@0 k[1,1)=0+b@1 k[1,1)=0+b+c@1", line(out))
	})
}
