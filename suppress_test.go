package tidegate_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// finalCounts counts by window and sends final results to "out".
func finalCounts(b *tidegate.Builder, w tidegate.TimeWindows) {
	b.Stream("in", str, str).GroupByKey("g").WindowedBy(w, tidegate.ByWindow).Count("counts").
		Suppress("final", tidegate.UntilWindowCloses()).
		MapValues(itoa, str).ToStream().Map(windowKey, tidegate.With(str, str)).To("out")
}

// each pipes "key=value@timestamp", and calls after after every record.
func (r *run) each(records string, after func()) {
	r.Helper()
	for _, rec := range strings.Fields(records) {
		var ts int64
		kv, at, _ := strings.Cut(rec, "@")
		_, err := fmt.Sscan(at, &ts)
		require.NoError(r, err)
		k, v, _ := strings.Cut(kv, "=")
		r.in("in", k, v, ts)
		after()
	}
}

func TestSuppressUntilWindowCloses(t *testing.T) {
	for _, how := range []string{"plain", "restarted", "no cache", "repartitioned"} {
		t.Run(how, func(t *testing.T) {
			b := tidegate.NewBuilder()
			in := b.Stream("in", str, str)
			if how == "repartitioned" {
				in = in.Repartition("r")
			}
			in.GroupByKey("g").WindowedBy(tidegate.Tumbling(2*ms).Grace(1*ms), tidegate.ByWindow).Count("counts").
				Suppress("final", tidegate.UntilWindowCloses()).
				MapValues(itoa, str).ToStream().Map(windowKey, tidegate.With(str, str)).To("out")
			r := start(t, b, map[string]int32{"in": 1})
			if how == "no cache" {
				r.d.CacheBytes = 0
			}
			r.each("k1=v@0 k1=v@1 k1=v@2 k1=v@1 k1=v@0 k1=v@5 k1=v@0", func() {
				if how == "restarted" {
					require.NoError(t, r.d.Restart())
				}
			})
			require.Equal(t, "k1[0,2)=4@1 k1[2,4)=1@2", r.out("out"))
			require.Equal(t, int64(1), r.d.Metrics.LateDropped.Load())
		})
	}
}

func TestSuppressSendsEveryWindowThatTimeJumpsOver(t *testing.T) {
	b := tidegate.NewBuilder()
	finalCounts(b, tidegate.Tumbling(10*ms))
	r := start(t, b, map[string]int32{"in": 1})
	r.each("b=v@3 a=v@1 a=v@12", func() {})
	require.Equal(t, "a[0,10)=1@1 b[0,10)=1@3", r.out("out"), "ordered by time, then by key")
	require.NoError(t, r.d.Restart())
	r.each("a=v@1000000", func() {})
	require.Equal(t, "a[10,20)=1@12", r.out("out"))
	// Time moves without a record of this task.
	require.NoError(t, r.d.Advance(2_000_000))
	require.Equal(t, "a[1000000,1000010)=1@1000000", r.out("out"))
}

func TestSuppressOfExtremeTimes(t *testing.T) {
	// Sources and sinks refuse timestamps outside of these.
	const last = math.MaxInt64 / int64(time.Millisecond)
	b := tidegate.NewBuilder()
	finalCounts(b, tidegate.Tumbling(10*ms))
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "a", "v", 0)
	r.in("in", "a", "v", last)
	require.Equal(t, "a[0,10)=1@0", r.out("out"))
	require.NoError(t, r.d.Restart())
	r.in("in", "a", "v", last)
	require.Empty(t, r.out("out"), "the last window of all time never closes")

	b = tidegate.NewBuilder()
	b.Table("in", "t", str, str).Suppress("s", tidegate.UntilTimeLimit(time.Duration(last)*ms)).ToStream().To("out")
	r = start(t, b, map[string]int32{"in": 1})
	r.in("in", "a", "v", 0)
	r.in("in", "b", "v", last)
	require.Equal(t, "a=v@0", r.out("out"))
}

