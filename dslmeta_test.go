package tidegate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/serde"
)

// metaTopology has two hops, every kind of state, and mutable aggregates.
func metaTopology() *tidegate.Builder {
	type tally struct {
		N    int
		Last []string
	}
	b := tidegate.NewBuilder()
	names := b.Table("names", "names", str, str)
	in := b.Stream("in", str, str)
	in.GroupBy("by-value", func(_, v string) string { return v[:1] }, str).
		Aggregate("tallies", func() *tally { return &tally{} }, func(_, v string, a *tally) *tally {
			a.N++
			a.Last = append(a.Last[max(0, len(a.Last)-2):], v)
			return a
		}, serde.JSON[*tally]()).
		ToStream().
		LeftJoinTable("named", names, func(a *tally, n tidegate.Opt[string]) string {
			return fmt.Sprint(n.Or("?"), a.N, a.Last)
		}, str).
		To("tallied")
	in.GroupByKey("per-key").
		WindowedBy(tidegate.Tumbling(20*ms).Grace(30*ms), tidegate.ByWindow).
		Count("windowed").ToStream().MapValues(itoa, str).
		Map(windowKey, tidegate.With(str, str)).To("windows")
	in.SelectKey(func(_, v string) string { return v }, str).ToTable("latest").
		Filter(func(k, _ string) bool { return k != "b1" }).ToStream().To("latest")
	in.Process("dedup", func() tidegate.Processor[string, string, string, string] { return &dedup{closed: new(int)} }, seenStore).
		As(str, str).To("deduped")
	return b
}

// TestSameOutputWhateverTheCacheAndRestarts runs one input many times: cache
// budgets and restarts must not show in any output.
func TestSameOutputWhateverTheCacheAndRestarts(t *testing.T) {
	outputs := []string{"tallied", "windows", "latest", "deduped"}
	var want map[string]string
	for round := range 12 {
		rnd := rand.New(rand.NewPCG(uint64(round), 7)) //nolint:gosec // a test's seed
		top, err := metaTopology().Build()
		require.NoError(t, err)
		d, err := harness.New(top.Graph(), map[string]int32{"names": 3, "in": 3}, t.TempDir())
		require.NoError(t, err)
		d.CacheBytes = []int64{1 << 20, 0, 700, 3000}[round%4]
		if round%3 == 2 {
			d.Skip = func(*harness.Failure) bool { return false }
		}
		r := &run{t, d}
		input := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same input in each round
		for i := range 400 {
			ts := int64(i/2 + input.IntN(40))
			r.in("names", string("abc"[input.IntN(3)]), fmt.Sprint("name", i), ts)
			value := fmt.Sprint(string("abc"[input.IntN(3)]), input.IntN(4))
			r.in("in", fmt.Sprint("k", input.IntN(5)), value, ts)
			if round > 0 && rnd.IntN(20) == 0 {
				require.NoError(t, d.Restart())
			}
		}
		got := map[string]string{}
		for _, o := range outputs {
			got[o] = r.out(o)
			require.Greater(t, strings.Count(got[o], " "), 20, o)
		}
		if round == 0 {
			want = got
		}
		require.Equal(t, want, got, "round %d", round)
		require.NoError(t, d.Close())
	}
}
