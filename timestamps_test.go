package tidegate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// timeInValue finds the time in the value "text@time"; "boom" panics and what
// is no number is an error.
func timeInValue(_ *tidegate.RecordContext, _ string, v tidegate.Opt[string]) (int64, error) {
	text, there := v.Get()
	if !there {
		return 0, errors.New("a tombstone has no time")
	}
	if text == "boom" {
		panic("boom")
	}
	var name string
	var ts int64
	if _, err := fmt.Sscanf(text, "%1s@%d", &name, &ts); err != nil {
		return 0, err
	}
	return ts, nil
}

func timedTopology(t *testing.T, opts ...tidegate.SourceOption) *tidegate.Topology {
	t.Helper()
	b := tidegate.NewBuilder()
	s := b.Stream("in", serde.String(), serde.String(), opts...)
	s.To("out")
	s.SelectKey(func(string, string) string { return "all" }, serde.String()).GroupByKey("g").
		WindowedBy(tidegate.Tumbling(10*time.Millisecond), tidegate.ByWindow).Count("n").ToStream().To("counts")
	top, err := b.Build()
	require.NoError(t, err)
	return top
}

// What an extractor finds rules stream time, windows and the timestamps of
// topics, repartition topics included; also after a restart.
func TestTimestampsFromAFunction(t *testing.T) {
	for _, restart := range []bool{false, true} {
		top := timedTopology(t, tidegate.TimestampFrom(timeInValue, tidegate.InvalidTakesPartitionTime))
		d := tidegatetest.New(t, top)
		in, out := d.Input("in", serde.String(), serde.String()), d.Output("out", serde.String(), serde.String())
		counts := d.Output("counts", serde.Windowed(serde.String(), 10*time.Millisecond), serde.Int64())
		for _, v := range []string{"a@5", "b@7", "boom", "c@-3", "d@17", "e@6", "f@x", "g@99999999999999"} {
			in.Pipe("k", v, tidegatetest.At(1_000_000))
			if restart {
				d.Restart()
			}
		}
		in.Pipe("k", "", tidegatetest.Tombstone(), tidegatetest.At(2_000_000))
		var times []int64
		for _, r := range out.ReadAll() {
			times = append(times, r.Timestamp)
		}
		require.Equal(t, []int64{5, 7, 7, 7, 17, 6, 17, 17, 17}, times)
		var lines []string
		for _, r := range counts.ReadAll() {
			lines = append(lines, fmt.Sprintf("%d:%d@%d", r.Key.Start, r.Value, r.Timestamp))
		}
		require.Equal(t, []string{"0:1@5", "0:2@7", "0:3@7", "0:4@7", "10:1@17", "10:2@17", "10:3@17"}, lines,
			"the tombstone is not counted")
		require.EqualValues(t, 1, d.Late(), "e@6 came after [0,10) closed")
	}
}