func TestSuppressDropsRowsThatAreNotThereWhenTheirWindowCloses(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("g").WindowedBy(tidegate.Tumbling(10*ms), tidegate.ByWindow).Count("counts").
		Filter(func(_ tidegate.Windowed[string], n int64) bool { return n != 2 }).
		Suppress("final", tidegate.UntilWindowCloses()).
		MapValues(itoa, str).ToStream().Map(windowKey, tidegate.With(str, str)).To("out")
	r := start(t, b, map[string]int32{"in": 1})
	r.each("one=v@1 two=v@2 two=v@3 three=v@4 three=v@5 three=v@6 x=v@20", func() {})
	require.Equal(t, "one[0,10)=1@1 three[0,10)=3@6", r.out("out"))
	require.Zero(t, r.d.Metrics.NullDropped.Load(), "no tombstone reached Map")
}

// calm is a table that is sent when it was calm, with old values behind it.
func calm(b *tidegate.Builder, until tidegate.Suppression) *tidegate.Table[string, string] {
	return b.Table("in", "t", str, str).Suppress("s", until)
}

func TestSuppressUntilTimeLimit(t *testing.T) {
	for _, how := range []string{"plain", "restarted", "no cache"} {
		t.Run(how, func(t *testing.T) {
			b := tidegate.NewBuilder()
			calm(b, tidegate.UntilTimeLimit(10*ms)).ToStream().To("out")
			r := start(t, b, map[string]int32{"in": 1})
			if how == "no cache" {
				r.d.CacheBytes = 0
			}
			after := func() {
				if how == "restarted" {
					require.NoError(t, r.d.Restart())
				}
			}
			r.each("b=1@2 a=1@2 c=1@5 b=2@8", after)
			require.Empty(t, r.out("out"))
			r.each("b=3@12", after)
			// The time counts from the first update; the one that makes it due
			// belongs to it.
			require.Equal(t, "a=1@2 b=3@12", r.out("out"))
			r.each("b=4@13 c=null@14 d=1@20", after)
			require.Equal(t, "c=null@14", r.out("out"))
			r.each("x=1@23", after)
			require.Equal(t, "b=4@13", r.out("out"))
			// An update that is older than the limit goes at once.
			r.each("y=1@3", after)
			require.Equal(t, "y=1@3", r.out("out"))
		})
	}
}

func TestSuppressKeepsHeaders(t *testing.T) {
	b := tidegate.NewBuilder()
	calm(b, tidegate.UntilTimeLimit(10*ms)).ToStream().To("out")
	r := start(t, b, map[string]int32{"in": 1})
	r.in("in", "a", "1", 0, record.Header{Key: "h", Value: []byte("x")}, record.Header{Key: "nil"}, record.Header{Key: "", Value: []byte{}})
	require.NoError(t, r.d.Restart())
	r.in("in", "b", "1", 10)
	out := r.d.Take("out")
	require.Len(t, out, 1)
	require.Equal(t, record.Headers{{Key: "h", Value: []byte("x")}, {Key: "nil"}, {Key: "", Value: []byte{}}}, out[0].Headers)
}

// TestSuppressSendsTheValueBefore: a step behind that needs old values sees what
// was sent before, not what was held back.
func TestSuppressSendsTheValueBefore(t *testing.T) {
	b := tidegate.NewBuilder()
	passes := func(_, v string) bool { return strings.HasPrefix(v, "+") }
	// The second suppression wants old values of the filter, and so of the first.
	calm(b, tidegate.UntilTimeLimit(10*ms)).Filter(passes).
		Suppress("again", tidegate.UntilTimeLimit(0)).ToStream().To("out")
	r := start(t, b, map[string]int32{"in": 1})
	after := func() { require.NoError(t, r.d.Restart()) }
	r.each("a=-1@0 t=0@10", after)
	require.Empty(t, r.out("out"), "was not in the filtered table and is not now")
	r.each("a=+1@20 a=-2@25 t=0@30", after)
	require.Empty(t, r.out("out"), "the row that was in it between was never sent")
	r.each("a=+3@40 t=0@50", after)
	require.Equal(t, "a=+3@40", r.out("out"))
	r.each("a=+4@60 a=-4@65 t=0@70", after)
	require.Equal(t, "a=null@65", r.out("out"))
}

