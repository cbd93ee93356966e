package breaker_test

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

const (
	ms = time.Millisecond
	// longest is the longest span of whole milliseconds.
	longest = math.MaxInt64 / 1_000_000 * ms
)

// farthest is the last timestamp that a source takes.
const farthest = 9223372036854

var (
	str   = serde.String()
	bytes = serde.Bytes()
	lists = serde.JSON[map[string]int]()
)

type stream = *tidegate.Stream[string, string]

// failing: the record in hand is to fail where a function sees it.
var failing bool

func check(v string) string {
	if failing {
		panic("bad " + v)
	}
	return v
}

// fold changes the aggregate in place, and then may fail.
func fold(_, v string, a []byte) []byte {
	for i := range a {
		a[i] = 'a' + (a[i]-'a'+1)%26
	}
	check(v)
	return append(a, 'a')
}

func foldMap(_, v string, a map[string]int) map[string]int {
	a[v[:1]]++
	a["n"]++
	check(v)
	return a
}

func newBytes() []byte       { return []byte("a") }
func newMap() map[string]int { return map[string]int{} }

func merge(_ string, a, b []byte) []byte { return append(a, b...) }
func mergeMap(_ string, a, b map[string]int) map[string]int {
	for k, n := range b {
		a[k] += n
	}
	return a
}

func show[K, V any](k K, v V) (string, string) { return "k", fmt.Sprintf("%v=%v", k, v) }

func send[K, V any](t *tidegate.Table[K, V]) {
	t.ToStream().Map(show[K, V], tidegate.With(str, str)).To("out")
}

type part struct {
	name  string
	build func(b *tidegate.Builder, l, r stream)
}

func windowsOf[WK any](what string, of func(g *tidegate.Grouped[string, string]) *tidegate.TimeWindowed[string, string, WK]) []part {
	group := func(s stream) *tidegate.Grouped[string, string] { return s.GroupByKey("g") }
	return []part{
		{what, func(_ *tidegate.Builder, l, _ stream) { send(of(group(l)).Aggregate("w", newBytes, fold, bytes)) }},
		{what + " map", func(_ *tidegate.Builder, l, _ stream) { send(of(group(l)).Aggregate("w", newMap, foldMap, lists)) }},
		{what + " close", func(_ *tidegate.Builder, l, _ stream) {
			send(of(group(l)).EmitOnClose().Aggregate("w", newBytes, fold, bytes))
		}},
		{what + " suppress", func(_ *tidegate.Builder, l, _ stream) {
			send(of(group(l)).Aggregate("w", newMap, foldMap, lists).Suppress("s", tidegate.UntilWindowCloses()))
		}},
		{what + " limit", func(_ *tidegate.Builder, l, _ stream) {
			send(of(group(l)).Aggregate("w", newMap, foldMap, lists).Suppress("s", tidegate.UntilTimeLimit(30*ms).MaxRecords(3).WhenFull(tidegate.EmitEarly)))
		}},
		{what + " grouped", func(_ *tidegate.Builder, l, _ stream) {
			send(of(group(l)).Aggregate("w", newBytes, fold, bytes).GroupBy("gb", func(k WK, v []byte) (string, string) {
				return fmt.Sprint(len(v) % 3), fmt.Sprintf("%v%s", k, v)
			}, str, str).Aggregate("x", newMap, func(_, v string, a map[string]int) map[string]int {
				a[v]++
				return a
			}, func(_, v string, a map[string]int) map[string]int {
				if a[v]--; a[v] == 0 {
					delete(a, v)
				}
				return a
			}, lists))
		}},
	}
}

