package tidegate_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
)

const ms = time.Millisecond

func TestBuildErrorsNameThePlace(t *testing.T) {
	b := tidegate.NewBuilder()
	in := b.Stream("in", str, str)
	in.GroupByKey("g").Count("n")
	in.GroupByKey("g").Count("n")
	in.MapValues(func(string) int { return 1 }).To("ints")
	in.Filter(nil)
	in.To("not a topic")
	in.GroupByKey("")
	b.Stream("", str, str)
	in.GroupByKey("w1").WindowedBy(tidegate.Tumbling(0), tidegate.ByWindow).Count("w1")
	in.GroupByKey("w2").WindowedBy(tidegate.Tumbling(ms).Grace(-ms), tidegate.ByWindow).Count("w2")
	in.GroupByKey("w3").WindowedBy(tidegate.Tumbling(1<<62).Grace(1<<62), tidegate.ByWindow).Count("w3")
	b.Stream[string, string]("x", nil, str)
	in.Map(func(k, v string) (int32, string) { return 1, v }).GroupByKey("lost").Count("lost")
	in.Repartition("p", tidegate.Partitions(-1))
	in.Repartition("q", tidegate.PartitionBy(func(int64, int32) int32 { return 0 }))
	in.To("")
	_, err := b.Build()
	require.Error(t, err)
	wd, werr := os.Getwd()
	require.NoError(t, werr)
	text := strings.ReplaceAll(err.Error(), filepath.Base(wd)+"/", "")
	for _, want := range []string{
		`dslfail_test.go:25: step name "g" is already used at dslfail_test.go:24`,
		`dslfail_test.go:25: store name "n" is already used at dslfail_test.go:24`,
		`dslfail_test.go:26: MapValues changes the value to int and its serde is not known, but To(ints) at dslfail_test.go:26 needs it`,
		`dslfail_test.go:27: filter: the function is nil`,
		`dslfail_test.go:28: topic name "not a topic": contains ' '`,
		`dslfail_test.go:29: step name "": must not be empty`,
		`dslfail_test.go:30: topic name "": must not be empty`,
		`dslfail_test.go:31: window size 0s: must be at least 1ms`,
		`dslfail_test.go:32: window grace -1ms: must not be negative`,
		`dslfail_test.go:33: window size`,
		`dslfail_test.go:34: the key serde is nil`,
		`dslfail_test.go:35: Map changes the key to int32 and its serde is not known, but repartitioning for lost at dslfail_test.go:35 needs it`,
		`dslfail_test.go:35: Map changes the value to string and its serde is not known`,
		`dslfail_test.go:36: Repartition("p"): Partitions(-1) must be positive`,
		`dslfail_test.go:37: PartitionBy: the function is func(int64, int32) int32`,
		`dslfail_test.go:38: To: the topic name is empty`,
	} {
		require.Contains(t, text, want)
	}
}

func TestALostSerdeIsOneMistake(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("left", str, str).SelectKey(func(_, v string) string { return v }).
		JoinTable("j", b.Table("right", "right", str, str), func(a, b string) string { return a }, str).To("out")
	_, err := b.Build()
	require.ErrorContains(t, err, "pass the serde to SelectKey or restate it with As")
	require.NotContains(t, err.Error(), "\n")
}

func TestMissingTopicsAndCoPartitioning(t *testing.T) {
	b := tidegate.NewBuilder()
	l := b.Stream("left", str, str).SelectKey(func(_, v string) string { return v }, str)
	tab := b.Table("right", "right", str, str)
	l.Repartition("rekeyed", tidegate.Partitions(2)).
		JoinTable("j", tab, func(a, b string) string { return a }, str).To("out")
	top, err := b.Build()
	require.NoError(t, err)

	_, err = top.Graph().Resolve("app", map[string]int32{"left": 4})
	require.ErrorContains(t, err, `topic "right", which is read here, does not exist`)
	require.ErrorContains(t, err, `topic "out", which is written here, does not exist`)

	_, err = top.Graph().Resolve("app", map[string]int32{"left": 4, "right": 6, "out": 1})
	require.ErrorContains(t, err, `"app-rekeyed-repartition" has 2 partitions`)
	require.ErrorContains(t, err, `"right" has 6`)
}

func TestRepartitionTakesTheOtherSidesNumber(t *testing.T) {
	b := tidegate.NewBuilder()
	tab := b.Table("right", "right", str, str)
	b.Stream("left", str, str).SelectKey(func(_, v string) string { return v }, str).
		JoinTable("j", tab, func(a, b string) string { return a }, str).
		GroupBy("next", func(_, v string) string { return v }, str).Count("n")
	top, err := b.Build()
	require.NoError(t, err)
	res, err := top.Graph().Resolve("app", map[string]int32{"left": 4, "right": 6})
	require.NoError(t, err)
	require.Equal(t, int32(6), res.Partitions("app-j-repartition"))
	require.Equal(t, int32(6), res.Partitions("app-next-repartition"), "the largest count upstream")
}

func TestMergedTopicsMustBeCoPartitionedForState(t *testing.T) {
	b := tidegate.NewBuilder()
	b.StreamOf([]string{"a", "b"}, str, str).GroupByKey("g").Count("n")
	top, err := b.Build()
	require.NoError(t, err)
	_, err = top.Graph().Resolve("app", map[string]int32{"a": 2, "b": 3})
	require.ErrorContains(t, err, `count n needs co-partitioned topics, but "a" has 2 partitions`)
}

