package tidegate_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

type strs = *tidegate.Stream[string, string]

// join joins l and r by strings: "l-r", "null" for a missing one.
func join(kind, name string, l, r strs, w tidegate.JoinWindows) strs {
	switch kind {
	case "inner":
		return l.JoinStream(name, r, w, func(l, r string) string { return l + "-" + r }, str)
	case "left":
		return l.LeftJoinStream(name, r, w, func(l string, r tidegate.Opt[string]) string { return l + "-" + r.Or("null") }, str)
	}
	return l.OuterJoinStream(name, r, w, func(l, r tidegate.Opt[string]) string { return l.Or("null") + "-" + r.Or("null") }, str)
}

// startJoin is a running join of "l" and "r" into "out".
func startJoin(t *testing.T, kind string, w tidegate.JoinWindows) *run {
	t.Helper()
	b := tidegate.NewBuilder()
	join(kind, "j", b.Stream("l", str, str), b.Stream("r", str, str), w).To("out")
	return start(t, b, map[string]int32{"l": 1, "r": 1})
}

// in1 is the input of the acceptance cases.
var in1 = []string{
	"l null", "r null", "l A", "r a", "l B", "r b", "l null", "r null", "l C", "r c", "r null", "l null", "r null",
	"r d", "l D", "l E", "r e",
}

func TestJoinStreamCases(t *testing.T) {
	inner := map[int]string{
		4: "A-a@4", 5: "B-a@5", 6: "A-b@6 B-b@6", 9: "C-a@9 C-b@9", 10: "A-c@10 B-c@10 C-c@10",
		14: "A-d@14 B-d@14 C-d@14", 15: "D-a@15 D-b@15 D-c@15 D-d@15",
	}
	extra := map[string]map[int]string{
		"inner": {}, "left": {16: "E-null@16"}, "outer": {16: "E-null@16", 17: "null-e@17"},
	}
	for _, kind := range []string{"inner", "left", "outer"} {
		for _, how := range []string{"plain", "repartitioned", "restarted", "no cache"} {
			t.Run(kind+"/"+how, func(t *testing.T) {
				b := tidegate.NewBuilder()
				l, r := b.Stream("l", str, str), b.Stream("r", str, str)
				if how == "repartitioned" {
					l, r = l.Repartition("l"), r.Repartition("r")
				}
				join(kind, "j", l, r, tidegate.JoinWithin(10*time.Second).Grace(24*time.Hour)).To("out")
				run := start(t, b, map[string]int32{"l": 1, "r": 1})
				if how == "no cache" {
					run.d.CacheBytes = 0
				}
				for i, rec := range in1 {
					n := i + 1
					topic, value, _ := strings.Cut(rec, " ")
					key := "k"
					if n >= 16 {
						key = "null"
					}
					run.in(topic, key, value, int64(n))
					want := ""
					for _, res := range strings.Fields(inner[n]) {
						want += " k=" + res
					}
					if x := extra[kind][n]; x != "" {
						want = " null=" + x
					}
					require.Equal(t, strings.TrimSpace(want), run.out("out"), "record %d", n)
					if how == "restarted" {
						require.NoError(t, run.d.Restart())
					}
				}
				dropped := map[string]int64{"inner": 9, "left": 8, "outer": 7}
				require.Equal(t, dropped[kind], run.d.Metrics.NullDropped.Load())
				require.Zero(t, run.d.Metrics.LateDropped.Load())
			})
		}
	}
}

