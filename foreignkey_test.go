package tidegate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/serde"
)

// foreignOf is the foreign key of "payload|key"; without a bar there is none.
func foreignOf(_, v string) (string, bool) {
	_, key, ok := strings.Cut(v, "|")
	return key, ok
}

// joinForeign joins "l" and "r": "(left,right)", "null" for a missing right row.
func joinForeign(kind string, l, r strTable) strTable {
	if kind == "inner" {
		return l.JoinForeignKey("fk", r, foreignOf, func(l, r string) string { return "(" + l + "," + r + ")" }, str)
	}
	return l.LeftJoinForeignKey("fk", r, foreignOf, func(l string, r tidegate.Opt[string]) string {
		return "(" + l + "," + r.Or("null") + ")"
	}, str)
}

func startForeign(t *testing.T, kind string, lefts, rights int32) *run {
	t.Helper()
	b := tidegate.NewBuilder()
	joinForeign(kind, b.Table("l", "lt", str, str), b.Table("r", "rt", str, str)).ToStream().To("out")
	return start(t, b, map[string]int32{"l": lefts, "r": rights})
}

type foreignStep struct {
	topic, key, value string
	ts                int64
	inner, left       string
}

// steps runs a story for both kinds of joins, with and without restarts.
func foreignSteps(t *testing.T, steps []foreignStep) {
	t.Helper()
	for _, kind := range []string{"inner", "left"} {
		for _, restart := range []bool{false, true} {
			r := startForeign(t, kind, 2, 3)
			for i, s := range steps {
				r.in(s.topic, s.key, s.value, s.ts)
				want := s.inner
				if kind == "left" {
					want = s.left
				}
				got := strings.Fields(r.out("out"))
				slices.Sort(got) // rows of several partitions
				require.Equal(t, want, strings.Join(got, " "), "%s join, restart %t, step %d: %+v", kind, restart, i, s)
				if restart {
					require.NoError(t, r.d.Restart())
				}
			}
		}
	}
}

func TestForeignKeyJoinCases(t *testing.T) {
	t.Run("right first", func(t *testing.T) {
		foreignSteps(t, []foreignStep{
			{"r", "rhs1", "1", 1, "", ""},
			{"r", "rhs2", "2", 2, "", ""},
			{"r", "rhs3", "3", 3, "", ""},
			{"l", "lhs1", "a|rhs1", 4, "lhs1=(a|rhs1,1)@4", "lhs1=(a|rhs1,1)@4"},
			{"l", "lhs2", "b|rhs2", 1, "lhs2=(b|rhs2,2)@2", "lhs2=(b|rhs2,2)@2"},
			{"l", "lhs3", "c|rhs1", 6, "lhs3=(c|rhs1,1)@6", "lhs3=(c|rhs1,1)@6"},
			{"l", "lhs1", "null", 7, "lhs1=null@7", "lhs1=null@7"},
			{"l", "lhs1", "null", 8, "", ""},
			{"r", "rhs1", "1'", 9, "lhs3=(c|rhs1,1')@9", "lhs3=(c|rhs1,1')@9"},
		})
	})
	t.Run("left first", func(t *testing.T) {
		foreignSteps(t, []foreignStep{
			{"l", "lhs1", "a|rhs1", 4, "", "lhs1=(a|rhs1,null)@4"},
			{"l", "lhs3", "c|rhs1", 6, "", "lhs3=(c|rhs1,null)@6"},
			{"r", "rhs1", "1", 5, "lhs1=(a|rhs1,1)@5 lhs3=(c|rhs1,1)@6", "lhs1=(a|rhs1,1)@5 lhs3=(c|rhs1,1)@6"},
			{"r", "rhs1", "2", 7, "lhs1=(a|rhs1,2)@7 lhs3=(c|rhs1,2)@7", "lhs1=(a|rhs1,2)@7 lhs3=(c|rhs1,2)@7"},
			{"r", "rhs1", "null", 8, "lhs1=null@8 lhs3=null@8", "lhs1=(a|rhs1,null)@8 lhs3=(c|rhs1,null)@8"},
			{"l", "lhs1", "null", 9, "", "lhs1=null@9"},
			{"r", "rhs1", "3", 10, "lhs3=(c|rhs1,3)@10", "lhs3=(c|rhs1,3)@10"},
		})
	})
	t.Run("the foreign key changes", func(t *testing.T) {
		foreignSteps(t, []foreignStep{
			{"r", "1", "x", 1, "", ""},
			{"r", "3", "z", 1, "", ""},
			{"l", "k", "a|1", 2, "k=(a|1,x)@2", "k=(a|1,x)@2"},
			{"l", "k", "a|2", 3, "k=null@3", "k=(a|2,null)@3"},
			{"r", "1", "x'", 4, "", ""},
			{"l", "k", "b|2", 5, "", "k=(b|2,null)@5"},
			{"l", "k", "b|3", 6, "k=(b|3,z)@6", "k=(b|3,z)@6"},
			{"r", "2", "y", 7, "", ""},
			{"l", "k", "b|2", 8, "k=(b|2,y)@8", "k=(b|2,y)@8"},
			{"r", "3", "null", 9, "", ""},
			{"l", "k", "b|2", 10, "k=(b|2,y)@10", "k=(b|2,y)@10"},
		})
	})
	t.Run("null foreign key", func(t *testing.T) {
		foreignSteps(t, []foreignStep{
			{"l", "k", "a", 1, "", "k=(a,null)@1"},
			{"r", "1", "x", 5, "", ""},
			{"l", "k", "a|1", 2, "k=(a|1,x)@5", "k=(a|1,x)@5"},
			{"l", "k", "b", 3, "k=null@5", "k=(b,null)@3"},
			{"r", "1", "x'", 6, "", ""},
			{"l", "k", "c", 7, "", "k=(c,null)@7"},
			{"l", "k", "null", 8, "", "k=null@8"},
		})
	})
	t.Run("empty keys", func(t *testing.T) {
		foreignSteps(t, []foreignStep{
			{"r", "", "x", 1, "", ""},
			{"l", "", "a|", 2, "=(a|,x)@2", "=(a|,x)@2"},
			{"l", "\x00", "a|", 3, "\x00=(a|,x)@3", "\x00=(a|,x)@3"},
			{"l", "\x00", "null", 4, "\x00=null@4", "\x00=null@4"},
			{"r", "", "y", 5, "=(a|,y)@5", "=(a|,y)@5"},
		})
	})
}

