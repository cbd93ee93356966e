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

// eachSessionWay is eachWay for tables whose keys have windows of any length; out
// shows them as "[k@start/end]=v@t".
func eachSessionWay[A any](
	t *testing.T, as serde.Serde[A], describe func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, A],
	run func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out func() string),
) {
	t.Helper()
	eachWay(t, func(g *tidegate.Grouped[string, string]) {
		s := describe(g).ToStream()
		s.As(serde.WindowedSpan(str), as).To("out")
	}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), _ *tidegatetest.Output[string, string]) {
		out := d.Output("out", serde.WindowedSpan(str), as)
		run(t, d, pipe, func() string { return strings.Join(lines(out), " ") })
	})
}

func feedSessions(pipe func(k, v string, ts int64)) {
	pipe("k1", "a", 0)
	pipe("k1", "b", 5)
	pipe("k1", "c", 1)
	pipe("k2", "d", 11)
	pipe("k1", "e", 5) // its session is closed
	pipe("k1", "f", 30)
}

func TestSessionWindows(t *testing.T) {
	sessions := tidegate.Session(5 * ms)
	eachSessionWay(t, serde.Int64(), func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, int64] {
		return g.SessionWindowedBy(sessions, tidegate.ByWindow).Count("n")
	}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out func() string) {
		feedSessions(pipe)
		require.Equal(t, "[k1@0/0]=1@0 [k1@0/0]=null@0 [k1@0/5]=2@5 [k1@0/5]=null@5 [k1@0/5]=3@5 "+
			"[k2@11/11]=1@11 [k1@30/30]=1@30", out())
		require.Equal(t, int64(1), d.Late())
		st := d.SessionStore("n", str, serde.Int64())
		n, ok := st.Get("k1", 30, 30)
		require.True(t, ok)
		require.Equal(t, int64(1), n)
		_, ok = st.Get("k1", 0, 0)
		require.False(t, ok, "it grew")
		d.AdvanceStreamTime(10 * 60_000)
		require.Empty(t, st.All(), "old sessions are dropped")
	})
	eachSessionWay(t, serde.Int64(), func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, int64] {
		return g.SessionWindowedBy(sessions, tidegate.ByWindow).EmitOnClose().Count("n")
	}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out func() string) {
		feedSessions(pipe)
		require.Equal(t, "[k1@0/5]=3@5 [k2@11/11]=1@11", out())
		require.Equal(t, int64(1), d.Late())
		d.AdvanceStreamTime(35)
		require.Empty(t, out())
		d.AdvanceStreamTime(36)
		require.Equal(t, "[k1@30/30]=1@30", out())
		d.AdvanceStreamTime(1_000_000)
		require.Empty(t, out(), "once")
	})
}

// A record between two sessions joins them; the merger gets the earlier one first.
func TestSessionsMerge(t *testing.T) {
	for _, onClose := range []bool{false, true} {
		eachSessionWay(t, str, func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, string] {
			s := g.SessionWindowedBy(tidegate.Session(5*ms).Grace(10*ms), tidegate.ByWindow)
			if onClose {
				s = s.EmitOnClose()
			}
			return s.Aggregate("agg", func() string { return "0" },
				func(_, v, a string) string { return a + "+" + v },
				func(_, a, b string) string { return a + "(" + b + ")" }, str)
		}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out func() string) {
			pipe("k", "a", 10)
			pipe("k", "b", 20)
			pipe("k", "c", 20)
			pipe("other", "x", 14)
			pipe("k", "d", 15)
			d.AdvanceStreamTime(100)
			if onClose {
				require.Equal(t, "[other@14/14]=0+x@14 [k@10/20]=0(0+a)(0(0+b)+c)+d@20", out())
			} else {
				require.Equal(t, "[k@10/10]=0+a@10 [k@20/20]=0+b@20 [k@20/20]=0(0+b)+c@20 [other@14/14]=0+x@14 "+
					"[k@10/10]=null@10 [k@20/20]=null@20 [k@10/20]=0(0+a)(0(0+b)+c)+d@20", out())
			}
		})
	}
}

func TestSessionReduceAndLateTo(t *testing.T) {
	eachSessionWay(t, str, func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, string] {
		return g.SessionWindowedBy(tidegate.Session(5*ms).Grace(2*ms), tidegate.ByWindow).EmitOnClose().
			LateTo(func(late *tidegate.Stream[string, string]) {
				late.Map(func(k, v string) (windowedString, string) {
					return windowedString{Key: "late " + k}, v
				}, tidegate.With(serde.WindowedSpan(str), str)).To("out")
			}).
			Reduce("r", func(a, v string) string { return a + v })
	}, func(t *testing.T, d *tidegatetest.Driver, pipe func(k, v string, ts int64), out func() string) {
		pipe("k", "b", 3)
		pipe("k", "a", 0)
		pipe("k", "c", 10)
		pipe("k", "d", 2) // 10 − 5 − 2 = 3: touches [0,3], which is open
		require.Empty(t, out())
		pipe("k", "e", 11)
		require.Equal(t, "[k@0/3]=bad@3", out())
		pipe("k", "f", 3)
		require.Equal(t, "[late k@0/0]=f@3", out())
		pipe("k", "g", 6) // within the gap of [0,3], which was sent, and of [10,11]
		pipe("z", "z", 100)
		require.Equal(t, "[k@6/11]=ceg@11", out())
	})
}

