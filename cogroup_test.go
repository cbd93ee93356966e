package tidegate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
)

// note appends a word and the value to an aggregate of strings.
func note(word string) func(k, v, a string) string {
	return func(_, v, a string) string { return a + word + v }
}

func noteNumber(_ string, n int64, a string) string { return fmt.Sprint(a, "#", n) }

func empty() string { return "" }

func TestCogroup(t *testing.T) {
	for _, how := range []string{"plain", "restarted", "no cache", "repartitioned"} {
		t.Run(how, func(t *testing.T) {
			b := tidegate.NewBuilder()
			l, r := b.Stream("l", str, str), b.Stream("r", str, str)
			if how == "repartitioned" {
				l = l.Repartition("rl")
				r = r.Repartition("rr")
			}
			lengths := r.MapValues(func(v string) int64 { return int64(len(v)) }, serde.Int64())
			l.GroupByKey("gl").Cogroup(note("+")).Cogroup(lengths.GroupByKey("gr"), noteNumber).
				Aggregate("all", empty, str).ToStream().To("out")
			run := start(t, b, map[string]int32{"l": 3, "r": 3})
			if how == "no cache" {
				run.d.CacheBytes = 0
			}
			for i, c := range []struct{ topic, key, value, want string }{
				{"l", "a", "1", "a=+1@1"},
				{"r", "a", "xx", "a=+1#2@2"},
				{"r", "b", "xxx", "b=#3@3"},
				{"l", "b", "2", "b=#3+2@4"},
				{"l", "a", "3", "a=+1#2+3@5"},
				{"l", "a", "null", ""},
				{"r", "null", "x", ""},
				{"r", "a", "", "a=+1#2+3#0@8"},
			} {
				run.in(c.topic, c.key, c.value, int64(i+1))
				require.Equal(t, c.want, run.out("out"), "%s %s=%s", c.topic, c.key, c.value)
				if how == "restarted" {
					require.NoError(t, run.d.Restart())
				}
			}
			require.Equal(t, int64(2), run.d.Metrics.NullDropped.Load())
		})
	}
}

func TestCogroupTakesTheLatestTime(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("l", str, str).GroupByKey("gl").Cogroup(note("l")).
		Cogroup(b.Stream("r", str, str).GroupByKey("gr"), note("r")).
		Aggregate("all", empty, str).ToStream().To("out")
	r := start(t, b, map[string]int32{"l": 1, "r": 1})
	r.in("l", "a", "1", 9)
	r.in("r", "a", "2", 3)
	require.Equal(t, "a=l1@9 a=l1r2@9", r.out("out"))
}

func TestCogroupDeletes(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("set", str, str).GroupByKey("s").Cogroup(func(_, v string, _ tidegate.Opt[string]) tidegate.Opt[string] { return tidegate.Some(v) }).
		Cogroup(b.Stream("del", str, str).GroupByKey("d"), func(string, string, tidegate.Opt[string]) tidegate.Opt[string] { return tidegate.None[string]() }).
		Aggregate("all", tidegate.None[string], serde.Nullable(str)).ToStream().To("out")
	r := start(t, b, map[string]int32{"set": 1, "del": 1})
	r.in("set", "a", "1", 1)
	r.in("del", "a", "x", 2)
	r.in("set", "a", "2", 3)
	require.Equal(t, "a=1@1 a=null@2 a=2@3", r.out("out"))
}

// TestCogroupTellsOldValues: a step behind that wants the value before gets it
// from every input.
func TestCogroupTellsOldValues(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("l", str, str).GroupByKey("gl").Cogroup(note("l")).
		Cogroup(b.Stream("r", str, str).GroupByKey("gr"), note("r")).
		Aggregate("all", empty, str).
		Filter(func(_, v string) bool { return len(v)%4 == 2 }).
		Suppress("s", tidegate.UntilTimeLimit(0)).ToStream().To("out")
	r := start(t, b, map[string]int32{"l": 1, "r": 1})
	r.in("l", "a", "1", 1)
	r.in("r", "a", "2", 2)
	r.in("l", "a", "3", 3)
	r.in("r", "b", "23", 4)
	require.Equal(t, "a=l1@1 a=null@2 a=l1r2l3@3", r.out("out"), "b was never in the filtered table")
}

