package tidegate_test

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// run is a topology in the test driver, with strings in and strings out.
type run struct {
	*testing.T
	d *harness.Driver
}

func start(t *testing.T, b *tidegate.Builder, partitions map[string]int32) *run {
	t.Helper()
	top, err := b.Build()
	require.NoError(t, err)
	d, err := harness.New(top.Graph(), partitions, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return &run{t, d}
}

// in pipes key=value@timestamp; "null" is null.
func (r *run) in(topic, key, value string, ts int64, h ...record.Header) {
	r.Helper()
	require.NoError(r, r.pipe(topic, key, value, ts, h...))
}

func (r *run) pipe(topic, key, value string, ts int64, h ...record.Header) error {
	rec := harness.Record{Topic: topic, Key: []byte(key), Value: []byte(value), Timestamp: ts, Headers: h}
	if key == "null" {
		rec.Key = nil
	}
	if value == "null" {
		rec.Value = nil
	}
	return r.d.Pipe(rec)
}

// out renders what a topic got as "key=value@timestamp", joined by spaces.
func (r *run) out(topic string) string {
	var parts []string
	for _, rec := range r.d.Take(topic) {
		parts = append(parts, fmt.Sprintf("%s=%s@%d", text(rec.Key), text(rec.Value), rec.Timestamp))
	}
	return strings.Join(parts, " ")
}

func text(b []byte) string {
	if b == nil {
		return "null"
	}
	return string(b)
}

var str = serde.String()

func itoa(n int64) string { return fmt.Sprint(n) }

func windowKey(w tidegate.Windowed[string], v string) (string, string) {
	return fmt.Sprintf("%s[%d,%d)", w.Key, w.Start, w.End), v
}

func TestStatelessSteps(t *testing.T) {
	b := tidegate.NewBuilder()
	var peeked, ended []string
	s := b.Stream("in", str, str).
		Filter(func(_, v string) bool { return v != "drop" }).
		FilterNot(func(_, v string) bool { return v == "no" }).
		Peek(func(k, v string) { peeked = append(peeked, k+v) }).
		MapValues(func(v string) string { return v + v }, str)
	s.To("values")
	s.Map(func(k, v string) (string, string) { return v, k }, tidegate.With(str, str)).To("mapped")
	s.SelectKey(func(k, v string) string { return "k" + k }, str).To("keyed")
	s.FlatMap(func(k, v string) iter.Seq2[string, string] {
		return func(yield func(string, string) bool) { _ = yield(k+"1", v) && yield(k+"2", v) }
	}, tidegate.With(str, str)).To("flat")
	s.FlatMapValues(func(v string) iter.Seq[string] {
		return slices.Values([]string{v + "x", v + "y"})
	}, str).To("flat-values")
	s.Merge(b.Stream("other", str, str)).To("merged")
	s.ForEach(func(k, v string) { ended = append(ended, k+v) })
	r := start(t, b, map[string]int32{"in": 1, "other": 1})

	r.in("in", "a", "v", 1)
	r.in("in", "a", "drop", 2)
	r.in("in", "a", "no", 3)
	r.in("other", "b", "w", 4)
	require.Equal(t, "a=vv@1", r.out("values"))
	require.Equal(t, "vv=a@1", r.out("mapped"))
	require.Equal(t, "ka=vv@1", r.out("keyed"))
	require.Equal(t, "a1=vv@1 a2=vv@1", r.out("flat"))
	require.Equal(t, "a=vvx@1 a=vvy@1", r.out("flat-values"))
	require.Equal(t, "a=vv@1 b=w@4", r.out("merged"))
	require.Equal(t, []string{"av"}, peeked)
	require.Equal(t, []string{"avv"}, ended)

	// A tombstone passes what keeps the key, and no function sees it.
	r.in("in", "a", "null", 5)
	require.Equal(t, "a=null@5", r.out("values"))
	require.Equal(t, "a=null@5", r.out("flat-values"))
	require.Equal(t, "a=null@5", r.out("merged"))
	require.Empty(t, r.out("mapped")+r.out("keyed")+r.out("flat"))
	require.Equal(t, int64(3), r.d.Metrics.NullDropped.Load())
	require.Len(t, peeked, 1)
	require.Len(t, ended, 1)

	// A null key goes along where the key is kept.
	r.in("in", "null", "n", 6)
	require.Equal(t, "null=nn@6", r.out("values"))
	require.Equal(t, "k=nn@6", r.out("keyed"))
}

func TestSplit(t *testing.T) {
	b := tidegate.NewBuilder()
	sp := b.Stream("in", str, str).Split()
	sp.Default().To("rest")
	sp.Branch("a", func(_, v string) bool { return v[0] == 'a' }).To("as")
	sp.Branch("ab", func(_, v string) bool { return v[:2] == "ab" || v[0] == 'b' }).To("bs")
	r := start(t, b, map[string]int32{"in": 1})
	for i, v := range []string{"ab", "bb", "cc", "null"} {
		r.in("in", "k", v, int64(i))
	}
	require.Equal(t, "k=ab@0 k=null@3", r.out("as"))
	require.Equal(t, "k=bb@1 k=null@3", r.out("bs"))
	require.Equal(t, "k=cc@2 k=null@3", r.out("rest"))
}

func TestHeadersPropagate(t *testing.T) {
	b := tidegate.NewBuilder()
	s := b.Stream("in", str, str)
	s.MapValuesCtx(func(c *tidegate.RecordContext, _, v string) (string, error) {
		c.Headers = c.Headers.With("step", []byte("map"))
		return v, nil
	}, str).GroupBy("by-value", func(_, v string) string { return v }, str).
		Count("counts").ToStream().MapValues(itoa, str).To("out")
	s.To("copy")
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "a", "v", 1, record.Header{Key: "trace", Value: []byte("x")})

	out := r.d.Take("out")
	require.Len(t, out, 1)
	require.Equal(t, record.Headers{{Key: "trace", Value: []byte("x")}, {Key: "step", Value: []byte("map")}}, out[0].Headers)
	require.Equal(t, record.Headers{{Key: "trace", Value: []byte("x")}}, r.d.Take("copy")[0].Headers,
		"a header set in one branch must not show in its sibling")
}