func TestLeftJoinStreamShowsNoNullTooEarly(t *testing.T) {
	t.Run("no grace", func(t *testing.T) {
		r := startJoin(t, "left", tidegate.JoinWithin(100*ms))
		r.in("l", "0", "A0", 1)
		r.in("l", "1", "A1", 2)
		r.in("l", "0", "A0'", 3)
		require.Empty(t, r.out("out"))
		r.in("r", "1", "a1", 3)
		require.Equal(t, "1=A1-a1@3", r.out("out"))
		r.in("r", "2", "any", 401)
		require.Equal(t, "0=A0-null@1 0=A0'-null@3", r.out("out"))
	})
	t.Run("before the joined row", func(t *testing.T) {
		r := startJoin(t, "left", tidegate.JoinWithin(100*ms))
		r.in("l", "0", "A0", 0)
		r.in("l", "1", "A1", 100)
		require.Empty(t, r.out("out"))
		r.in("r", "1", "a1", 110)
		require.Equal(t, "0=A0-null@0 1=A1-a1@110", r.out("out"))
	})
	t.Run("ended but not closed", func(t *testing.T) {
		r := startJoin(t, "left", tidegate.JoinWithin(100*ms).Grace(10*ms))
		r.in("l", "0", "A0", 0)
		r.in("l", "1", "A1", 0)
		for _, k := range []string{"0", "1", "2", "3"} {
			r.in("r", k, "a"+k, 101)
		}
		require.Empty(t, r.out("out"))
		r.in("r", "0", "x", 1201)
		require.Equal(t, "0=A0-null@0 1=A1-null@0", r.out("out"))
	})
	t.Run("a match inside grace", func(t *testing.T) {
		for _, kind := range []string{"left", "outer"} {
			r := startJoin(t, kind, tidegate.JoinWithin(100*ms).Grace(10*ms))
			r.in("l", "0", "A0", 0)
			r.in("l", "1", "A1", 110)
			r.in("r", "0", "a0", 100)
			require.Equal(t, "0=A0-a0@100", r.out("out"))
			r.in("r", "1", "a1", 210)
			r.in("l", "null", "null", 5000)
			require.Equal(t, "1=A1-a1@210", r.out("out"))
		}
	})
}

// The last stream time at which a row waits, and the first at which it does
// not, on both sides of asymmetric windows.
func TestJoinStreamAsymmetricWindows(t *testing.T) {
	w := tidegate.JoinWithin(0).Before(20 * ms).After(50 * ms).Grace(5 * ms)
	r := startJoin(t, "outer", w)
	r.in("l", "k", "L", 1000)
	for _, ts := range []int64{979, 980, 1000, 1050, 1051} {
		r.in("r", "k", fmt.Sprint(ts), ts)
	}
	require.Equal(t, "k=L-980@1000 k=L-1000@1000 k=null-979@979 k=L-1050@1050", r.out("out"))

	// R@1051 waits until 1076 for a left record with 1071 at most.
	r.in("l", "k", "M", 1072)
	r.in("l", "k", "N", 1071)
	require.Equal(t, "k=N-1051@1071", r.out("out"))
	// L waits no more, M waits until 1127, N met.
	r.in("l", "null", "null", 1127)
	require.Empty(t, r.out("out"))
	r.in("l", "null", "null", 1128)
	require.Equal(t, "k=M-null@1072", r.out("out"))
	require.Zero(t, r.d.Metrics.LateDropped.Load())
}

func TestJoinStreamKeepsDuplicates(t *testing.T) {
	for _, kind := range []string{"inner", "outer"} {
		r := startJoin(t, kind, tidegate.JoinWithin(100*ms))
		for _, v := range []string{"A", "A", "B"} {
			r.in("l", "k", v, 10)
			require.NoError(t, r.d.Restart())
		}
		r.in("r", "k", "a", 20)
		r.in("r", "k", "a", 20)
		require.Equal(t, strings.Repeat(" k=A-a@20 k=A-a@20 k=B-a@20", 2), " "+r.out("out"))
		r.in("l", "k", "C", 5)
		require.Equal(t, "k=C-a@20 k=C-a@20", r.out("out"))
	}
	r := startJoin(t, "outer", tidegate.JoinWithin(100*ms))
	for _, side := range []string{"l", "l", "r", "r"} {
		r.in(side, "k"+side, side, 10)
	}
	require.NoError(t, r.d.Restart())
	r.in("l", "null", "null", 111)
	require.Equal(t, "kl=l-null@10 kl=l-null@10 kr=null-r@10 kr=null-r@10", r.out("out"))
}

// Keys of which one is the beginning of another, with bytes that look like
// times, must not meet.
func TestJoinStreamKeysDoNotMix(t *testing.T) {
	r := startJoin(t, "inner", tidegate.JoinWithin(100*ms))
	keys := []string{"", "k", "k\x80", "k\x80\x00\x00\x00\x00\x00\x00\x0a", "k\x00", "\x00", "\xff"}
	for _, k := range keys {
		r.in("l", k, "v"+k, 10)
	}
	for _, k := range keys {
		r.in("r", k, "w", 10)
		require.Equal(t, k+"=v"+k+"-w@10", r.out("out"))
	}
}