func TestCogroupIsJoined(t *testing.T) {
	b := tidegate.NewBuilder()
	all := b.Stream("l", str, str).GroupByKey("gl").Cogroup(note("l")).
		Cogroup(b.Stream("r", str, str).GroupByKey("gr"), note("r")).
		Aggregate("all", empty, str)
	b.Stream("s", str, str).JoinTable("j", all, func(s, a string) string { return s + a }, str).To("out")
	r := start(t, b, map[string]int32{"l": 1, "r": 1, "s": 1})
	r.in("l", "a", "1", 1)
	r.in("r", "a", "2", 2)
	r.in("s", "a", "?", 3)
	require.Equal(t, "a=?l1r2@3", r.out("out"))
}

func TestCogroupUndoesAFailedAdd(t *testing.T) {
	b := tidegate.NewBuilder()
	type list struct{ Items []string }
	add := func(_, v string, l *list) *list {
		l.Items = append(l.Items, v)
		if v == "bad" {
			panic(v)
		}
		return l
	}
	b.Stream("l", str, str).GroupByKey("gl").Cogroup(add).
		Cogroup(b.Stream("r", str, str).GroupByKey("gr"), add).
		Aggregate("all", func() *list { return &list{} }, serde.JSON[*list]()).
		MapValues(func(l *list) string { return strings.Join(l.Items, "+") }, str).ToStream().To("out")
	r := start(t, b, map[string]int32{"l": 1, "r": 1})
	r.d.Skip = func(*operators.RecordError) bool { return true }
	r.in("l", "a", "1", 1)
	r.in("r", "a", "bad", 2)
	r.in("l", "a", "2", 3)
	require.Equal(t, "a=1@1 a=1+2@3", r.out("out"))
	require.Len(t, r.d.Skipped, 1)
	require.Contains(t, r.d.Skipped[0].Error(), `step "cogroup all"`)
}

func TestCogroupMistakes(t *testing.T) {
	other := tidegate.NewBuilder().Stream("x", str, str).GroupByKey("x")
	for name, c := range map[string]struct {
		describe func(b *tidegate.Builder, g *tidegate.Grouped[string, string])
		want     string
	}{
		"nil first": {func(_ *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Cogroup[string](nil).Aggregate("a", empty, str)
		}, "the function is nil"},
		"nil second": {func(_ *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Cogroup(note("")).Cogroup[string](g, nil).Aggregate("a", empty, str)
		}, "the function is nil"},
		"nil group": {func(_ *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Cogroup(note("")).Cogroup(nil, note("")).Aggregate("a", empty, str)
		}, "is nil or comes from another Builder"},
		"other builder": {func(_ *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Cogroup(note("")).Cogroup(other, note("")).Aggregate("a", empty, str)
		}, "is nil or comes from another Builder"},
		"nil init": {func(_ *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Cogroup(note("")).Aggregate("a", nil, str)
		}, "the function is nil"},
		"nil serde": {func(_ *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Cogroup(note("")).Aggregate("a", empty, nil)
		}, "the aggregate's serde is nil"},
		"windows": {func(_ *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Cogroup(note("")).WindowedBy(tidegate.Tumbling(0), tidegate.ByWindow).Aggregate("a", empty, str)
		}, "window size 0s: must be at least 1ms"},
		"nil window init": {func(_ *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Cogroup(note("")).WindowedBy(tidegate.Tumbling(ms), tidegate.ByWindow).Aggregate("a", nil, str)
		}, "the function is nil"},
		"nil merge": {func(_ *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Cogroup(note("")).SessionWindowedBy(tidegate.Session(ms), tidegate.ByWindow).Aggregate("a", empty, nil, str)
		}, "a function is nil"},
		"key serdes": {func(b *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Cogroup(note("")).Cogroup(b.Stream("j", serde.JSON[string](), str).GroupByKey("j"), note("")).Aggregate("a", empty, str)
		}, "equal keys would not meet"},
		"store name": {func(b *tidegate.Builder, g *tidegate.Grouped[string, string]) {
			g.Count("a")
			g.Cogroup(note("")).Aggregate("a", empty, str)
		}, `store name "a" is already used`},
	} {
		t.Run(name, func(t *testing.T) {
			b := tidegate.NewBuilder()
			c.describe(b, b.Stream("in", str, str).GroupByKey("g"))
			_, err := b.Build()
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "cogroup_test.go:")
		})
	}
}