func parts() []part {
	var all []part
	for name, w := range map[string]tidegate.TimeWindows{
		"tumbling": tidegate.Tumbling(20 * ms).Grace(10 * ms), "hopping": tidegate.Hopping(20*ms, 7*ms).Grace(5 * ms),
		"sliding": tidegate.Sliding(15 * ms).Grace(10 * ms), "daily": tidegate.Daily(time.UTC),
	} {
		all = append(all, windowsOf(name, func(g *tidegate.Grouped[string, string]) *tidegate.TimeWindowed[string, string, tidegate.Windowed[string]] {
			return g.WindowedBy(w, tidegate.ByWindow)
		})...)
	}
	session := func(s stream) *tidegate.SessionWindowed[string, string, tidegate.Windowed[string]] {
		return s.GroupByKey("g").SessionWindowedBy(tidegate.Session(9*ms).Grace(4*ms), tidegate.ByWindow)
	}
	in := tidegate.JoinWithin(10 * ms).Grace(5 * ms)
	glue := func(a, b string) string { return check(a) + "+" + check(b) }
	opt := func(o tidegate.Opt[string]) string {
		v, ok := o.Get()
		if !ok {
			return "-"
		}
		return v
	}
	both := func(a, b tidegate.Opt[string]) string {
		if a.IsSome() && b.IsSome() {
			check("")
		}
		return opt(a) + "+" + opt(b)
	}
	return append(all, []part{
		{"session", func(_ *tidegate.Builder, l, _ stream) { send(session(l).Aggregate("w", newBytes, fold, merge, bytes)) }},
		{"session map", func(_ *tidegate.Builder, l, _ stream) {
			send(session(l).Aggregate("w", newMap, foldMap, mergeMap, lists))
		}},
		{"session close", func(_ *tidegate.Builder, l, _ stream) {
			send(session(l).EmitOnClose().Aggregate("w", newMap, foldMap, mergeMap, lists))
		}},
		{"session close, window close", func(_ *tidegate.Builder, l, _ stream) {
			s := session(l).EmitOnClose().Aggregate("w", newBytes, fold, merge, bytes).ToStream().Map(show[tidegate.Windowed[string], []byte], tidegate.With(str, str))
			send(s.GroupByKey("g2").WindowedBy(tidegate.Tumbling(25*ms).Grace(20*ms), tidegate.ByWindow).EmitOnClose().Aggregate("w2", newMap, func(_, v string, a map[string]int) map[string]int {
				a[v]++
				return a
			}, lists))
		}},
		{"session suppress", func(_ *tidegate.Builder, l, _ stream) {
			send(session(l).Aggregate("w", newMap, foldMap, mergeMap, lists).Suppress("s", tidegate.UntilWindowCloses()))
		}},
		{"session grouped", func(_ *tidegate.Builder, l, _ stream) {
			send(session(l).Aggregate("w", newMap, foldMap, mergeMap, lists).GroupBy("gb", func(k tidegate.Windowed[string], v map[string]int) (string, string) {
				return k.Key, fmt.Sprint(k, v)
			}, str, str).Aggregate("x", newMap, func(_, v string, a map[string]int) map[string]int { a[v]++; return a },
				func(_, v string, a map[string]int) map[string]int {
					if a[v]--; a[v] == 0 {
						delete(a, v)
					}
					return a
				}, lists))
		}},
		{"aggregate", func(_ *tidegate.Builder, l, _ stream) { send(l.GroupByKey("g").Aggregate("a", newBytes, fold, bytes)) }},
		{"aggregate suppressed", func(_ *tidegate.Builder, l, _ stream) {
			send(l.GroupByKey("g").Aggregate("a", newBytes, fold, bytes).Suppress("s", tidegate.UntilTimeLimit(12*ms)))
		}},
		{"cogroup", func(_ *tidegate.Builder, l, r stream) {
			send(l.GroupByKey("g").Cogroup(foldMap).Cogroup(r.GroupByKey("g2"), foldMap).Aggregate("a", newMap, lists))
		}},
		{"cogroup session close", func(_ *tidegate.Builder, l, r stream) {
			send(l.GroupByKey("g").Cogroup(fold).Cogroup(r.GroupByKey("g2"), fold).
				SessionWindowedBy(tidegate.Session(9*ms).Grace(4*ms), tidegate.ByWindow).Aggregate("a", newBytes, merge, bytes))
		}},
		{"join", func(_ *tidegate.Builder, l, r stream) { l.JoinStream("j", r, in, glue, str).To("out") }},
		{"self join", func(_ *tidegate.Builder, l, _ stream) { l.JoinStream("j", l, in, glue, str).To("out") }},
		{"left join", func(_ *tidegate.Builder, l, r stream) {
			l.LeftJoinStream("j", r, in, func(a string, b tidegate.Opt[string]) string { return both(tidegate.Some(a), b) }, str).To("out")
		}},
		{"outer join, suppressed count", func(_ *tidegate.Builder, l, r stream) {
			send(l.OuterJoinStream("j", r, in, func(a, b tidegate.Opt[string]) string { return both(a, b) }, str).GroupByKey("g").
				WindowedBy(tidegate.Tumbling(20*ms).Grace(20*ms), tidegate.ByWindow).Count("n").Suppress("s", tidegate.UntilWindowCloses()))
		}},
		{"grace join", func(_ *tidegate.Builder, l, r stream) {
			l.LeftJoinTable("j", r.ToVersionedTable("v", 60*ms).JoinGrace(15*ms), func(a string, b tidegate.Opt[string]) string { return both(tidegate.Some(a), b) }, str).To("out")
		}},
		{"foreign key self join", func(_ *tidegate.Builder, l, _ stream) {
			t := l.ToTable("t")
			send(t.LeftJoinForeignKey("f", t, func(_, v string) (string, bool) { return "k" + v[:1], v[0] != 'b' },
				func(a string, b tidegate.Opt[string]) string { return both(tidegate.Some(a), b) }, str))
		}},
		{"flat map, suppress, join", func(_ *tidegate.Builder, l, r stream) {
			t := r.FlatMap(func(k, v string) iter.Seq2[string, string] {
				return func(yield func(string, string) bool) { _ = yield(k, check(v)) && yield(k+"x", v) }
			}, tidegate.With(str, str)).ToTable("t").Suppress("s", tidegate.UntilTimeLimit(8*ms))
			l.LeftJoinTable("j", t, func(a string, b tidegate.Opt[string]) string { return both(tidegate.Some(a), b) }, str).To("out")
		}},
		{"tables", func(_ *tidegate.Builder, l, r stream) {
			send(l.ToTable("t").OuterJoin(r.ToTable("u"), func(a, b tidegate.Opt[string]) string { return both(a, b) }, str).
				Materialize("m").GroupBy("gb", func(k, v string) (string, string) { return v[:1], check(v) }, str, str).
				Count("n"))
		}},
	}...)
}