// Foreign keys of which one is the beginning of another, with keys that look
// like the rest of them.
func TestForeignKeysDoNotMix(t *testing.T) {
	r := startForeign(t, "inner", 1, 1)
	keys := []string{"a", "ab", "a\x00", "a\xff", "a\xff\xff", "\xff", "b"}
	for _, k := range keys {
		for _, l := range []string{"", "b", "\xff"} {
			r.in("l", l+"of"+k, "v|"+k, 1)
		}
	}
	require.Empty(t, r.out("out"))
	for _, k := range keys {
		r.in("r", k, "x", 1)
		require.Len(t, strings.Fields(r.out("out")), 3, "%q", k)
	}
}

// The answers of the old and the new foreign key arrive in either order, also
// after the row was deleted and came back: one result, of the present key.
func TestForeignKeyJoinKnowsStaleAnswers(t *testing.T) {
	for _, kind := range []string{"inner", "left"} {
		for _, swapped := range []bool{false, true} {
			for _, deleted := range []bool{false, true} {
				r := startForeign(t, kind, 1, 8)
				r.in("r", "1", "x", 1)
				r.in("r", "2", "y", 1)
				// All left rows are written first; then the right tasks answer one
				// after the other, in the order wanted, and each answer is taken.
				r.d.Turn = func(due []ids.TaskID) int {
					return slices.IndexFunc(due, func(id ids.TaskID) bool { return id.Sub == 0 })
				}
				r.in("l", "k", "a|1", 2)
				if deleted {
					r.in("l", "k", "null", 3)
				}
				r.in("l", "k", "b|2", 4)
				require.Empty(t, r.out("out"))
				first := ids.TaskID{Sub: 1, Partition: ids.Partition([]byte("1"), 8)}
				second := ids.TaskID{Sub: 1, Partition: ids.Partition([]byte("2"), 8)}
				require.NotEqual(t, first, second)
				if swapped {
					first, second = second, first
				}
				order := []ids.TaskID{first, {}, second, {}}
				r.d.Turn = func(due []ids.TaskID) int {
					for len(order) > 0 {
						i := slices.Index(due, order[0])
						order = order[1:]
						if i >= 0 {
							return i
						}
					}
					return 0
				}
				r.d.Tap("app-fk-answers-repartition")
				require.NoError(t, r.d.Run())
				require.Len(t, r.d.Take("app-fk-answers-repartition"), 2)
				require.Equal(t, "k=(b|2,y)@4", r.out("out"), "%s swapped %t deleted %t", kind, swapped, deleted)
			}
		}
	}
}