func TestCogroupWindowed(t *testing.T) {
	for _, onClose := range []bool{false, true} {
		b := tidegate.NewBuilder()
		w := b.Stream("l", str, str).GroupByKey("gl").Cogroup(note("l")).
			Cogroup(b.Stream("r", str, str).GroupByKey("gr"), note("r")).
			WindowedBy(tidegate.Hopping(10*ms, 5*ms), tidegate.ByWindow)
		want := "a[0,10)=l1@6 a[5,15)=l1@6 a[0,10)=l1r2@7 a[5,15)=l1r2@7 a[10,20)=l3@12 a[5,15)=l1r2l3@12 b[25,35)=r4@30 b[30,40)=r4@30"
		if onClose {
			w = w.EmitOnClose()
			want = "a[0,10)=l1r2@7 a[5,15)=l1r2l3@12 a[10,20)=l3@12"
		}
		w.Aggregate("all", empty, str).ToStream().Map(windowKey, tidegate.With(str, str)).To("out")
		run := start(t, b, map[string]int32{"l": 1, "r": 1})
		var got []string
		for _, rec := range []string{"l a 1 6", "r a 2 7", "l a 3 12", "r b 4 30"} {
			var topic, key, value string
			var ts int64
			_, err := fmt.Sscan(rec, &topic, &key, &value, &ts)
			require.NoError(t, err)
			run.in(topic, key, value, ts)
			got = append(got, strings.Fields(run.out("out"))...)
			require.NoError(t, run.d.Restart())
		}
		require.ElementsMatch(t, strings.Fields(want), got)
	}
}

func TestCogroupOfSessions(t *testing.T) {
	join := func(_, a, b string) string { return a + b }
	b := tidegate.NewBuilder()
	b.Stream("l", str, str).GroupByKey("gl").Cogroup(note("l")).
		Cogroup(b.Stream("r", str, str).GroupByKey("gr"), note("r")).
		SessionWindowedBy(tidegate.Session(5*ms), tidegate.ByWindow).
		EmitOnClose().
		Aggregate("all", empty, join, str).ToStream().Map(windowKey, tidegate.With(str, str)).To("out")
	run := start(t, b, map[string]int32{"l": 1, "r": 1})
	run.in("l", "a", "1", 10)
	run.in("r", "a", "2", 14)
	require.NoError(t, run.d.Restart())
	run.in("l", "a", "3", 40)
	require.Equal(t, "a[10,14)=l1r2@14", run.out("out"))
}

func TestCogroupNeedsCoPartitionedTopics(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("l", str, str).GroupByKey("gl").Cogroup(note("l")).
		Cogroup(b.Stream("r", str, str).GroupByKey("gr"), note("r")).
		Aggregate("all", empty, str)
	top, err := b.Build()
	require.NoError(t, err)
	_, err = harness.New(top.Graph(), map[string]int32{"l": 2, "r": 6}, t.TempDir())
	require.ErrorContains(t, err, `"l" has 2 partitions`)
	require.ErrorContains(t, err, `"r" has 6`)

	// A repartitioned input takes the other's count.
	b = tidegate.NewBuilder()
	b.Stream("l", str, str).GroupBy("gl", func(_, v string) string { return v }, str).Cogroup(note("l")).
		Cogroup(b.Stream("r", str, str).GroupByKey("gr"), note("r")).
		Aggregate("all", empty, str)
	top, err = b.Build()
	require.NoError(t, err)
	res, err := top.Graph().Resolve("app", map[string]int32{"l": 2, "r": 6})
	require.NoError(t, err)
	require.Equal(t, int32(6), res.Partitions("app-gl-repartition"))
}