func TestJoinStreamLateRecords(t *testing.T) {
	r := startJoin(t, "left", tidegate.JoinWithin(10*ms).Grace(5*ms))
	r.in("r", "k", "a", 100)
	r.in("l", "k", "A", 92) // open until 107
	r.in("r", "x", "x", 108)
	require.Equal(t, "k=A-a@100", r.out("out"))
	r.in("l", "k", "B", 92) // closed, but R@100 is open until 115
	require.Equal(t, "k=B-a@100", r.out("out"))
	r.in("l", "k", "C", 89) // closed, and R@100 is out of reach
	r.in("r", "k", "b", 92)
	require.Empty(t, r.out("out"), "A and B are closed, R@92 is late")
	require.Equal(t, int64(2), r.d.Metrics.LateDropped.Load())
	require.Equal(t, int64(19), r.d.Metrics.MaxLatenessMs.Load())
	r.in("l", "k", "D", 93) // open until 108
	r.in("r", "x", "x", 109)
	require.Equal(t, "k=D-a@100", r.out("out"))
	r.in("r", "x", "x", 10_000)
	require.Empty(t, r.out("out"))
}

// joinModel is a join by brute force.
type joinModel struct {
	kind                 string
	before, after, grace int64
	now                  int64
	rows                 []*modelRow
	late                 int64
}

type modelRow struct {
	left, sent bool
	key, v     string
	ts, until  int64
}

func (m *joinModel) take(left bool, key, v string, ts int64) (out []string) {
	m.now = max(m.now, ts)
	for _, r := range m.rows {
		if !r.sent && r.until < m.now {
			r.sent = true
			if r.left && m.kind != "inner" {
				out = append(out, fmt.Sprintf("%s=%s-null@%d", r.key, r.v, r.ts))
			} else if !r.left && m.kind == "outer" {
				out = append(out, fmt.Sprintf("%s=null-%s@%d", r.key, r.v, r.ts))
			}
		}
	}
	row := &modelRow{left: left, key: key, v: v, ts: ts, until: ts + m.before + m.grace}
	if left {
		row.until = ts + m.after + m.grace
	}
	for _, o := range m.rows {
		l, r := row, o
		if !left {
			l, r = o, row
		}
		if o.left == left || o.key != key || o.until < m.now || r.ts < l.ts-m.before || r.ts > l.ts+m.after {
			continue
		}
		row.sent, o.sent = true, true
		out = append(out, fmt.Sprintf("%s=%s-%s@%d", key, l.v, r.v, max(l.ts, r.ts)))
	}
	if row.until >= m.now {
		m.rows = append(m.rows, row)
	} else if !row.sent {
		m.late++
	}
	slices.Sort(out)
	return out
}

func TestJoinStreamAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		kind := []string{"inner", "left", "outer"}[seed%3]
		// Also windows that are longer and shorter than a segment of the store.
		scale := []int64{1, 1000, 100_000}[seed/3%3]
		m := &joinModel{
			kind: kind, before: rnd.Int64N(20) * scale, after: rnd.Int64N(20) * scale, grace: rnd.Int64N(15) * scale, now: math.MinInt64,
		}
		w := tidegate.JoinWithin(0).Before(time.Duration(m.before) * ms).After(time.Duration(m.after) * ms).
			Grace(time.Duration(m.grace) * ms)
		r := startJoin(t, kind, w)
		base := int64(10_000_000)
		for i := range 400 {
			base += rnd.Int64N(4) * scale
			if rnd.IntN(60) == 0 {
				base += 100 * scale
			}
			ts := base - rnd.Int64N(40)*scale - rnd.Int64N(2)
			left, key := rnd.IntN(2) == 0, fmt.Sprint("k", rnd.IntN(4))
			topic := "r"
			if left {
				topic = "l"
			}
			r.in(topic, key, fmt.Sprint(i), ts)
			got := strings.Fields(r.out("out"))
			slices.Sort(got)
			want := m.take(left, key, fmt.Sprint(i), ts)
			require.Equal(t, want, append([]string(nil), got...), "seed %d (%s), record %d: %s %s@%d", seed, kind, i, topic, key, ts)
			if rnd.IntN(20) == 0 {
				require.NoError(t, r.d.Restart())
			}
		}
		require.Equal(t, m.late, r.d.Metrics.LateDropped.Load(), "seed %d", seed)
	}
}