// The result is a table: it can be looked up, filtered and aggregated with old
// values.
func TestForeignKeyJoinIsATable(t *testing.T) {
	b := tidegate.NewBuilder()
	joined := joinForeign("inner", b.Table("l", "lt", str, str), b.Table("r", "rt", str, str))
	joined.Filter(func(_, v string) bool { return !strings.Contains(v, "hide") }).
		GroupBy("by", func(_, v string) (string, string) { return v[len(v)-2:], v }, str, str).
		Count("n").ToStream().MapValues(itoa, str).To("counts")
	b.Stream("s", str, str).LeftJoinTable("look", joined, func(_ string, row tidegate.Opt[string]) string { return row.Or("none") }, str).
		To("looked")
	r := start(t, b, map[string]int32{"l": 2, "s": 2, "r": 3})
	r.in("r", "1", "x", 1)
	r.in("l", "a", "A|1", 2)
	r.in("l", "b", "hide|1", 2)
	r.in("l", "c", "C|1", 2)
	r.in("r", "1", "y", 3)
	r.in("l", "c", "null", 4)
	r.in("s", "a", "?", 5)
	r.in("s", "c", "?", 5)
	require.Equal(t, "a=(A|1,y)@5 c=none@5", r.out("looked"))
	counts := table{}
	counts.apply(r.out("counts"))
	require.Equal(t, table{"x)": "0", "y)": "1"}, counts)
}

func TestForeignKeyJoinOfATableWithItself(t *testing.T) {
	b := tidegate.NewBuilder()
	l := b.Table("l", "lt", str, str)
	joinForeign("left", l, l).ToStream().To("out")
	top, err := b.Build()
	require.NoError(t, err)
	require.Len(t, top.Graph().Subtopologies(), 1)
	r := start(t, b, map[string]int32{"l": 3})
	last := table{}
	step := func(k, v string, ts int64) table {
		r.in("l", k, v, ts)
		last.apply(r.out("out"))
		return last
	}
	step("boss", "B", 1)
	require.Equal(t, table{"boss": "(B,null)", "ann": "(A|boss,B)"}, step("ann", "A|boss", 2))
	require.Equal(t, table{"boss": "(C|ann,A|boss)", "ann": "(A|boss,C|ann)"}, step("boss", "C|ann", 3))
	require.Equal(t, table{"boss": "(D|boss,D|boss)", "ann": "(A|boss,D|boss)"}, step("boss", "D|boss", 4))
	require.Equal(t, table{"ann": "(A|boss,null)"}, step("boss", "null", 5))
}

// A cycle's channel is declared, partition counts follow, and names are listed.
func TestForeignKeyJoinTopology(t *testing.T) {
	b := tidegate.NewBuilder()
	joinForeign("inner", b.Table("l", "lt", str, str), b.Table("r", "rt", str, str)).ToStream().To("out")
	top, err := b.Build()
	require.NoError(t, err)
	res, err := top.Graph().Resolve("app", map[string]int32{"l": 2, "r": 5, "out": 1})
	require.NoError(t, err)
	require.Equal(t, int32(5), res.Partitions("app-fk-subscriptions-repartition"))
	require.Equal(t, int32(2), res.Partitions("app-fk-answers-repartition"))
	for _, c := range res.Channels("app-fk-subscriptions-repartition") {
		require.False(t, c.Cycle)
	}
	channels := res.Channels("app-fk-answers-repartition")
	require.Len(t, channels, 5)
	for _, c := range channels {
		require.True(t, c.Cycle)
	}
	text := res.Describe()
	for _, want := range []string{
		"fk-rows: foreign-rows-1", "fk-subscriptions: foreign-subscriptions-1", "fk: table-1",
		"app-fk-answers-repartition: 2 partitions", "cycle from 1",
	} {
		require.Contains(t, text, want)
	}
}

