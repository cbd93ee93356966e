package tidegate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/serde"
)

type strTable = *tidegate.Table[string, string]

// joinTables joins l and r by strings: "l-r", "null" for a missing one.
func joinTables(kind string, l, r strTable) strTable {
	switch kind {
	case "inner":
		return l.Join(r, func(l, r string) string { return l + "-" + r }, str)
	case "left":
		return l.LeftJoin(r, func(l string, r tidegate.Opt[string]) string { return l + "-" + r.Or("null") }, str)
	}
	return l.OuterJoin(r, func(l, r tidegate.Opt[string]) string { return l.Or("null") + "-" + r.Or("null") }, str)
}

// lateInput is the input of the acceptance cases with late records.
var lateInput = []string{
	"l null@1", "r null@2", "l A@3", "r a@4", "l B@5", "r b@6", "l null@7", "r null@8", "l C@9", "r c@10", "r null@11",
	"l null@12", "r null@13", "r d@7", "l D@6", "l null@2", "r null@3", "r e@14", "l E@15", "l null@10", "r null@9",
	"l F@4", "r f@3",
}

// parseLate returns topic, value and timestamp of a record of lateInput.
func parseLate(rec string) (topic, value string, ts int64) {
	topic, rest, _ := strings.Cut(rec, " ")
	value, at, _ := strings.Cut(rest, "@")
	_, _ = fmt.Sscan(at, &ts)
	return topic, value, ts
}

var tableJoinCases = map[string]map[int]string{
	"inner": {
		4: "A-a@4", 5: "B-a@5", 6: "B-b@6", 7: "null@7", 10: "C-c@10", 11: "null@11", 15: "D-d@7", 16: "null@7",
		19: "E-e@15", 20: "null@14", 23: "F-f@4",
	},
	"left": {
		3: "A-null@3", 4: "A-a@4", 5: "B-a@5", 6: "B-b@6", 7: "null@7", 9: "C-null@9", 10: "C-c@10", 11: "C-null@11",
		12: "null@12", 15: "D-d@7", 16: "null@7", 19: "E-e@15", 20: "null@14", 22: "F-null@4", 23: "F-f@4",
	},
	"outer": {
		3: "A-null@3", 4: "A-a@4", 5: "B-a@5", 6: "B-b@6", 7: "null-b@7", 8: "null@8", 9: "C-null@9", 10: "C-c@10",
		11: "C-null@11", 12: "null@12", 14: "null-d@7", 15: "D-d@7", 16: "null-d@7", 17: "null@3", 18: "null-e@14",
		19: "E-e@15", 20: "null-e@14", 21: "null@9", 22: "F-null@4", 23: "F-f@4",
	},
}

func TestTableJoinCases(t *testing.T) {
	for kind, want := range tableJoinCases {
		for _, how := range []string{"plain", "repartitioned", "restarted", "no cache", "materialized", "old values"} {
			t.Run(kind+"/"+how, func(t *testing.T) {
				b := tidegate.NewBuilder()
				l, r := b.Table("l", "lt", str, str), b.Table("r", "rt", str, str)
				if how == "repartitioned" {
					l, r = l.ToStream().Repartition("rl").ToTable("l2"), r.ToStream().Repartition("rr").ToTable("r2")
				}
				joined := joinTables(kind, l, r)
				if how == "materialized" {
					joined = joined.Materialize("joined")
				}
				joined.ToStream().To("out")
				if how == "old values" {
					joined.GroupBy("by", func(k, v string) (string, string) { return k, v }, str, str).Count("n")
				}
				run := start(t, b, map[string]int32{"l": 1, "r": 1})
				if how == "no cache" {
					run.d.CacheBytes = 0
				}
				for i, rec := range lateInput {
					topic, value, ts := parseLate(rec)
					run.in(topic, "k", value, ts)
					res := ""
					if want[i+1] != "" {
						res = "k=" + want[i+1]
					}
					require.Equal(t, res, run.out("out"), "record %d: %s", i+1, rec)
					if how == "restarted" {
						require.NoError(t, run.d.Restart())
					}
				}
				run.in("l", "null", "x", 30)
				require.Empty(t, run.out("out"))
				require.Equal(t, int64(1), run.d.Metrics.NullDropped.Load())
			})
		}
	}
}