func TestAggregations(t *testing.T) {
	b := tidegate.NewBuilder()
	g := b.Stream("in", str, str).GroupByKey("g")
	g.Count("n").ToStream().MapValues(itoa, str).To("counts")
	g.Reduce("last-two", func(a, v string) string { return a[max(0, len(a)-1):] + v }).ToStream().To("reduced")
	g.Aggregate("all", func() string { return "0" }, func(k, v, a string) string { return a + "+" + v }, str).
		ToStream().To("folded")
	g.Aggregate("until-stop", tidegate.None[string], func(_, v string, a tidegate.Opt[string]) tidegate.Opt[string] {
		if v == "stop" {
			return tidegate.None[string]()
		}
		return tidegate.Some(a.Or("") + v)
	}, serde.Nullable(str)).ToStream().To("deleting")
	r := start(t, b, map[string]int32{"in": 2})

	r.in("in", "a", "1", 10)
	r.in("in", "a", "2", 5)
	r.in("in", "b", "3", 20)
	r.in("in", "a", "null", 30)
	r.in("in", "null", "x", 31)
	r.in("in", "a", "stop", 40)
	require.NoError(t, r.d.Restart())
	r.in("in", "a", "4", 50)

	require.Equal(t, "a=1@10 a=2@10 b=1@20 a=3@40 a=4@50", r.out("counts"))
	require.Equal(t, "a=1@10 a=12@10 b=3@20 a=2stop@40 a=p4@50", r.out("reduced"))
	require.Equal(t, "a=0+1@10 a=0+1+2@10 b=0+3@20 a=0+1+2+stop@40 a=0+1+2+stop+4@50", r.out("folded"))
	require.Equal(t, "a=1@10 a=12@10 b=3@20 a=null@40 a=4@50", r.out("deleting"))
	require.Equal(t, int64(8), r.d.Metrics.NullDropped.Load(), "two nulls in each of four steps")
}

func TestRepartitionedCount(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).
		GroupBy("by-value", func(_, v string) string { return v }, str).
		Count("counts").ToStream().MapValues(itoa, str).To("out")
	r := start(t, b, map[string]int32{"in": 3})
	for i := range 300 {
		r.in("in", fmt.Sprint("k", i), fmt.Sprint("v", i%7), int64(i))
	}
	lines := strings.Split(r.out("out"), " ")
	require.Len(t, lines, 300)
	require.Contains(t, lines, "v6=42@293")
	require.Contains(t, lines, "v0=43@294")
}