func TestStatelessStepsChangeNoNames(t *testing.T) {
	build := func(extra bool) (string, string) {
		b := tidegate.NewBuilder()
		s := b.Stream("in", str, str)
		if extra {
			s = s.Filter(func(_, _ string) bool { return true }).MapValues(func(v string) string { return v }, str)
		}
		tab := s.GroupBy("by", func(_, v string) string { return v }, str).Count("n").ToStream()
		if extra {
			tab = tab.Peek(func(string, int64) {})
		}
		tab.To("out")
		top, err := b.Build()
		require.NoError(t, err)
		res, err := top.Graph().Resolve("app", map[string]int32{"in": 2, "out": 1})
		require.NoError(t, err)
		var names string
		for _, x := range res.InternalTopics() {
			names += fmt.Sprintln(x)
		}
		for _, s := range res.Stores() {
			names += fmt.Sprintln(s.Name)
		}
		return names, res.Fingerprint()
	}
	names, fp := build(false)
	names2, fp2 := build(true)
	require.Equal(t, names, names2)
	require.Equal(t, fp, fp2)
}

func TestDescribe(t *testing.T) {
	b := tidegate.NewBuilder()
	tab := b.Table("users", "users", str, str, tidegate.FromLatest())
	b.Stream("clicks", str, serde.JSON[map[string]int](), tidegate.FromEarliest()).
		GroupBy("by-user", func(k string, _ map[string]int) string { return k }, str).
		WindowedBy(tidegate.Tumbling(time.Minute).Grace(time.Second), tidegate.ByWindow).
		Count("per-minute").ToStream().
		Map(func(w tidegate.Windowed[string], n int64) (string, int64) { return w.Key, n }, tidegate.With(str, serde.Int64())).
		LeftJoinTable("with-user", tab, func(n int64, u tidegate.Opt[string]) string { return u.Or("?") }, str).
		To("out")
	require.Equal(t, `Subtopology 0
  source-0 (topic users) from latest -> table users
  table users (store users)
  repartition-source with-user (topic <app>-with-user-repartition) -> join-table with-user
  join-table with-user reads table users -> sink-12
  sink-12 (topic out)
Subtopology 1
  source-2 (topic clicks) from earliest -> select-key-3
  select-key-3 -> repartition-sink by-user
  repartition-sink by-user (topic <app>-by-user-repartition)
Subtopology 2
  repartition-source by-user (topic <app>-by-user-repartition) -> windowed-count per-minute
  windowed-count per-minute (store per-minute) -> to-stream-7
  to-stream-7 -> map-8
  map-8 -> repartition-sink with-user
  repartition-sink with-user (topic <app>-with-user-repartition)
Internal topics
  <app>-by-user-repartition: partitions as upstream or as joined, key string, value json, written by 1, read by 2
  <app>-with-user-repartition: partitions as upstream or as joined, key string, value int64, written by 2, read by 0
Stores
  per-minute: windows-1, key string, value int64, windows of 60000 ms, grace 1000 ms
  users: table-1, key string, value string
`, b.Describe())
}

func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	type box struct{ N []string }
	b := tidegate.NewBuilder()
	s := b.Stream("in", str, serde.JSON[string]())
	s.MapValuesCtx(func(c *tidegate.RecordContext, _ string, v string) (string, error) {
		if v == "error" {
			return "", boom
		}
		return v, nil
	}, str).To("mapped")
	s.GroupByKey("g").Aggregate("boxes", func() *box { return &box{} }, func(_, v string, a *box) *box {
		a.N = append(a.N, v)
		if v == "panic" {
			panic("half done")
		}
		return a
	}, serde.JSON[*box]()).ToStream().To("boxes")
	r := start(t, b, map[string]int32{"in": 1})
	var kinds []string
	r.d.Skip = func(e *operators.RecordError) bool {
		kinds = append(kinds, fmt.Sprint(e.Node, " ", e.Kind, " ", e.Offset))
		return true
	}
	r.in("in", "k", `"a"`, 1)
	r.in("in", "k", `{`, 2)
	r.in("in", "k", `"error"`, 3)
	r.in("in", "k", `"panic"`, 4)
	r.in("in", "k", `"b"`, 5)
	require.Equal(t, []string{"source-0 decode 1", "map-values-1 user 2", "aggregate boxes panic 3"}, kinds)
	require.Equal(t, "k=a@1 k=panic@4 k=b@5", r.out("mapped"))
	require.Equal(t, `k={"N":["a"]}@1 k={"N":["a","error"]}@3 k={"N":["a","error","b"]}@5`, r.out("boxes"),
		"the panicking step changed nothing")
	require.ErrorIs(t, r.d.Skipped[1], boom)
	require.NotEmpty(t, r.d.Skipped[2].Stack)
	require.Regexp(t, `dslfail_test.go:\d+: step "aggregate boxes" .*half done \(at .*/dslfail_test.go:\d+\)$`, r.d.Skipped[2].Error())

	r.d.Skip = nil
	require.ErrorContains(t, r.pipe("in", "k", `{`, 6), `step "source-0" cannot decode record in-0@5`)
}