// Rows go when their windows are closed, and pending rows when they are sent.
func TestJoinStreamForgets(t *testing.T) {
	r := startJoin(t, "outer", tidegate.JoinWithin(time.Second).Grace(time.Second))
	rows := func(store string) (n int) {
		kv, err := r.d.Engine(r.d.Resolved().Tasks()[0]).Store(store)
		require.NoError(t, err)
		it := kv.Scan(nil, nil, false)
		for it.Next() {
			n++
		}
		require.NoError(t, it.Err())
		require.NoError(t, it.Close())
		return n
	}
	most := 0
	for i := range int64(3000) {
		r.in([]string{"l", "r"}[i%2], fmt.Sprint(i%7/2), "v", i*200)
		most = max(most, rows("j-left"), rows("j-right"))
	}
	require.Less(t, most, 400, "a segment is a minute with 150 rows of each side")
	require.LessOrEqual(t, rows("j-pending"), 12)
	r.in("l", "null", "null", 10_000_000)
	require.Zero(t, rows("j-left")+rows("j-right")+rows("j-pending"))
}

func TestJoinStreamWithItself(t *testing.T) {
	b := tidegate.NewBuilder()
	in := b.Stream("in", str, str)
	pair := func(l, r string) string { return l + "-" + r }
	w := tidegate.JoinWithin(0).Before(10 * ms).After(5 * ms)
	in.JoinStream("one", in, w, pair, str).To("one")
	all := func(string, string) bool { return true }
	left, right := in.Filter(all), in.Filter(all)
	left.JoinStream("two", right, w, pair, str).To("two")
	key := in.SelectKey(func(k, _ string) string { return k }, str)
	key.JoinStream("three", key, w, pair, str).To("three")
	text := b.Describe()
	require.NotContains(t, text, "one-right:")
	require.Contains(t, text, "two-right:")
	require.NotContains(t, text, "three-right")
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "k", "a", 100)
	require.Equal(t, "k=a-a@100", r.out("one"))
	r.in("in", "k", "b", 104)
	require.Equal(t, "k=b-a@104 k=a-b@104 k=b-b@104", r.out("one"))
	require.NoError(t, r.d.Restart())
	r.in("in", "k", "c", 110)
	require.Equal(t, "k=c-a@110 k=c-b@110 k=c-c@110", r.out("one"))
	r.in("in", "k", "null", 111)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range int64(500) {
		r.in("in", fmt.Sprint("k", rnd.IntN(3)), fmt.Sprint(i), 120+i-rnd.Int64N(30))
	}
	dropped := r.d.Metrics.NullDropped.Load()
	require.Equal(t, int64(4), dropped, "one, two twice, and the selection of a key")
	one := strings.Fields(r.out("one"))
	two := strings.Fields(r.out("two"))[7:]
	require.NotEmpty(t, one)
	slices.Sort(one)
	slices.Sort(two)
	require.Equal(t, strings.Join(two, "\n"), strings.Join(one, "\n"))
}

// What comes from an outer join without partners goes on through other steps.
func TestJoinStreamChain(t *testing.T) {
	b := tidegate.NewBuilder()
	pair := func(l, r tidegate.Opt[string]) string { return "(" + l.Or("_") + r.Or("_") + ")" }
	w := tidegate.JoinWithin(10 * ms)
	first := b.Stream("a", str, str).OuterJoinStream("ab", b.Stream("b", str, str), w, pair, str)
	first.OuterJoinStream("abc", b.Stream("c", str, str), w.Grace(20*ms), pair, str).To("out")
	r := start(t, b, map[string]int32{"a": 2, "b": 2, "c": 2})
	r.in("a", "k", "A", 100)
	r.in("c", "k", "C", 105)
	r.in("b", "k", "B", 120) // sends (A_) first, which meets C
	require.Equal(t, "k=((A_)C)@105", r.out("out"))
	r.in("c", "k", "D", 131) // sends (_B), which meets D later
	require.Equal(t, "", r.out("out"))
	r.in("c", "k", "E", 130)
	require.Equal(t, "k=((_B)E)@130", r.out("out"))
	r.in("c", "null", "null", 161)
	require.Empty(t, r.out("out"))
	r.in("c", "null", "null", 162)
	require.Equal(t, "k=(_D)@131", r.out("out"))
}