// A stream looks rows up in a joined table, which has no store.
func TestTableJoinIsLookedUpInBothTables(t *testing.T) {
	for kind, want := range map[string]string{
		"inner": "b=L-R@5 c=none@5 l=none@5 r=none@5",
		"left":  "b=L-R@5 c=none@5 l=L-null@5 r=none@5",
		"outer": "b=L-R@5 c=none@5 l=L-null@5 r=null-R@5",
	} {
		b := tidegate.NewBuilder()
		joined := joinTables(kind, b.Table("l", "lt", str, str), b.Table("r", "rt", str, str)).
			Filter(func(_, v string) bool { return v != "hidden" })
		b.Stream("s", str, str).LeftJoinTable("j", joined, func(_ string, row tidegate.Opt[string]) string {
			return row.Or("none")
		}, str).To("out")
		require.NotContains(t, b.Describe(), "joined")
		r := start(t, b, map[string]int32{"l": 2, "r": 2, "s": 2})
		r.in("l", "b", "L", 1)
		r.in("r", "b", "R", 2)
		r.in("l", "l", "L", 3)
		r.in("r", "r", "R", 4)
		for _, k := range []string{"b", "c", "l", "r"} {
			r.in("s", k, "?", 5)
		}
		require.Equal(t, want, r.out("out"), kind)
	}
}

func TestTableJoinedWithItself(t *testing.T) {
	for _, kind := range []string{"inner", "left", "outer"} {
		b := tidegate.NewBuilder()
		l := b.Table("l", "lt", str, str)
		joined := joinTables(kind, l, l)
		joined.ToStream().To("out")
		joined.GroupBy("by", func(_, v string) (string, string) { return v, v }, str, str).
			Count("n").ToStream().MapValues(itoa, str).To("counts")
		r := start(t, b, map[string]int32{"l": 1})
		r.in("l", "k", "a", 1)
		r.in("l", "k", "b", 2)
		r.in("l", "k", "null", 3)
		require.Equal(t, "k=a-a@1 k=b-b@2 k=null@3", r.out("out"))
		require.Equal(t, "a-a=1@1 a-a=0@2 b-b=1@2 b-b=0@3", r.out("counts"))
	}
}

// When both sides are computed from one table, old values need a store.
func TestTableJoinOfDependentTables(t *testing.T) {
	for _, stored := range []bool{true, false} {
		b := tidegate.NewBuilder()
		l := b.Table("l", "lt", str, str)
		joined := joinTables("left", l.MapValues(strings.ToUpper, str), l.Filter(func(_, v string) bool { return v < "m" }))
		if stored {
			joined = joined.Materialize("joined")
		}
		joined.GroupBy("by", func(_, v string) (string, string) { return v, v }, str, str).
			Count("n").ToStream().MapValues(itoa, str).To("counts")
		if !stored {
			_, err := b.Build()
			require.ErrorContains(t, err, "call Materialize(name) on its result first")
			require.ErrorContains(t, err, "tablejoin_test.go:")
			continue
		}
		r := start(t, b, map[string]int32{"l": 1})
		for i, v := range []string{"a", "x", "b", "null"} {
			r.in("l", "k", v, int64(i))
		}
		last := map[string]string{}
		for _, f := range strings.Fields(r.out("counts")) {
			k, v, _ := strings.Cut(f, "=")
			n, _, _ := strings.Cut(v, "@")
			last[k] = n
		}
		for k, n := range last {
			require.Equal(t, "0", n, k)
		}
		require.Contains(t, last, "A-a")
		require.Contains(t, last, "X-null")
	}
	// Two tables of one stream change one after the other: nothing is lost.
	b := tidegate.NewBuilder()
	s := b.Stream("l", str, str)
	joinTables("inner", s.ToTable("t1"), s.ToTable("t2")).
		GroupBy("by", func(_, v string) (string, string) { return v, v }, str, str).
		Count("n").ToStream().MapValues(itoa, str).To("counts")
	r := start(t, b, map[string]int32{"l": 1})
	r.in("l", "k", "a", 1)
	r.in("l", "k", "b", 2)
	require.Equal(t, "a-a=1@1 a-a=0@2 b-a=1@2 b-a=0@2 b-b=1@2", r.out("counts"))
}

func TestTableJoinMistakes(t *testing.T) {
	b, other := tidegate.NewBuilder(), tidegate.NewBuilder()
	l := b.Table("l", "lt", str, str)
	l.Join(nil, func(l, _ string) string { return l })
	l.LeftJoin(other.Table("o", "ot", str, str), func(l string, _ tidegate.Opt[string]) string { return l })
	l.Join[string, string](b.Table("r", "rt", str, str), nil)
	l.LeftJoin[string, string](l, nil)
	l.OuterJoin[string, string](l, nil)
	l.Join(b.Table("x", "xt", serde.JSON[string](), str), func(l, _ string) string { return l })
	l.Join(b.Table("y", "yt", str, str), func(l, _ string) string { return l }).ToStream().To("out")
	l.MapValues(strings.ToUpper).Materialize("m")
	l.Materialize("lt")
	_, err := b.Build()
	for _, want := range []string{
		"Join: the other table is nil", "LeftJoin: the other table is nil or comes from another Builder",
		"Join: the function is nil", "LeftJoin: the function is nil", "OuterJoin: the function is nil",
		"use one serde for both", "Join changes the value to string and its serde is not known",
		"MapValues changes the value to string", `store name "lt" is already used`,
	} {
		require.ErrorContains(t, err, want)
	}

	b = tidegate.NewBuilder()
	b.Table("l", "lt", str, str).Join(b.Table("r", "rt", str, str), func(l, r string) string { return l + r }, str).ToStream().To("out")
	top, err := b.Build()
	require.NoError(t, err)
	_, err = top.Graph().Resolve("app", map[string]int32{"l": 2, "r": 3, "out": 1})
	require.ErrorContains(t, err, `"l" has 2 partitions`)
	require.ErrorContains(t, err, `"r" has 3`)
}