func TestInvalidTimestamps(t *testing.T) {
	bad := []string{"a@-1", "boom", "x", fmt.Sprintf("a@%d", int64(math.MaxInt64))}
	t.Run("fail", func(t *testing.T) {
		for _, v := range bad {
			d := tidegatetest.New(t, timedTopology(t, tidegate.TimestampFrom(timeInValue, tidegate.InvalidFails)))
			err := d.Input("in", serde.String(), serde.String()).TryPipe("k", v)
			require.ErrorContains(t, err, `timestamps_test.go:`)
			require.ErrorContains(t, err, `finds no valid timestamp in record in-0@0`)
		}
	})
	t.Run("handler skips", func(t *testing.T) {
		d := tidegatetest.New(t, timedTopology(t, tidegate.TimestampFrom(timeInValue, tidegate.InvalidFails)),
			tidegatetest.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
		in := d.Input("in", serde.String(), serde.String())
		for _, v := range append(bad, "a@9") {
			in.Pipe("k", v)
		}
		require.Len(t, d.Skipped(), len(bad))
		require.Len(t, d.Output("out", serde.String(), serde.String()).ReadAll(), 1)
	})
	t.Run("skip", func(t *testing.T) {
		d := tidegatetest.New(t, timedTopology(t, tidegate.TimestampFrom(timeInValue, tidegate.InvalidSkipped)))
		in := d.Input("in", serde.String(), serde.String())
		for _, v := range append(bad, "a@9") {
			in.Pipe("k", v)
		}
		require.EqualValues(t, len(bad), d.TimestampDropped())
		require.Len(t, d.Output("out", serde.String(), serde.String()).ReadAll(), 1)
	})
	t.Run("no partition time yet", func(t *testing.T) {
		d := tidegatetest.New(t, timedTopology(t, tidegate.TimestampFrom(timeInValue, tidegate.InvalidTakesPartitionTime)))
		require.ErrorContains(t, d.Input("in", serde.String(), serde.String()).TryPipe("k", "a@-1"), "finds no valid timestamp")
	})
}

// A record that cannot be decoded is reported once, as such, and moves no time.
func TestTimestampsOfUnreadableRecords(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.Int64(), tidegate.TimestampFrom(
		func(_ *tidegate.RecordContext, _ string, v tidegate.Opt[int64]) (int64, error) { return v.Or(0), nil }, tidegate.InvalidFails)).To("out")
	top, err := b.Build()
	require.NoError(t, err)
	d := tidegatetest.New(t, top, tidegatetest.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
	d.Input("in", serde.String(), serde.String()).Pipe("k", "short")
	d.Input("in", serde.String(), serde.Int64()).Pipe("k", 7)
	require.Len(t, d.Skipped(), 1)
	require.ErrorContains(t, d.Skipped()[0], "cannot decode")
	r, _ := d.Output("out", serde.String(), serde.Int64()).Read()
	require.EqualValues(t, 7, r.Timestamp)
}

func TestTimestampsFromTheWallClock(t *testing.T) {
	d := tidegatetest.New(t, timedTopology(t, tidegate.TimestampFromWallClock()), tidegatetest.WithStart(time.UnixMilli(5000)))
	in, out := d.Input("in", serde.String(), serde.String()), d.Output("out", serde.String(), serde.String())
	in.Pipe("k", "v", tidegatetest.At(1))
	d.AdvanceWallClock(time.Second)
	in.Pipe("k", "v", tidegatetest.At(1))
	var times []int64
	for _, r := range out.ReadAll() {
		times = append(times, r.Timestamp)
	}
	require.Equal(t, []int64{5000, 6000}, times)
}

// The function sees the record's own time, headers and place, and a null key as
// zero.
func TestTimestampFunctionSeesTheRecord(t *testing.T) {
	b := tidegate.NewBuilder()
	var seen []string
	b.Stream("in", serde.String(), serde.String(), tidegate.TimestampFrom(
		func(c *tidegate.RecordContext, k string, v tidegate.Opt[string]) (int64, error) {
			h, _ := c.Headers.Last("h")
			seen = append(seen, fmt.Sprintf("%s-%d@%d %d %q %q %s", c.Topic, c.Partition, c.Offset, c.Timestamp, k, v.Or("null"), h))
			return c.Timestamp + 1, c.Ctx.Err()
		}, tidegate.InvalidFails)).To("out")
	top, err := b.Build()
	require.NoError(t, err)
	d := tidegatetest.New(t, top, tidegatetest.WithPartitions(2))
	in := d.Input("in", serde.String(), serde.String())
	in.Pipe("k", "v", tidegatetest.Partition(1), tidegatetest.At(5), tidegatetest.Header("h", []byte("x")))
	in.Pipe("", "", tidegatetest.NullKey(), tidegatetest.Tombstone(), tidegatetest.Partition(1), tidegatetest.At(6))
	require.Equal(t, []string{`in-1@0 5 "k" "v" x`, `in-1@1 6 "" "null" `}, seen)
}

func TestTimestampMistakes(t *testing.T) {
	b := tidegate.NewBuilder()
	f := func(*tidegate.RecordContext, int64, tidegate.Opt[string]) (int64, error) { return 0, nil }
	b.Stream("a", serde.String(), serde.String(), tidegate.TimestampFrom(f, tidegate.InvalidFails))
	b.Stream("b", serde.Int64(), serde.String(), tidegate.TimestampFrom[int64, string](nil, tidegate.InvalidFails))
	b.Stream("c", serde.Int64(), serde.String(), tidegate.TimestampFromWallClock(), tidegate.TimestampFrom(f, tidegate.InvalidFails))
	b.Stream("d", serde.Int64(), serde.String(), tidegate.TimestampFromRecord(9))
	b.Stream("e", serde.Int64(), serde.String(), tidegate.IdleAfter(time.Microsecond))
	b.Stream("f", serde.Int64(), serde.String(), nil)
	_, err := b.Build()
	for _, want := range []string{
		"TimestampFrom: the function takes a key int64 and a value string, which are not the source's types",
		"TimestampFrom: the function is nil",
		"2 options that say where timestamps come from",
		"InvalidTimestamp(9): want",
		"IdleAfter(1µs): want at least 1ms",
		"an option of the source is nil",
	} {
		require.ErrorContains(t, err, want)
	}

	b = tidegate.NewBuilder()
	b.Stream("a", serde.String(), serde.String(), tidegate.TimestampFromWallClock(), tidegate.IdleAfter(time.Second)).To("x")
	b.Stream("a", serde.String(), serde.String(), tidegate.IdleAfter(2*time.Second)).To("y")
	_, err = b.Build()
	require.ErrorContains(t, err, `topic "a" is read at record timestamps (invalid: fail) here and at wall clock at`)
	require.ErrorContains(t, err, `topic "a" is read with an idle timeout of 2000 ms here and of 1000 ms at`)

	b = tidegate.NewBuilder()
	same := tidegate.TimestampFrom(timeInValue, tidegate.InvalidSkipped)
	b.Stream("a", serde.String(), serde.String(), same).To("x")
	b.Stream("a", serde.String(), serde.String(), same).To("y")
	_, err = b.Build()
	require.NoError(t, err)
}

// Over a broker: event times rule the order in which inputs are merged, faults
// are skipped in their turn and positions go past them, and a second run goes on
// with the partition times of the first.
func TestTimestampsEndToEnd(t *testing.T) {
	c := newCluster(t, map[string]int32{"a": 1, "b": 1, "out": 1})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	b := tidegate.NewBuilder()
	opt := tidegate.TimestampFrom(timeInValue, tidegate.InvalidTakesPartitionTime)
	b.StreamOf([]string{"a", "b"}, serde.String(), serde.String(), opt).To("out")
	top, err := b.Build()
	require.NoError(t, err)
	produce := func(topic string, values ...string) {
		var list []testkit.Message
		for _, v := range values {
			list = append(list, testkit.Message{Key: []byte("k"), Value: []byte(v), Timestamp: 1_000_000})
		}
		require.NoError(t, c.client.Produce(ctx, topic, list))
	}
	// Kafka's timestamps would tell nothing; a0 has no valid time at all.
	produce("a", "0@-5", "1@10", "2@30", "3@x", "4@60")
	produce("b", "1@20", "boom", "2@40", "3@50")
	handler := tidegate.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip })
	app := c.app(top, "one", handler)
	stop := c.run(app)
	out, err := c.client.Read("out", 1, true)
	require.NoError(t, err)
	defer out.Close()
	read := func(n int) (got []string) {
		require.NoError(t, out.Await(ctx, func() bool { return out.Count() >= n }))
		for _, m := range out.All()[0] {
			got = append(got, fmt.Sprintf("%s/%d", m.Value, m.Timestamp))
		}
		return got
	}
	require.Equal(t, []string{"1@10/10", "1@20/20", "boom/20", "2@30/30", "3@x/30", "2@40/40", "3@50/50", "4@60/60"}, read(8))
	require.EqualValues(t, 1, app.Health().Skipped)
	stop()
	produce("a", "5@y")
	produce("b", "boom")
	c.run(c.app(top, "one", handler))
	require.ElementsMatch(t, []string{"5@y/60", "boom/50"}, read(10)[8:])
}