// Random records give the sessions that a plain list gives, wherever the task is
// started again, and every session once.
func TestSessionsAreThoseOfAList(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		b := tidegate.NewBuilder()
		g := b.Stream("in", str, str).GroupByKey("g")
		g.SessionWindowedBy(tidegate.Session(20*ms).Grace(100*ms), tidegate.ByWindow).EmitOnClose().
			Count("final").ToStream().To("final")
		g.SessionWindowedBy(tidegate.Session(20*ms).Grace(100*ms), tidegate.ByWindow).
			Count("rows").ToStream().To("rows")
		d := tidegatetest.New(t, build(t, b), tidegatetest.WithPartitions(3))
		in := d.Input("in", str, str)
		times := map[string][]int64{}
		at := int64(0)
		for range 400 {
			at += rnd.Int64N(12)
			k, ts := fmt.Sprint("k", rnd.IntN(5)), max(0, at-rnd.Int64N(100))
			times[k] = append(times[k], ts)
			in.Pipe(k, "v", tidegatetest.At(ts))
			if rnd.IntN(30) == 0 {
				d.Restart()
			}
		}
		d.AdvanceStreamTime(at + 1000)
		require.Zero(t, d.Late())
		var want []string
		for k, all := range times {
			slices.Sort(all)
			for i, first := 0, 0; i < len(all); i++ {
				if i+1 == len(all) || all[i+1]-all[i] > 20 {
					want = append(want, fmt.Sprintf("[%s@%d/%d]=%d@%d", k, all[first], all[i], i+1-first, all[i]))
					first = i + 1
				}
			}
		}
		require.ElementsMatch(t, want, lines(d.Output("final", serde.WindowedSpan(str), serde.Int64())))
		rows := map[string]string{}
		for _, l := range lines(d.Output("rows", serde.WindowedSpan(str), serde.Int64())) {
			k, v, _ := strings.Cut(l, "=")
			if rows[k] = l; strings.HasPrefix(v, "null") {
				delete(rows, k)
			}
		}
		var last []string
		for _, l := range rows {
			last = append(last, l)
		}
		require.ElementsMatch(t, want, last)
	}
}

// Two tasks upstream write what one windowed task reads. The one that is an hour
// ahead makes no record of the other late, and windows close when both have
// passed (R13).
func TestNoRecordIsLateBehindAFastUpstream(t *testing.T) {
	b := tidegate.NewBuilder()
	g := b.Stream("in", str, str).GroupBy("by", func(_, v string) string { return v }, str)
	g.WindowedBy(tidegate.Tumbling(time.Minute), tidegate.ByWindow).EmitOnClose().Count("n").ToStream().To("out")
	g.SessionWindowedBy(tidegate.Session(time.Minute), tidegate.ByWindow).EmitOnClose().Count("s").ToStream().To("sessions")
	d := tidegatetest.New(t, build(t, b), tidegatetest.WithPartitions(2))
	in := d.Input("in", str, str)
	out, sessions := d.Output("out", serde.Windowed(str, time.Minute), serde.Int64()), d.Output("sessions", serde.WindowedSpan(str), serde.Int64())
	in.Pipe("", "k", tidegatetest.At(0), tidegatetest.Partition(0))
	in.Pipe("", "k", tidegatetest.At(0), tidegatetest.Partition(1))
	const hour = 3_600_000
	for ts := int64(60_000); ts <= hour; ts += 60_000 {
		in.Pipe("", "k", tidegatetest.At(ts), tidegatetest.Partition(0))
	}
	require.Zero(t, out.Len())
	for ts := int64(30_000); ts <= hour+30_000; ts += 60_000 {
		in.Pipe("", "k", tidegatetest.At(ts), tidegatetest.Partition(1))
	}
	require.Zero(t, d.Late())
	got := out.ReadAll()
	require.Len(t, got, 60)
	for i, r := range got {
		require.Equal(t, int64(i)*60_000, r.Key.Start)
		want := int64(2)
		if i == 0 {
			want = 3
		}
		require.Equal(t, want, r.Value, r.Key)
	}
	require.Zero(t, sessions.Len())
	in.Pipe("", "k", tidegatetest.At(3*hour), tidegatetest.Partition(0))
	in.Pipe("", "k", tidegatetest.At(3*hour), tidegatetest.Partition(1))
	require.Equal(t, []string{"[k@0/3630000]=123@3630000"}, lines(sessions))
}