type input struct {
	right, null, tomb bool
	k, v              string
	at                int64
}

// inputs makes records; those that are to fail have a "!".
func inputs(seed uint64, n int, bad bool) []input {
	rnd := rand.New(rand.NewPCG(seed, 1))
	at := int64(0)
	var all []input
	for i := range n {
		at += rnd.Int64N(9)
		if rnd.IntN(15) == 0 {
			at += 80
		}
		in := input{
			right: rnd.IntN(2) == 0, k: []string{"", "ka", "kb"}[rnd.IntN(3)], v: []string{"a", "b", "c"}[rnd.IntN(3)] + fmt.Sprint(i),
			at: max(0, at-rnd.Int64N(20)), null: rnd.IntN(12) == 0, tomb: rnd.IntN(10) == 0,
		}
		if bad && rnd.IntN(5) == 0 {
			in.v += "!"
		}
		all = append(all, in)
	}
	if seed%3 == 0 {
		all = append(all, input{k: "ka", v: "a", at: farthest}, input{k: "kb", v: "b", at: farthest - 1}, input{k: "ka", v: "c", at: 3})
	}
	return all
}

type circumstances struct {
	restart func(i int) bool
	cache   int64
	failed  map[int]bool // these are filtered out
	parts   int32
}

func run(t *testing.T, p part, all []input, c circumstances) (out []string, failed map[int]bool) {
	failed = map[int]bool{}
	b := tidegate.NewBuilder()
	keep := func(_, v string) bool { return v != "#" }
	p.build(b, b.Stream("l", str, str).Filter(keep), b.Stream("r", str, str).Filter(keep))
	top, err := b.Build()
	require.NoError(t, err)
	d := tidegatetest.New(t, top, tidegatetest.WithCacheBytes(c.cache), tidegatetest.WithPartitions(max(1, c.parts)),
		tidegatetest.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
	defer d.Close()
	l := d.Input("l", str, str)
	r := d.Input("r", str, str)
	o := d.Output("out", str, str)
	for i, in := range all {
		if c.restart != nil && c.restart(i) {
			d.Restart()
		}
		to, v := l, in.v
		if in.right {
			to = r
		}
		if c.failed[i] {
			v = "#"
		}
		failing = strings.Contains(v, "!")
		before := len(d.Skipped())
		opts := []tidegatetest.PipeOption{tidegatetest.At(in.at), tidegatetest.Header("h", []byte{byte(i)})}
		if in.null {
			opts = append(opts, tidegatetest.NullKey())
		}
		if in.tomb && v != "#" {
			opts = append(opts, tidegatetest.Tombstone())
		}
		err := to.TryPipe(in.k, v, opts...)
		failing = false
		if err != nil {
			t.Log("FATAL", err)
			return append(out, "FATAL "+err.Error()), failed
		}
		if len(d.Skipped()) > before {
			failed[i] = true
		}
		for _, x := range o.ReadAll() {
			out = append(out, fmt.Sprint(i, " ", x))
		}
	}
	return out, failed
}

// The results are the same whenever the application is restarted and whatever is
// cached.
func TestRestart(t *testing.T) {
	for _, p := range parts() {
		t.Run(p.name, func(t *testing.T) {
			for seed := range uint64(6) {
				all := inputs(seed, 50, seed%2 == 1)
				want, n := run(t, p, all, circumstances{cache: 1 << 20, parts: int32(1 + seed%3)})
				rnd := rand.New(rand.NewPCG(seed, 2))
				got, m := run(t, p, all, circumstances{cache: int64(seed % 2 * 100), parts: int32(1 + seed%3), restart: func(int) bool { return rnd.IntN(4) == 0 }})
				require.Equal(t, want, got, "seed %d", seed)
				require.Equal(t, n, m)
			}
		})
	}
}

// later: the joiner is called when the record is past, or below tables that took
// the row already. So a failure is no failure of the record alone.
var later = map[string]bool{"grace join": true, "foreign key self join": true, "tables": true}

// A record whose function panics, and which is skipped, leaves what would be there
// without it.
func TestSkip(t *testing.T) {
	for _, p := range parts() {
		if later[p.name] {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			for seed := range uint64(6) {
				all := inputs(seed, 50, true)
				for i := range all {
					all[i].tomb = false
				}
				got, n := run(t, p, all, circumstances{cache: int64(seed % 2 * 1000)})
				if len(n) == 0 {
					continue
				}
				want, _ := run(t, p, all, circumstances{cache: 1 << 20, failed: n})
				require.Equal(t, want, got, "seed %d", seed)
			}
		})
	}
}