func TestJoinStreamRepartitionsWhatWasRekeyed(t *testing.T) {
	b := tidegate.NewBuilder()
	first := func(_, v string) string { return v[:1] }
	l := b.Stream("l", str, str).SelectKey(first, str)
	r := b.Stream("r", str, str).SelectKey(first, str)
	join("left", "j", l, r, tidegate.JoinWithin(100*ms)).To("out")
	join("inner", "half", l, b.Stream("x", str, str), tidegate.JoinWithin(100*ms)).To("half")
	text := b.Describe()
	require.Contains(t, text, "<app>-j-left-repartition: ")
	require.Contains(t, text, "<app>-j-right-repartition: ")
	require.Contains(t, text, "<app>-half-left-repartition: ")
	require.NotContains(t, text, "half-right-repartition")
	run := start(t, b, map[string]int32{"l": 2, "r": 3, "x": 5})
	require.Equal(t, int32(5), run.d.Resolved().Partitions("app-half-left-repartition"))
	require.Equal(t, int32(3), run.d.Resolved().Partitions("app-j-left-repartition"))
	for i := range 26 {
		run.in("l", fmt.Sprint(i), string(rune('a'+i))+"1", 10)
	}
	for i := range 26 {
		run.in("r", fmt.Sprint(-i), string(rune('a'+i))+"2", 20)
		c := string(rune('a' + i))
		require.Equal(t, c+"="+c+"1-"+c+"2@20", run.out("out"))
	}

	b = tidegate.NewBuilder()
	join("inner", "j", b.Stream("l", str, str).Repartition("two", tidegate.Partitions(2)), b.Stream("r", str, str), tidegate.JoinWithin(ms)).To("out")
	top, err := b.Build()
	require.NoError(t, err)
	_, err = top.Graph().Resolve("app", map[string]int32{"l": 1, "r": 6, "out": 1})
	require.ErrorContains(t, err, `join-stream j needs co-partitioned topics, but "app-two-repartition" has 2 partitions`)
	require.ErrorContains(t, err, `"r" has 6`)
}

func TestJoinStreamBuildErrors(t *testing.T) {
	b := tidegate.NewBuilder()
	l, r := b.Stream("l", str, str), b.Stream("r", str, str)
	join("left", "a", l, r, tidegate.JoinWithin(-ms))
	join("left", "b", l, r, tidegate.JoinWithin(ms).After(-2*ms))
	join("left", "c", l, r, tidegate.JoinWithin(ms).Grace(-ms))
	join("left", "d", l, r, tidegate.JoinWithin(1500*time.Microsecond))
	join("left", "e", l, r, tidegate.JoinWithin(1<<62))
	join("left", "f", l, r, tidegate.JoinWithin(1<<61).Grace(1<<62))
	join("inner", "g", l, r, tidegate.JoinWithin(ms))
	join("inner", "g", l, r, tidegate.JoinWithin(ms))
	join("inner", "h", l, nil, tidegate.JoinWithin(ms))
	join("inner", "i", l, tidegate.NewBuilder().Stream("x", str, str), tidegate.JoinWithin(ms))
	join("outer", "j", l, r.As(serde.JSON[string](), str).Repartition("json"), tidegate.JoinWithin(ms))
	l.JoinStream[string, string]("k", r, tidegate.JoinWithin(ms), nil)
	l.LeftJoinStream[string, string]("l", r, tidegate.JoinWithin(ms), nil)
	l.OuterJoinStream[string, string]("m", r, tidegate.JoinWithin(ms), nil)
	join("inner", "n", l.MapValues(func(v string) string { return v }), r, tidegate.JoinWithin(ms))
	l.JoinStream("o", r, tidegate.JoinWithin(ms), func(l, r string) string { return l + r }).To("o")
	_, err := b.Build()
	require.Error(t, err)
	for _, want := range []string{
		`LeftJoinStream("a"): the join window reaches -1ms before and -1ms after a record: neither may be negative`,
		`LeftJoinStream("b"): the join window reaches 1ms before and -2ms after`,
		`LeftJoinStream("c"): join window grace -1ms: must not be negative`,
		`LeftJoinStream("d"): join window of 1.5ms before, 1.5ms after and grace 0s: event time has whole milliseconds`,
		`LeftJoinStream("e"): join window of`, `LeftJoinStream("f"): join window of`,
		`step name "g" is already used`, `store name "g-left" is already used`,
		`JoinStream("h"): the other stream is nil`, `JoinStream("i"): the other stream is nil or comes from another Builder`,
		`OuterJoinStream("j"): this stream's keys are serialised as string, the other's as json`,
		`JoinStream("k"): the function is nil`, `LeftJoinStream("l"): the function is nil`, `OuterJoinStream("m"): the function is nil`,
		`MapValues changes the value to string and its serde is not known, but JoinStream(n)`,
		`JoinStream changes the value to string and its serde is not known, but To(o)`,
	} {
		require.ErrorContains(t, err, want)
	}
}

