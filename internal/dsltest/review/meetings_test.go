package review_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/tidegatetest"
)

// each pipes "topic key=value@timestamp" records, with a restart behind each if
// wanted, and returns what came out of "out".
func each(t *testing.T, b *tidegate.Builder, restart bool, records ...string) string {
	t.Helper()
	d := start(t, b, tidegatetest.WithPartitions(1))
	inputs := map[string]*tidegatetest.Input[string, string]{}
	out := d.Output("out", str, str)
	var all []string
	for _, rec := range records {
		var ts int64
		topic, rest, _ := strings.Cut(rec, " ")
		kv, at, _ := strings.Cut(rest, "@")
		_, err := fmt.Sscan(at, &ts)
		require.NoError(t, err)
		k, v, _ := strings.Cut(kv, "=")
		in := inputs[topic]
		if in == nil {
			in = d.Input(topic, str, str)
			inputs[topic] = in
		}
		opts := []tidegatetest.PipeOption{tidegatetest.At(ts)}
		if v == "null" {
			opts = append(opts, tidegatetest.Tombstone())
		}
		in.Pipe(k, v, opts...)
		for _, r := range out.ReadAll() {
			v := r.Value
			if r.Tombstone {
				v = "null"
			}
			all = append(all, fmt.Sprintf("%s=%s@%d", r.Key, v, r.Timestamp))
		}
		if restart {
			d.Restart()
		}
	}
	return strings.Join(all, " ")
}

func flat(t *tidegate.Table[window, string]) *tidegate.Stream[string, string] {
	return t.ToStream().Map(func(k window, v string) (string, string) {
		return fmt.Sprintf("%s[%d,%d)", k.Key, k.Start, k.End), v
	}, tidegate.With(str, str))
}

func text(n int64) string { return fmt.Sprint(n) }

// Final results of windows are a table like others: grouped again, the rows of
// windows that closed are counted once each; a window that closes changes one.
func TestFinalResultsAreGroupedAgain(t *testing.T) {
	for _, final := range []string{"on close", "suppressed", "suppressed sliding", "sessions on close"} {
		for _, restart := range []bool{false, true} {
			b := tidegate.NewBuilder()
			g := b.Stream("in", str, str).GroupByKey("g")
			tumbling := g.WindowedBy(tidegate.Tumbling(10*ms), tidegate.ByWindow)
			var counts *tidegate.Table[window, int64]
			switch final {
			case "on close":
				counts = tumbling.EmitOnClose().Count("n")
			case "suppressed":
				counts = tumbling.Count("n").Suppress("s", tidegate.UntilWindowCloses())
			case "suppressed sliding":
				counts = g.WindowedBy(tidegate.Sliding(0), tidegate.ByWindow).Count("n").Suppress("s", tidegate.UntilWindowCloses())
			case "sessions on close":
				counts = g.SessionWindowedBy(tidegate.Session(3*ms), tidegate.ByWindow).EmitOnClose().Count("n")
			}
			counts.GroupBy("by-count", func(k window, n int64) (string, string) { return text(n), k.Key }, str, str).
				Count("windows").ToStream().MapValues(text, str).To("out")
			got := each(t, b, restart, "in a=x@1", "in a=x@1", "in b=x@1", "in a=x@20", "in b=x@40", "in c=x@60")
			require.Equal(t, "2=1@1 1=1@1 1=2@20 1=3@40", got, "%s, restart %t", final, restart)
		}
	}
}

// A suppressed table is joined with what was sent, not with what is held back.
func TestSuppressedTablesInJoins(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := tidegate.NewBuilder()
		calm := b.Table("rows", "rows", str, str).Suppress("calm", tidegate.UntilTimeLimit(10*ms))
		names := b.Table("names", "names", str, str)
		calm.LeftJoin(names, func(v string, name tidegate.Opt[string]) string { return v + "/" + name.Or("-") }, str).
			ToStream().To("out")
		got := each(t, b, restart,
			"rows k=1@0", "names k=a@1", "rows k=2@5", "rows z=z@10", "names k=b@11", "rows k=3@12", "names k=null@13", "rows y=y@22")
		require.Equal(t, "k=2/a@5 k=2/b@11 k=2/-@13 z=z/-@10 k=3/-@12", got, "restart %t", restart)
	}
}

// The rows that an outer join sends alone are late by its window: windows behind
// it take them with a grace of that length.
func TestWindowsBehindAnOuterJoin(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := tidegate.NewBuilder()
		joined := b.Stream("l", str, str).OuterJoinStream("j", b.Stream("r", str, str), tidegate.JoinWithin(10*ms),
			func(l, r tidegate.Opt[string]) string { return l.Or("-") + r.Or("-") }, str)
		flat(joined.GroupByKey("g").WindowedBy(tidegate.Tumbling(10*ms).Grace(20*ms), tidegate.ByWindow).EmitOnClose().
			Reduce("all", func(a, v string) string { return a + "," + v })).To("out")
		got := each(t, b, restart,
			"l k=A@1", "l k=B@4", "r k=b@14", "l x=x@30", "r q=q@45", "r z=z@56", "r z=z@200")
		require.Equal(t, "k[0,10)=A-@1 k[10,20)=Bb@14 x[30,40)=x-@30 q[40,50)=-q@45 z[50,60)=-z@56", got, "restart %t", restart)
	}
}