func TestTables(t *testing.T) {
	b := tidegate.NewBuilder()
	tab := b.Table("rows", "rows", str, str)
	tab.ToStream().To("changes")
	view := tab.Filter(func(_, v string) bool { return v[0] == 'x' }).MapValues(strings.ToUpper, str)
	view.ToStream().To("views")
	keyed := b.Stream("in", str, str).SelectKey(func(_, v string) string { return v }, str).ToTable("last")
	keyed.ToStream().To("lasts")
	b.Stream("ask", str, str).LeftJoinTable("ask-rows", view, func(q string, v tidegate.Opt[string]) string {
		return q + v.Or("-")
	}, str).To("answers")
	r := start(t, b, map[string]int32{"rows": 2, "in": 2, "ask": 2})

	r.in("rows", "a", "x1", 1)
	r.in("rows", "a", "y1", 2)
	r.in("rows", "null", "y1", 2)
	r.in("ask", "a", "?", 3)
	r.in("rows", "a", "x2", 3)
	r.in("ask", "a", "?", 4)
	r.in("rows", "a", "null", 5)
	r.in("ask", "a", "?", 6)
	require.Equal(t, "a=x1@1 a=y1@2 a=x2@3 a=null@5", r.out("changes"))
	require.Equal(t, "a=X1@1 a=null@2 a=X2@3 a=null@5", r.out("views"))
	require.Equal(t, "a=?-@3 a=?X2@4 a=?-@6", r.out("answers"))
	r.in("in", "k", "v", 7)
	require.Equal(t, "v=v@7", r.out("lasts"))
}

// in2 is the late-data input of the join cases.
var in2 = []struct {
	side, value string
	ts          int64
}{
	{"L", "null", 1}, {"R", "null", 2}, {"L", "A", 3}, {"R", "a", 4}, {"L", "B", 5}, {"R", "b", 6},
	{"L", "null", 7}, {"R", "null", 8}, {"L", "C", 9}, {"R", "c", 10}, {"R", "null", 11}, {"L", "null", 12},
	{"R", "null", 13}, {"R", "d", 7}, {"L", "D", 6}, {"L", "null", 2}, {"R", "null", 3}, {"R", "e", 14},
	{"L", "E", 15}, {"L", "null", 10}, {"R", "null", 9}, {"L", "F", 4}, {"R", "f", 3},
}

func TestStreamTableJoin(t *testing.T) {
	for _, rekey := range []bool{false, true} {
		t.Run(fmt.Sprint("repartitioned=", rekey), func(t *testing.T) {
			b := tidegate.NewBuilder()
			l := b.Stream("L", str, str)
			if rekey {
				l = l.SelectKey(func(k, _ string) string { return k }, str)
			}
			tab := b.Table("R", "right", str, str)
			l.JoinTable("inner", tab, func(l, r string) string { return l + "-" + r }, str).To("inner")
			l.LeftJoinTable("left", tab, func(l string, r tidegate.Opt[string]) string { return l + "-" + r.Or("null") }, str).To("left")
			r := start(t, b, map[string]int32{"L": 2, "R": 2})
			inner, left := map[int]string{}, map[int]string{}
			for i, x := range in2 {
				r.in(x.side, "k", x.value, x.ts)
				if out := r.out("inner"); out != "" {
					inner[i+1] = out
				}
				if out := r.out("left"); out != "" {
					left[i+1] = out
				}
			}
			require.Equal(t, map[int]string{5: "k=B-a@5", 15: "k=D-d@6", 19: "k=E-e@15"}, inner)
			require.Equal(t, map[int]string{
				3: "k=A-null@3", 5: "k=B-a@5", 9: "k=C-null@9", 15: "k=D-d@6", 19: "k=E-e@15", 22: "k=F-null@4",
			}, left)
		})
	}
}

func TestLeftJoinKeepsNullKeys(t *testing.T) {
	b := tidegate.NewBuilder()
	tab := b.Table("R", "right", str, str)
	b.Stream("L", str, str).LeftJoinTable("left", tab, func(l string, r tidegate.Opt[string]) string {
		return l + r.Or("-")
	}, str).To("out")
	r := start(t, b, map[string]int32{"L": 1, "R": 1})
	r.in("L", "null", "x", 1)
	require.Equal(t, "null=x-@1", r.out("out"))
}