// Joiners that panic: a record whose joining fails counts as never seen.
func TestJoinStreamFailures(t *testing.T) {
	b := tidegate.NewBuilder()
	l, r := b.Stream("l", str, str), b.Stream("r", str, str)
	l.OuterJoinStream("j", r, tidegate.JoinWithin(10*ms), func(l, r tidegate.Opt[string]) string {
		if l.Or("") == "bad" || r.Or("") == "bad" {
			panic("bad")
		}
		return l.Or("null") + "-" + r.Or("null")
	}, str).To("out")
	run := start(t, b, map[string]int32{"l": 1, "r": 1})
	run.d.Skip = func(*harness.Failure) bool { return true }
	run.in("l", "k", "A", 100)
	run.in("r", "k", "bad", 101)
	require.Len(t, run.d.Skipped, 1)
	require.Contains(t, run.d.Skipped[0].Error(), `step "outer-join-stream-right j" user function panicked on record r-0@0: bad`)
	run.in("l", "x", "bad", 102)
	run.in("l", "x", "good", 103)
	// A is sent without partner, then the bad row fails, alone.
	run.in("r", "k", "b", 113)
	require.Equal(t, "k=A-null@100", run.out("out"))
	require.Len(t, run.d.Skipped, 2)
	run.in("r", "k", "c", 114)
	require.Equal(t, "x=good-null@103", run.out("out"))
	run.in("r", "null", "null", 200)
	require.Equal(t, "k=null-b@113 k=null-c@114", run.out("out"))
	require.Len(t, run.d.Skipped, 2)
}

// Keys and values that alias the fetch buffer, and nulls that are values.
func TestJoinStreamSerdes(t *testing.T) {
	b := tidegate.NewBuilder()
	raw := serde.Bytes()
	l := b.Stream("l", serde.Nullable(raw), serde.Nullable(raw))
	r := b.Stream("r", serde.Nullable(raw), serde.Nullable(raw))
	type opt = tidegate.Opt[[]byte]
	l.OuterJoinStream("j", r, tidegate.JoinWithin(10*ms), func(l, r tidegate.Opt[opt]) []byte {
		return fmt.Appendf(nil, "%s-%s", l.Or(opt{}).Or([]byte("null")), r.Or(opt{}).Or([]byte("null")))
	}, raw).To("out")
	run := start(t, b, map[string]int32{"l": 1, "r": 1})
	run.in("l", "k", "A", 100)
	run.in("l", "k", "null", 100)
	run.in("l", "null", "N", 100)
	run.in("l", "x", "X", 100)
	run.in("r", "k", "a", 101)
	run.in("r", "k", "z", 120)
	require.Equal(t, "null=N-null@100 k=A-a@101 x=X-null@100", run.out("out"))
	require.Equal(t, int64(1), run.d.Metrics.NullDropped.Load())
}

