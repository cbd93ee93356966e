package tidegatetest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// A step behind the windows that panics on a result loses that result only, if
// the handler skips it, also when the task is started again right then.
func TestAResultOnCloseThatFailsIsSkippedOnce(t *testing.T) {
	for name, describe := range map[string]func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, int64]{
		"tumbling": func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, int64] {
			return g.WindowedBy(tidegate.Tumbling(10*ms), tidegate.ByWindow).EmitOnClose().Count("n")
		},
		"sliding": func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, int64] {
			return g.WindowedBy(tidegate.Sliding(1*ms), tidegate.ByWindow).EmitOnClose().Count("n")
		},
		"session": func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, int64] {
			return g.SessionWindowedBy(tidegate.Session(1*ms), tidegate.ByWindow).EmitOnClose().Count("n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := tidegate.NewBuilder()
			failed := 0
			describe(groupedIn(b, false)).ToStream().
				Map(func(k windowedString, n int64) (string, int64) {
					if k.Key == "bad" {
						failed++
						panic("bad result")
					}
					return k.Key, n
				}, tidegate.With(str, serde.Int64())).To("out")
			d := tidegatetest.New(t, build(t, b), tidegatetest.WithFailureHandler(
				func(error) tidegate.FailureAction { return tidegate.Skip }))
			in, out := d.Input("in", str, str), d.Output("out", str, serde.Int64())
			for i, k := range []string{"a", "bad", "bad", "c", "d"} {
				in.Pipe(k, "v", tidegatetest.At(int64(i*3)))
			}
			for range 4 { // every call goes on behind the result that failed
				d.AdvanceStreamTime(100)
				d.Restart()
				in.Pipe("z", "v", tidegatetest.At(200))
			}
			var keys []string
			for _, r := range out.ReadKeyValues() {
				if r.Key != "z" {
					keys = append(keys, r.Key)
				}
			}
			require.Equal(t, "a c d", strings.Join(keys, " "))
			want := 2
			if name == "tumbling" {
				want = 1 // one window has both
			}
			require.Equal(t, want, failed)
			require.Len(t, d.Skipped(), want)
		})
	}
}

// An aggregator that fails for one window of a record leaves all as they were.
func TestAFailingAggregatorChangesNoWindow(t *testing.T) {
	calls := 0
	add := func(_, v string, a []string) []string {
		a = append(a, v)
		if calls++; v == "bad" && calls%2 == 0 {
			panic("bad value")
		}
		return a
	}
	merge := func(_ string, a, b []string) []string { return append(a, b...) }
	none := func() []string { return make([]string, 0, 10) }
	list := serde.JSON[[]string]()
	for name, describe := range map[string]func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, []string]{
		"hopping": func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, []string] {
			return g.WindowedBy(tidegate.Hopping(10*ms, 5*ms), tidegate.ByWindow).Aggregate("n", none, add, list)
		},
		"sliding": func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, []string] {
			return g.WindowedBy(tidegate.Sliding(10*ms).Grace(100*ms), tidegate.ByWindow).Aggregate("n", none, add, list)
		},
		"session": func(g *tidegate.Grouped[string, string]) *tidegate.Table[windowedString, []string] {
			return g.SessionWindowedBy(tidegate.Session(10*ms), tidegate.ByWindow).Aggregate("n", none, add, merge, list)
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls = 0
			b := tidegate.NewBuilder()
			describe(groupedIn(b, false)).ToStream().ForEach(func(windowedString, []string) {})
			d := tidegatetest.New(t, build(t, b), tidegatetest.WithFailureHandler(
				func(error) tidegate.FailureAction { return tidegate.Skip }))
			rows := func() any {
				if name == "hopping" {
					return d.WindowStore("n", str, list).All()
				}
				return d.SessionStore("n", str, list).All()
			}
			in := d.Input("in", str, str)
			in.Pipe("k", "a", tidegatetest.At(22))
			in.Pipe("k", "b", tidegatetest.At(24))
			before := rows()
			if calls%2 != 0 || name == "session" {
				calls = 1 // the one window fails
			} else {
				calls = 0 // the second window fails
			}
			in.Pipe("k", "bad", tidegatetest.At(23))
			require.Len(t, d.Skipped(), 1)
			require.Equal(t, before, rows())
			d.Restart()
			require.Equal(t, before, rows())
		})
	}
}