func TestForeignKeyJoinFailures(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Table("l", "lt", str, str).JoinForeignKey("fk", b.Table("r", "rt", str, str),
		func(k, v string) (string, bool) {
			if v == "bad" {
				panic("bad key")
			}
			return foreignOf(k, v)
		},
		func(l, r string) string {
			if r == "bad" {
				panic("bad join")
			}
			return l + r
		}, str).ToStream().To("out")
	r := start(t, b, map[string]int32{"l": 1, "r": 1})
	r.d.Skip = func(*harness.Failure) bool { return true }
	r.in("r", "1", "x", 1)
	r.in("l", "k", "a|1", 2)
	require.Equal(t, "k=a|1x@2", r.out("out"))
	r.in("l", "k", "bad", 3) // has no foreign key then
	require.Equal(t, "k=null@3", r.out("out"))
	r.in("r", "1", "bad", 4)
	r.in("l", "k", "b|1", 5)
	require.Empty(t, r.out("out"))
	r.in("r", "1", "y", 6)
	require.Equal(t, "k=b|1y@6", r.out("out"))
	require.Len(t, r.d.Skipped, 2)
}

func TestForeignKeyJoinMistakes(t *testing.T) {
	b, other := tidegate.NewBuilder(), tidegate.NewBuilder()
	l, r := b.Table("l", "lt", str, str), b.Table("r", "rt", str, str)
	l.JoinForeignKey[string, string, string]("a", r, nil, nil, nil)
	l.LeftJoinForeignKey("b", other.Table("o", "ot", str, str), foreignOf, func(l string, _ tidegate.Opt[string]) string { return l }, str)
	l.JoinForeignKey("c", r.MapValues(strings.ToUpper), foreignOf, func(l, _ string) string { return l }, str)
	l.JoinForeignKey("a", r, foreignOf, func(l, _ string) string { return l }, str)
	l.LeftJoinForeignKey[string, string, string]("d", nil, foreignOf, nil, serde.String())
	_, err := b.Build()
	for _, want := range []string{
		`JoinForeignKey("a"): a function is nil`, "the result's serde is nil",
		`LeftJoinForeignKey("b"): the other table is nil or comes from another Builder`,
		"MapValues changes the value to string", `step name "a" is already used`, `step name "a-answers" is already used`,
		`LeftJoinForeignKey("d"): a function is nil`, `LeftJoinForeignKey("d"): the other table is nil`,
	} {
		require.ErrorContains(t, err, want)
	}
}

// TestForeignKeyJoinAgainstReference takes records in random order, as far as
// partitions allow, while more come in and tasks restart: when all is taken, the
// result is that of a plain join.
func TestForeignKeyJoinAgainstReference(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // a test's seed
		kind := []string{"inner", "left"}[seed%2]
		b := tidegate.NewBuilder()
		joined := joinForeign(kind, b.Table("l", "lt", str, str), b.Table("r", "rt", str, str))
		joined.ToStream().To("out")
		joined.GroupBy("by", func(_, v string) (string, string) { return v, v }, str, str).
			Count("n").ToStream().MapValues(itoa, str).To("counts")
		r := start(t, b, map[string]int32{"l": 3, "r": 2})
		r.d.CacheBytes = []int64{1 << 20, 0, 900}[rnd.IntN(3)]
		partial := false
		r.d.Turn = func(due []ids.TaskID) int {
			if partial && rnd.IntN(4) == 0 {
				return -1
			}
			return rnd.IntN(len(due))
		}
		left, right, got, counts := table{}, table{}, table{}, table{}
		for i := range 500 {
			if rnd.IntN(3) > 0 {
				k, v := fmt.Sprint("k", rnd.IntN(8)), fmt.Sprint(string("ab"[rnd.IntN(2)]), "|", rnd.IntN(4))
				if v[2:] == "3" && rnd.IntN(2) == 0 {
					v = "a"
				}
				if rnd.IntN(5) == 0 {
					v = "null"
				}
				left.set(k, v)
				r.in("l", k, v, int64(rnd.IntN(1000)))
			} else {
				k, v := fmt.Sprint(rnd.IntN(4)), fmt.Sprint("r", rnd.IntN(3))
				if rnd.IntN(3) == 0 {
					v = "null"
				}
				right.set(k, v)
				r.in("r", k, v, int64(rnd.IntN(1000)))
			}
			partial = false
			if rnd.IntN(50) == 0 { // with records on their way, also round the cycle
				require.NoError(t, r.d.Restart())
			}
			if i%25 > 0 {
				partial = true
				continue
			}
			require.NoError(t, r.d.Run())
			partial = true
			want, wantCounts := table{}, map[string]int64{}
			for k, l := range left {
				fk, named := foreignOf("", l)
				rv, there := right[fk]
				switch {
				case named && there:
					want[k] = "(" + l + "," + rv + ")"
				case kind == "left":
					want[k] = "(" + l + ",null)"
				default:
					continue
				}
				wantCounts[want[k]]++
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