// Timestamps at the ends of the range neither overflow nor match by wrapping.
// Kafka holds no negative timestamps, and sources refuse them; a step before the
// join may still set any.
func TestJoinStreamExtremeTimes(t *testing.T) {
	times := map[string]int64{"A": math.MinInt64, "a": math.MinInt64, "b": -1, "B": math.MaxInt64, "c": math.MaxInt64}
	b := tidegate.NewBuilder()
	side := func(topic string) *tidegate.Stream[string, string] {
		return b.Stream(topic, str, str).PeekCtx(func(c *tidegate.RecordContext, _, v string) error {
			c.Timestamp = times[v]
			return nil
		})
	}
	var got []string
	join("outer", "j", side("l"), side("r"), tidegate.JoinWithin(time.Hour).Grace(time.Hour)).
		PeekCtx(func(c *tidegate.RecordContext, _, v string) error {
			got = append(got, fmt.Sprint(v, "@", c.Timestamp))
			return nil
		})
	r := start(t, b, map[string]int32{"l": 1, "r": 1})
	const largest = math.MaxInt64 / int64(time.Millisecond) // that Kafka clients can express
	r.in("l", "k", "A", 0)
	r.in("r", "k", "a", 0)
	r.in("r", "k", "b", 0)
	r.in("l", "k", "B", largest)
	r.in("r", "k", "c", largest)
	r.in("r", "k", "late", 0)
	require.Equal(t, []string{"null-b@-1", "B-c@9223372036854775807"}, got)
	require.Equal(t, int64(3), r.d.Metrics.LateDropped.Load())
}

// On a broker: both sides repartitioned, the application stopped in the middle
// while left rows wait, and started anew.
func TestJoinStreamEndToEnd(t *testing.T) {
	c := newCluster(t, map[string]int32{"l": 2, "r": 2, "out": 2})
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	b := tidegate.NewBuilder()
	first := func(_, v string) string { return v[:3] }
	l := b.Stream("l", str, str).SelectKey(first, str)
	r := b.Stream("r", str, str).SelectKey(first, str)
	join("left", "j", l, r, tidegate.JoinWithin(time.Second).Grace(time.Second)).To("out")
	topo, err := b.Build()
	require.NoError(t, err)
	const n = 100
	send := func(topic string, from, to int, every int, at int64) {
		var list []testkit.Message
		for i := from; i < to; i += every {
			list = append(list, testkit.Message{Partition: int32(i % 2), Value: fmt.Appendf(nil, "%03d%s", i, topic), Timestamp: at})
		}
		require.NoError(t, c.client.Produce(ctx, topic, list))
	}
	out, err := c.client.Read("out", 2, true)
	require.NoError(t, err)
	defer out.Close()
	// run runs the application until so many records came for each step.
	run := func(name string, steps ...func() (records int)) {
		app := c.app(topo, name)
		runCtx, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- app.Run(runCtx) }()
		for _, step := range steps {
			records := step()
			require.NoError(t, out.Await(ctx, func() bool { return out.Count() >= records || len(done) > 0 }))
			require.Equal(t, records, out.Count())
		}
		stop()
		require.NoError(t, <-done)
	}
	run("a", func() int { // half of the left records meet at once
		send("l", 0, n, 1, 1000)
		send("r", 0, n, 2, 1500)
		return n / 2
	})
	run("b", func() int { // a quarter meets after the restart
		send("r", 1, n, 4, 2000)
		return n/2 + n/4
	})
	run("c", func() int { // then time passes, and the others are sent alone
		for i := range 40 { // so many that every partition sees one
			send("r", 500+i, 501+i, 1, 9000+int64(i))
		}
		return n
	})

	got := map[string]int{}
	for _, list := range out.All() {
		for _, m := range list {
			got[fmt.Sprintf("%s@%d", m.Value, m.Timestamp)]++
		}
	}
	want := map[string]int{}
	for i := range n {
		switch {
		case i%2 == 0:
			want[fmt.Sprintf("%03dl-%03dr@1500", i, i)]++
		case i%4 == 1:
			want[fmt.Sprintf("%03dl-%03dr@2000", i, i)]++
		default:
			want[fmt.Sprintf("%03dl-null@1000", i)]++
		}
	}
	require.Equal(t, want, got)
}