func TestTumblingUpdates(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("g").
		WindowedBy(tidegate.Tumbling(2*ms).Grace(1*ms), tidegate.ByWindow).
		Count("n").ToStream().MapValues(itoa, str).
		Map(windowKey, tidegate.With(str, str)).To("out")
	r := start(t, b, map[string]int32{"in": 1})
	for _, ts := range []int64{0, 1, 2, 1, 0, 5, 0} {
		r.in("in", "k1", "v", ts)
	}
	require.Equal(t, "k1[0,2)=1@0 k1[0,2)=2@1 k1[2,4)=1@2 k1[0,2)=3@1 k1[0,2)=4@1 k1[4,6)=1@5", r.out("out"))
	require.Equal(t, int64(1), r.d.Metrics.LateDropped.Load())
}

func TestLateRecordsAreCounted(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("g").
		WindowedBy(tidegate.Tumbling(10*ms).Grace(90*ms), tidegate.ByWindow).
		Count("n").ToStream().MapValues(itoa, str).
		Map(windowKey, tidegate.With(str, str)).To("out")
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "k", "100", 200)
	r.in("in", "k", "0", 100)
	for ts := int64(101); ts <= 105; ts++ {
		r.in("in", "k", "v", ts)
	}
	r.in("in", "k", "6", 6)
	require.Equal(t, "k[200,210)=1@200", r.out("out"))
	require.Equal(t, int64(7), r.d.Metrics.LateDropped.Load())
	require.Equal(t, int64(194), r.d.Metrics.MaxLatenessMs.Load())
}

func TestWindowsExpire(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("g").
		WindowedBy(tidegate.Tumbling(10*ms).Grace(5*ms), tidegate.ByWindow).
		Reduce("last", func(_, v string) string { return v }).ToStream().
		Map(windowKey, tidegate.With(str, str)).To("out")
	r := start(t, b, map[string]int32{"in": 1})
	for ts := range int64(1000) {
		r.in("in", "k", "v", ts)
	}
	require.NoError(t, r.d.Flush())
	kv, err := r.d.Engine(r.d.Resolved().Tasks()[0]).Store("last")
	require.NoError(t, err)
	n := 0
	it := kv.Scan(nil, nil, false)
	for it.Next() {
		n++
	}
	require.NoError(t, it.Close())
	require.Equal(t, 1, n, "only [990,1000) is open at 999")
}

func TestWindowedTopicFormat(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("g").
		WindowedBy(tidegate.Tumbling(10*ms), tidegate.ByWindow).
		Count("n").ToStream().To("out")
	r := start(t, b, map[string]int32{"in": 4})
	r.in("in", "k", "v", 25)
	out := r.d.Take("out")
	require.Len(t, out, 1)
	require.Equal(t, append([]byte("k"), 0, 0, 0, 0, 0, 0, 0, 20), out[0].Key)
	require.True(t, bytes.HasSuffix(out[0].Value, []byte{1}))
	r.in("in", "k", "v", 35)
	require.Equal(t, out[0].Partition, r.d.Take("out")[0].Partition, "partitioned by the inner key")
}

// Windows of windows: a user's own helper, and the key a Window.
func perWindow[K, V any](s *tidegate.Stream[K, V], name string) *tidegate.Table[tidegate.Windowed[K], int64] {
	return s.GroupByKey(name).WindowedBy(tidegate.Tumbling(10*ms), tidegate.ByWindow).Count(name)
}

func TestWindowsOfWindows(t *testing.T) {
	b := tidegate.NewBuilder()
	perWindow(b.Stream("in", str, str), "first").ToStream().
		GroupBy("by-window", func(w tidegate.Windowed[string], _ int64) tidegate.Window { return w.Window }, serde.JSON[tidegate.Window]()).
		WindowedBy(tidegate.Tumbling(10*ms), tidegate.ByWindow).
		Aggregate("max", func() int64 { return 0 }, func(_ tidegate.Window, n, a int64) int64 { return max(n, a) }, serde.Int64()).
		ToStream().
		Map(func(w tidegate.Windowed[tidegate.Window], n int64) (string, string) {
			return itoa(w.Key.Start), itoa(n)
		}, tidegate.With(str, str)).
		To("out")
	r := start(t, b, map[string]int32{"in": 2})
	for i := range 6 {
		r.in("in", fmt.Sprint("k", i%2), "v", int64(i))
	}
	require.Contains(t, r.out("out"), "0=3@5")
}

