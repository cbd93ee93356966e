package tidegatetest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

const ms = time.Millisecond

var str = serde.String()

func build(t *testing.T, b *tidegate.Builder) *tidegate.Topology {
	t.Helper()
	top, err := b.Build()
	require.NoError(t, err)
	return top
}

// lines renders records as "key=value@timestamp".
func lines[K, V any](out *tidegatetest.Output[K, V]) []string {
	var all []string
	for _, r := range out.ReadAll() {
		k, v := fmt.Sprint(r.Key), fmt.Sprint(r.Value)
		if r.NullKey {
			k = "null"
		}
		if r.Tombstone {
			v = "null"
		}
		all = append(all, fmt.Sprintf("%s=%s@%d", k, v, r.Timestamp))
	}
	return all
}

// counted is a topology that counts in windows what goes through a repartition
// topic, if asked to.
func counted(w tidegate.TimeWindows, size time.Duration, rekey bool) (*tidegate.Builder, serde.Serde[tidegate.Windowed[string]]) {
	b := tidegate.NewBuilder()
	s := b.Stream("in", str, str)
	if rekey {
		s = s.SelectKey(func(k, _ string) string { return k }, str)
	}
	s.GroupByKey("g").WindowedBy(w, tidegate.ByWindow).Count("n").ToStream().To("out")
	return b, serde.Windowed(str, size)
}

func windowLines(out *tidegatetest.Output[tidegate.Windowed[string], int64]) []string {
	var all []string
	for _, r := range out.ReadAll() {
		all = append(all, fmt.Sprintf("%s[%d,%d)=%d@%d", r.Key.Key, r.Key.Start, r.Key.End, r.Value, r.Timestamp))
	}
	return all
}

func TestTumblingWindows(t *testing.T) {
	for _, rekey := range []bool{false, true} {
		b, wk := counted(tidegate.Tumbling(2*ms).Grace(1*ms), 2*ms, rekey)
		d := tidegatetest.New(t, build(t, b))
		in, out := d.Input("in", str, str), d.Output("out", wk, serde.Int64())
		for _, ts := range []int64{0, 1, 2, 1, 0, 5, 0} {
			in.Pipe("k1", "v", tidegatetest.At(ts))
		}
		require.Equal(t, []string{
			"k1[0,2)=1@0", "k1[0,2)=2@1", "k1[2,4)=1@2", "k1[0,2)=3@1", "k1[0,2)=4@1", "k1[4,6)=1@5",
		}, windowLines(out))
		require.Equal(t, int64(1), d.Late())
		require.Equal(t, []tidegatetest.KeyValue[tidegate.Windowed[string], int64]{
			tidegatetest.KV(tidegate.Windowed[string]{Key: "k1", Window: tidegate.Window{Start: 4, End: 6}}, int64(1)),
		}, d.WindowStore("n", str, serde.Int64()).All(), "closed windows are gone")
	}
}

func TestLateRecords(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b, wk := counted(tidegate.Tumbling(10*ms).Grace(90*ms), 10*ms, restart)
		d := tidegatetest.New(t, build(t, b))
		in, out := d.Input("in", str, str), d.Output("out", wk, serde.Int64())
		for _, ts := range []int64{200, 100, 101, 102, 103, 104, 105, 6} {
			in.Pipe("k", "v", tidegatetest.At(ts))
			if restart { // stream time survives
				d.Restart()
			}
		}
		require.Equal(t, []string{"k[200,210)=1@200"}, windowLines(out))
		require.Equal(t, int64(7), d.Late())
		require.Equal(t, 194*ms, d.MaxLateness())
		at, ok := d.WindowStore("n", str, serde.Int64()).UpdatedAt("k", 200)
		require.True(t, ok)
		require.Equal(t, int64(200), at)
	}
}

func TestStreamTableJoin(t *testing.T) {
	in2 := []struct {
		side, value string
		ts          int64
	}{
		{"L", "", 1}, {"R", "", 2}, {"L", "A", 3}, {"R", "a", 4}, {"L", "B", 5}, {"R", "b", 6},
		{"L", "", 7}, {"R", "", 8}, {"L", "C", 9}, {"R", "c", 10}, {"R", "", 11}, {"L", "", 12},
		{"R", "", 13}, {"R", "d", 7}, {"L", "D", 6}, {"L", "", 2}, {"R", "", 3}, {"R", "e", 14},
		{"L", "E", 15}, {"L", "", 10}, {"R", "", 9}, {"L", "F", 4}, {"R", "f", 3},
	}
	b := tidegate.NewBuilder()
	left, tab := b.Stream("L", str, str), b.Table("R", "right", str, str)
	left.JoinTable("inner", tab, func(l, r string) string { return l + "-" + r }, str).To("inner")
	left.LeftJoinTable("left", tab, func(l string, r tidegate.Opt[string]) string { return l + "-" + r.Or("null") }, str).To("left")
	for _, restart := range []bool{false, true} {
		d := tidegatetest.New(t, build(t, b), tidegatetest.WithPartitions(2))
		sides := map[string]*tidegatetest.Input[string, string]{"L": d.Input("L", str, str), "R": d.Input("R", str, str)}
		inner, outer := d.Output("inner", str, str), d.Output("left", str, str)
		gotInner, gotLeft := map[int][]string{}, map[int][]string{}
		for i, x := range in2 {
			opts := []tidegatetest.PipeOption{tidegatetest.At(x.ts)}
			if x.value == "" {
				opts = append(opts, tidegatetest.Tombstone())
			}
			sides[x.side].Pipe("k", x.value, opts...)
			if out := lines(inner); out != nil {
				gotInner[i+1] = out
			}
			if out := lines(outer); out != nil {
				gotLeft[i+1] = out
			}
			if restart {
				d.Restart()
			}
		}
		require.Equal(t, map[int][]string{5: {"k=B-a@5"}, 15: {"k=D-d@6"}, 19: {"k=E-e@15"}}, gotInner)
		require.Equal(t, map[int][]string{
			3: {"k=A-null@3"}, 5: {"k=B-a@5"}, 9: {"k=C-null@9"}, 15: {"k=D-d@6"}, 19: {"k=E-e@15"}, 22: {"k=F-null@4"},
		}, gotLeft)
	}
}