func TestSuppressedTableIsJoined(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("s", str, str).LeftJoinTable("j", calm(b, tidegate.UntilTimeLimit(10*ms)), func(l string, r tidegate.Opt[string]) string {
		return l + "-" + r.Or("none")
	}, str).To("out")
	r := start(t, b, map[string]int32{"in": 1, "s": 1})
	require.NoError(t, r.d.Start())
	look := func(want string) {
		t.Helper()
		require.NoError(t, r.d.Restart())
		r.in("s", "a", "?", 0)
		require.Equal(t, want, r.out("out"))
	}
	look("a=?-none@0")
	r.in("in", "a", "1", 1)
	look("a=?-none@0")
	r.in("in", "x", "1", 11)
	look("a=?-1@0")
	r.in("in", "a", "2", 12)
	look("a=?-1@0")
	r.in("in", "a", "null", 13)
	look("a=?-1@0")
	r.in("in", "x", "1", 30)
	look("a=?-none@0")
}

func TestSuppressEmitsEarlyWhenFull(t *testing.T) {
	for _, until := range []tidegate.Suppression{
		tidegate.UntilTimeLimit(100 * ms).MaxRecords(2).WhenFull(tidegate.EmitEarly),
		// A row of this test takes 1 byte of key, 18 of head, 2 of value.
		tidegate.UntilTimeLimit(100 * ms).MaxBytes(2 * 21).WhenFull(tidegate.EmitEarly),
	} {
		b := tidegate.NewBuilder()
		calm(b, until).ToStream().To("out")
		r := start(t, b, map[string]int32{"in": 1})
		after := func() { require.NoError(t, r.d.Restart()) }
		r.each("b=11@2 a=11@1 b=22@3", after)
		require.Empty(t, r.out("out"))
		r.each("c=11@4", after)
		require.Equal(t, "a=11@1", r.out("out"), "the oldest goes")
		r.each("d=11@0", after)
		require.Equal(t, "d=11@0", r.out("out"), "also when it is the newest to come")
		r.each("e=11@103", after)
		require.Equal(t, "b=22@3", r.out("out"))
		r.each("e=11@104", after)
		require.Equal(t, "c=11@4", r.out("out"))
		r.each("f=11@105", after)
		require.Empty(t, r.out("out"), "the buffer has room again")
	}
}

func TestSuppressShutsDownWhenFull(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("g").WindowedBy(tidegate.Tumbling(10*ms), tidegate.ByWindow).Count("counts").
		Suppress("final", tidegate.UntilWindowCloses().MaxRecords(2).WhenFull(tidegate.ShutDown)).
		MapValues(itoa, str).ToStream().Map(windowKey, tidegate.With(str, str)).To("out")
	r := start(t, b, map[string]int32{"in": 1})
	r.d.Skip = func(*operators.RecordError) bool { return true }
	r.each("a=v@1 a=v@2 b=v@3 c=v@11", func() { require.NoError(t, r.d.Restart()) })
	require.Equal(t, "a[0,10)=2@2 b[0,10)=1@3", r.out("out"))
	r.in("in", "d", "v", 12)
	err := r.pipe("in", "e", "v", 13)
	require.ErrorIs(t, err, tidegate.ErrSuppressFull)
	require.ErrorContains(t, err, `step "suppress-until-closed final"`)
	require.ErrorContains(t, err, "3 records")
}

func TestSuppressCoalescesBehindARepartition(t *testing.T) {
	// Stream time there is the smallest of the upstream tasks' (R13): updates
	// wait for the slower one.
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).Repartition("r", tidegate.Partitions(1)).ToTable("t").
		Suppress("s", tidegate.UntilTimeLimit(0)).ToStream().To("out")
	r := start(t, b, map[string]int32{"in": 2})
	require.NoError(t, r.d.PipeTo(harness.Record{Topic: "in", Partition: 0, Key: []byte("a"), Value: []byte("1"), Timestamp: 10}))
	require.NoError(t, r.d.PipeTo(harness.Record{Topic: "in", Partition: 0, Key: []byte("a"), Value: []byte("2"), Timestamp: 20}))
	require.Empty(t, r.out("out"))
	require.NoError(t, r.d.PipeTo(harness.Record{Topic: "in", Partition: 1, Key: []byte("b"), Value: []byte("1"), Timestamp: 12}))
	require.Equal(t, "a=2@20 b=1@12", r.out("out"), "due since 10, with the newest value")
	require.NoError(t, r.d.PipeTo(harness.Record{Topic: "in", Partition: 1, Key: []byte("b"), Value: []byte("2"), Timestamp: 13}))
	require.Equal(t, "b=2@13", r.out("out"))
}