func TestNullableShowsTombstones(t *testing.T) {
	b := tidegate.NewBuilder()
	opt := serde.Nullable(str)
	s := b.Stream("in", str, opt)
	s.MapValues(func(v tidegate.Opt[string]) string { return v.Or("gone") }, str).To("seen")
	s.MapValues(func(v tidegate.Opt[string]) tidegate.Opt[string] { return v }, opt).To("same")
	s.GroupByKey("g").Count("n").ToStream().MapValues(itoa, str).To("counts")
	b.Table("rows", "rows", str, opt).ToStream().
		MapValues(func(v tidegate.Opt[string]) string { return v.Or("gone") }, str).To("rows-seen")
	r := start(t, b, map[string]int32{"in": 1, "rows": 1})
	r.in("in", "a", "v", 1)
	r.in("in", "a", "null", 2)
	r.in("rows", "a", "v", 1)
	r.in("rows", "a", "null", 2)
	require.Equal(t, "a=v@1 a=gone@2", r.out("seen"))
	require.Equal(t, "a=v@1 a=null@2", r.out("same"))
	require.Equal(t, "a=1@1", r.out("counts"))
	require.Equal(t, "a=v@1 a=gone@2", r.out("rows-seen"))
}

// The driver overwrites its buffers, as a task does: nothing in a store may
// alias them.
func TestStoresOwnTheirBytes(t *testing.T) {
	b := tidegate.NewBuilder()
	raw := serde.Bytes()
	s := b.Stream("in", raw, raw)
	s.GroupByKey("g").Reduce("joined", func(a, v []byte) []byte { return append(append(a, '+'), v...) }).ToStream().To("joined")
	s.GroupByKey("h").Aggregate("first", tidegate.None[[]byte], func(_, v []byte, a tidegate.Opt[[]byte]) tidegate.Opt[[]byte] {
		if a.IsSome() {
			return a
		}
		return tidegate.Some(v)
	}, serde.Nullable(raw)).ToStream().To("first")
	tab := b.Table("rows", "rows", raw, raw)
	s.JoinTable("j", tab, func(_, row []byte) []byte { return row }, raw).To("rows-seen")
	r := start(t, b, map[string]int32{"in": 1, "rows": 1})
	r.in("rows", "k", "row", 0)
	for i, v := range []string{"a", "b", "c"} {
		r.in("in", "k", v, int64(i))
		if i == 1 {
			require.NoError(t, r.d.Restart())
		}
	}
	require.Equal(t, "k=a@0 k=a+b@1 k=a+b+c@2", r.out("joined"))
	require.Equal(t, "k=a@0 k=a@1 k=a@2", r.out("first"))
	require.Equal(t, "k=row@0 k=row@1 k=row@2", r.out("rows-seen"))
}

func TestDynamicTopics(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).ToDynamic(func(c *tidegate.RecordContext, _, v string) string { return "out-" + v })
	r := start(t, b, map[string]int32{"in": 1, "out-a": 1, "out-b": 3})
	r.in("in", "k", "a", 1)
	r.in("in", "k", "b", 2)
	r.in("in", "k", "null", 3)
	require.Equal(t, "k=a@1", r.out("out-a"))
	require.Equal(t, "k=b@2", r.out("out-b"))
	require.Equal(t, int64(1), r.d.Metrics.NullDropped.Load())
	err := r.pipe("in", "k", "zzz", 1)
	require.ErrorContains(t, err, `open topic "out-zzz"`)
	require.ErrorContains(t, err, "in-0@3")
}

func TestCustomPartitioner(t *testing.T) {
	b := tidegate.NewBuilder()
	first := tidegate.PartitionBy(func(k string, n int32) int32 { return int32(k[0]-'a') % n })
	b.Stream("in", str, str).Repartition("again", tidegate.Partitions(3), first).To("out", first)
	r := start(t, b, map[string]int32{"in": 1, "out": 2})
	require.Equal(t, int32(3), r.d.Resolved().TaskCount(1))
	for _, k := range []string{"a", "b", "c"} {
		r.in("in", k, "v", 1)
	}
	var got []int32
	for _, rec := range r.d.Take("out") {
		got = append(got, rec.Partition)
	}
	require.Equal(t, []int32{0, 1, 0}, got)
}