func TestTableJoinExtremeTimes(t *testing.T) {
	r := startTableJoin(t, "outer")
	for _, ts := range []int64{math.MinInt64, -1, math.MaxInt64} { // no topic can hold these
		_ = r.pipe("l", "k", "A", ts)
		_ = r.pipe("r", "k", "B", ts)
	}
	require.Len(t, r.d.Skipped, 6)
	const largest = math.MaxInt64 / int64(time.Millisecond)
	for _, ts := range []int64{0, largest} {
		require.NoError(t, r.pipe("l", "k", "A", ts))
		require.NoError(t, r.pipe("r", "k", "B", ts))
	}
	require.NoError(t, r.pipe("l", "j", "A", 0))
	require.Equal(t, fmt.Sprintf("k=A-null@0 k=A-B@0 k=A-B@%d k=A-B@%d j=A-null@0", largest, largest), r.out("out"))
}

func startTableJoin(t *testing.T, kind string) *run {
	t.Helper()
	b := tidegate.NewBuilder()
	joinTables(kind, b.Table("l", "lt", str, str), b.Table("r", "rt", str, str)).ToStream().To("out")
	r := start(t, b, map[string]int32{"l": 1, "r": 1})
	r.d.Skip = func(*harness.Failure) bool { return true }
	return r
}

// table is a reference table; apply applies rendered changes to it.
type table map[string]string

func (m table) set(k, v string) {
	if v == "null" {
		delete(m, k)
		return
	}
	m[k] = v
}

func (m table) or(k, def string) string {
	if v, ok := m[k]; ok {
		return v
	}
	return def
}

// apply takes "key=value@timestamp" items.
func (m table) apply(items string) {
	for _, it := range strings.Fields(items) {
		k, rest, _ := strings.Cut(it, "=")
		v, _, _ := strings.Cut(rest, "@")
		m.set(k, v)
	}
}

// TestTableJoinAgainstReference joins random tables, with restarts, and
// compares after every record: the result, counts made of its old and new
// values, and the look-ups.
func TestTableJoinAgainstReference(t *testing.T) {
	for seed := range uint64(9) {
		rnd := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // a test's seed
		kind := []string{"inner", "left", "outer"}[seed%3]
		b := tidegate.NewBuilder()
		joined := joinTables(kind, b.Table("l", "lt", str, str), b.Table("r", "rt", str, str))
		if seed%2 == 1 {
			joined = joined.Materialize("joined")
		}
		joined.ToStream().To("out")
		joined.GroupBy("by", func(_, v string) (string, string) { return v, v }, str, str).
			Count("n").ToStream().MapValues(itoa, str).To("counts")
		r := start(t, b, map[string]int32{"l": 3, "r": 3})
		r.d.CacheBytes = []int64{1 << 20, 0, 900}[rnd.IntN(3)]
		sides := map[string]table{"l": {}, "r": {}}
		got, counts := table{}, table{}
		for i := range 400 {
			side := []string{"l", "r"}[rnd.IntN(2)]
			k, v := fmt.Sprint("k", rnd.IntN(6)), fmt.Sprint(side, rnd.IntN(3))
			if rnd.IntN(4) == 0 {
				v = "null"
			}
			sides[side].set(k, v)
			r.in(side, k, v, int64(rnd.IntN(1000)))
			if rnd.IntN(60) == 0 {
				require.NoError(t, r.d.Restart())
			}
			want, wantCounts := table{}, map[string]int64{}
			for n := range 6 {
				k := fmt.Sprint("k", n)
				_, inL := sides["l"][k]
				_, inR := sides["r"][k]
				if inL && inR || inL && kind != "inner" || inR && kind == "outer" {
					want[k] = sides["l"].or(k, "null") + "-" + sides["r"].or(k, "null")
					wantCounts[want[k]]++
				}
			}
			got.apply(r.out("out"))
			require.Equal(t, want, got, "seed %d record %d", seed, i)
			counts.apply(r.out("counts"))
			for v, n := range counts {
				require.Equal(t, fmt.Sprint(wantCounts[v]), n, "seed %d record %d: %s", seed, i, v)
			}
			require.LessOrEqual(t, len(wantCounts), len(counts))
		}
	}
}