func TestRecordsGoAsTheyArePiped(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, serde.Nullable(str)).To("out")
	start := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	d := tidegatetest.New(t, build(t, b), tidegatetest.WithTopic("in", 4), tidegatetest.WithTopic("out", 4), tidegatetest.WithStart(start))
	in, out := d.Input("in", str, str), d.Output("out", str, serde.Nullable(str))

	in.Pipe("k", "v", tidegatetest.Header("a", []byte("1")), tidegatetest.Header("b", nil), tidegatetest.Header("a", []byte("2")))
	r, ok := out.Read()
	require.True(t, ok)
	require.Equal(t, "k", r.Key)
	require.Equal(t, tidegate.Some("v"), r.Value)
	require.Equal(t, start, r.Time(), "the driver's clock unless At says otherwise")
	require.Equal(t, []string{"a", "b", "a"}, []string{r.Headers[0].Key, r.Headers[1].Key, r.Headers[2].Key})
	last, _ := r.Headers.Last("a")
	require.Equal(t, []byte("2"), last)

	in.Pipe("k", "unused", tidegatetest.Tombstone(), tidegatetest.AtTime(time.UnixMilli(7)))
	in.Pipe("unused", "v", tidegatetest.NullKey(), tidegatetest.Partition(3))
	in.Pipe("", "", tidegatetest.At(9))
	all := out.ReadAll()
	require.Len(t, all, 3)
	require.Equal(t, tidegatetest.Record[string, tidegate.Opt[string]]{Key: "k", Tombstone: true, Timestamp: 7, Partition: r.Partition}, all[0])
	require.True(t, all[1].NullKey)
	require.Empty(t, all[1].Key)
	require.Equal(t, int32(3), all[1].Partition, "what has no key stays on its partition number")
	require.False(t, all[2].NullKey || all[2].Tombstone, "empty is not null")
	require.Nil(t, out.ReadAll())
	_, ok = out.Read()
	require.False(t, ok)

	opt := d.Input("in", serde.Nullable(str), serde.Nullable(str))
	opt.Pipe(tidegate.None[string](), tidegate.None[string]())
	require.Equal(t, []tidegatetest.KeyValue[string, tidegate.Opt[string]]{{NullKey: true, Tombstone: true}}, out.ReadKeyValues())

	in.StartAt(100, 5*ms).PipeAll([]tidegatetest.KeyValue[string, string]{
		tidegatetest.KV("a", "1"), tidegatetest.Deleted[string, string]("a"), {Value: "2", NullKey: true},
	})
	require.Equal(t, 3, out.Len())
	require.Equal(t, 3, d.Output("out", str, serde.Nullable(str)).Len(), "outputs of a topic share what is unread")
	var times []int64
	for _, r := range out.ReadAll() {
		times = append(times, r.Timestamp)
	}
	require.Equal(t, []int64{100, 105, 110}, times)
}

// Every record goes through two repartition topics and a topic that the topology
// writes and reads, on several partitions.
func TestSeveralPartitionsAndHops(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).SelectKey(func(_, v string) string { return v }, str).Repartition("first").To("middle")
	b.Stream("middle", str, str).
		GroupBy("second", func(k, _ string) string { return k[:1] }, str).
		Count("n").ToStream().To("out")
	d := tidegatetest.New(t, build(t, b), tidegatetest.WithPartitions(3), tidegatetest.WithTopic("middle", 2))
	in, out := d.Input("in", str, str), d.Output("out", str, serde.Int64())
	for i := range 90 {
		in.Pipe(fmt.Sprint("key", i), fmt.Sprint(string(rune('a'+i%3)), i%7), tidegatetest.At(int64(i)))
		require.Equal(t, 1, out.Len())
		got := out.ReadKeyValues()
		require.Equal(t, tidegatetest.KV(string(rune('a'+i%3)), int64(i/3+1)), got[0])
		if i == 45 {
			d.Restart()
		}
	}
	require.Equal(t, 90, d.Output("middle", str, str).Len())
	store := d.Store("n", str, serde.Int64())
	require.ElementsMatch(t, []tidegatetest.KeyValue[string, int64]{
		tidegatetest.KV("a", int64(30)), tidegatetest.KV("b", int64(30)), tidegatetest.KV("c", int64(30)),
	}, store.All())
	n, ok := store.Get("b")
	require.True(t, ok)
	require.Equal(t, int64(30), n)
	at, _ := store.UpdatedAt("b")
	require.Equal(t, int64(88), at)
	_, ok = store.Get("z")
	require.False(t, ok)
	parts := 0
	for p := range int32(2) {
		parts += len(store.InPartition(p).All())
	}
	require.Equal(t, 3, parts)
}