func TestSuppressGoesOnBehindABadRow(t *testing.T) {
	for _, bad := range []string{"panic", "error"} {
		t.Run(bad, func(t *testing.T) {
			b := tidegate.NewBuilder()
			calm(b, tidegate.UntilTimeLimit(10*ms)).ToStream().
				PeekCtx(func(_ *tidegate.RecordContext, k, _ string) error {
					switch {
					case k != "b":
						return nil
					case bad == "panic":
						panic("bad row")
					}
					return fmt.Errorf("bad row")
				}).To("out")
			r := start(t, b, map[string]int32{"in": 1})
			r.d.Skip = func(*operators.RecordError) bool { return true }
			r.each("a=1@0 b=1@0 c=1@0 t=1@10 u=1@11", func() {})
			require.Equal(t, "a=1@0 c=1@0", r.out("out"))
			require.Len(t, r.d.Skipped, 1)
		})
	}
}

// TestSuppressSendsWhatWasPut: an aggregator that changes its aggregate and then
// fails does not change what is held back.
func TestSuppressSendsWhatWasPut(t *testing.T) {
	type list struct{ Items []string }
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("g").WindowedBy(tidegate.Tumbling(10*ms), tidegate.ByWindow).
		Aggregate("lists", func() *list { return &list{} }, func(_, v string, l *list) *list {
			l.Items = append(l.Items, v)
			l.Items[0] = v
			if v == "bad" {
				panic(v)
			}
			return l
		}, serde.JSON[*list]()).
		Suppress("final", tidegate.UntilWindowCloses()).
		MapValues(func(l *list) string { return strings.Join(l.Items, "+") }, str).
		ToStream().Map(windowKey, tidegate.With(str, str)).To("out")
	r := start(t, b, map[string]int32{"in": 1})
	r.d.Skip = func(*operators.RecordError) bool { return true }
	r.each("a=1@1 a=2@2 a=bad@3 b=1@20", func() {})
	require.Equal(t, "a[0,10)=2+2@2", r.out("out"))
}

func TestSuppressMistakes(t *testing.T) {
	windows := func(b *tidegate.Builder) *tidegate.Table[tidegate.Windowed[string], int64] {
		return b.Stream("in", str, str).GroupByKey("g").WindowedBy(tidegate.Tumbling(10*ms), tidegate.ByWindow).Count("counts")
	}
	plain := func(u tidegate.Suppression) func(*tidegate.Builder) {
		return func(b *tidegate.Builder) { b.Table("in", "t", str, str).Suppress("s", u) }
	}
	limit := tidegate.UntilTimeLimit(time.Second)
	for name, c := range map[string]struct {
		describe func(*tidegate.Builder)
		want     string
	}{
		"not windowed": {plain(tidegate.UntilWindowCloses()), "UntilWindowCloses needs a table whose keys are windows"},
		"negative":     {plain(tidegate.UntilTimeLimit(-1)), "the limit must not be negative"},
		"fraction":     {plain(tidegate.UntilTimeLimit(1)), "whole milliseconds"},
		"records":      {plain(limit.MaxRecords(0).WhenFull(tidegate.EmitEarly)), "must be positive"},
		"bytes":        {plain(limit.MaxBytes(-1).WhenFull(tidegate.EmitEarly)), "must be positive"},
		"no when":      {plain(limit.MaxBytes(1)), "need WhenFull"},
		"no bound":     {plain(limit.WhenFull(tidegate.ShutDown)), "needs a bound"},
		"unknown":      {plain(limit.MaxRecords(1).WhenFull(9)), "WhenFull takes"},
		"early final": {func(b *tidegate.Builder) {
			windows(b).Suppress("s", tidegate.UntilWindowCloses().MaxRecords(1).WhenFull(tidegate.EmitEarly))
		}, "contradicts UntilWindowCloses"},
		"name": {func(b *tidegate.Builder) {
			windows(b).Suppress("counts", tidegate.UntilWindowCloses())
		}, `store name "counts" is already used`},
		"serde": {func(b *tidegate.Builder) {
			windows(b).MapValues(func(n int64) string { return "" }).Suppress("s", tidegate.UntilWindowCloses())
		}, "MapValues changes the value to string"},
	} {
		t.Run(name, func(t *testing.T) {
			b := tidegate.NewBuilder()
			c.describe(b)
			_, err := b.Build()
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "suppress_test.go:")
		})
	}
}