// Behind a repartition topic time is that of the slowest upstream task (R13): what
// one partition replays an hour ahead makes nothing of another one late.
func TestTimeIsTheSlowestUpstreams(t *testing.T) {
	b, wk := counted(tidegate.Tumbling(time.Minute), time.Minute, true)
	d := tidegatetest.New(t, build(t, b), tidegatetest.WithPartitions(2))
	in, out := d.Input("in", str, str), d.Output("out", wk, serde.Int64())
	const hour = 3_600_000
	for i := range int64(5) {
		in.Pipe("k", "v", tidegatetest.Partition(0), tidegatetest.At(hour+i*60_000))
	}
	for i := range int64(5) {
		in.Pipe("k", "v", tidegatetest.Partition(1), tidegatetest.At(i*60_000))
	}
	require.Equal(t, 10, len(windowLines(out)))
	require.Zero(t, d.Late())
	windows := d.WindowStore("n", str, serde.Int64())
	_, open := windows.Get("k", hour)
	require.True(t, open, "the slower one has not passed it")
	_, open = windows.Get("k", 180_000)
	require.False(t, open, "both have passed it")
	require.Len(t, windows.All(), 6)

	d.AdvanceStreamTime(2 * hour)
	require.Empty(t, windows.All())
	in.Pipe("k", "v", tidegatetest.At(hour))
	require.Equal(t, int64(1), d.Late())

	// The same for a partition that never has a record: it holds time back until
	// it is idle.
	d = tidegatetest.New(t, build(t, b), tidegatetest.WithPartitions(2))
	in = d.Input("in", str, str)
	in.Pipe("k", "v", tidegatetest.Partition(0), tidegatetest.At(hour))
	in.Pipe("k", "v", tidegatetest.Partition(0), tidegatetest.At(0))
	require.Zero(t, d.Late())
	d.AdvanceWallClock(5 * time.Second)
	in.Pipe("k", "v", tidegatetest.Partition(0), tidegatetest.At(0))
	require.Equal(t, int64(1), d.Late())
}

func TestDynamicTopics(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).ToDynamic(func(_ *tidegate.RecordContext, _, v string) string { return v })
	d := tidegatetest.New(t, build(t, b), tidegatetest.WithTopic("there", 1))
	in := d.Input("in", str, str)
	in.Pipe("k", "there")
	require.Equal(t, 1, d.Output("there", str, str).Len())
	require.ErrorContains(t, in.TryPipe("k", "missing"), `open topic "missing"`)
}

func TestErrorsNameTheStep(t *testing.T) {
	boom := errors.New("boom")
	b := tidegate.NewBuilder()
	s := b.Stream("in", str, serde.Int64())
	s.MapValuesCtx(func(_ *tidegate.RecordContext, _ string, v int64) (int64, error) {
		if v == 1 {
			return 0, boom
		}
		return v, nil
	}, serde.Int64()).To("out")
	s.GroupBy("g", func(k string, _ int64) string { return k }, str).
		Aggregate("sums", func() int64 { return 0 }, func(_ string, v, a int64) int64 { return 10/(v-2) + a }, serde.Int64())

	d := tidegatetest.New(t, build(t, b))
	in := d.Input("in", str, serde.Int64())
	err := in.TryPipe("k", 1)
	require.ErrorIs(t, err, boom)
	require.Regexp(t, `^pipe to topic "in": .*driver_test.go:\d+: step "map-values-\d+" user function failed on record in-0@0: boom$`, err)
	err = in.TryPipe("k", 5)
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, "the topology stopped at an earlier error")

	d = tidegatetest.New(t, build(t, b))
	err = d.Input("in", str, serde.Int64()).TryPipe("k", 2)
	require.ErrorContains(t, err, `step "aggregate sums" user function panicked on record`)
	require.ErrorContains(t, err, "divide by zero")

	// The failure handler may skip, as with an App.
	d = tidegatetest.New(t, build(t, b), tidegatetest.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
	in = d.Input("in", str, serde.Int64())
	in.Pipe("k", 1)
	in.Pipe("k", 2)
	d.Input("in", str, str).Pipe("k", "not eight bytes")
	in.Pipe("k", 3)
	require.Len(t, d.Skipped(), 3)
	require.ErrorContains(t, d.Skipped()[2], "cannot decode record in-0@2")
	sum, _ := d.Store("sums", str, serde.Int64()).Get("k")
	require.Equal(t, int64(0), sum, "1: 10/-1, 3: 10/1")
}
