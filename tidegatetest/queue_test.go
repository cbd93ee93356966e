package tidegatetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// Among queued records a task takes the smallest timestamp of all its inputs,
// also when one of them comes through a repartition topic.
func TestSmallestTimestampFirst(t *testing.T) {
	for _, repartitioned := range []bool{false, true} {
		b := tidegate.NewBuilder()
		s := b.Stream("in", str, str)
		if repartitioned {
			s = s.Repartition("hop")
		}
		rows := b.Table("rows", "rows", str, str)
		s.JoinTable("j", rows, func(l, r string) string { return l + r }, str).To("out")
		top := build(t, b)
		d := tidegatetest.New(t, top, tidegatetest.WithAllOutputRead())
		in, tab, out := d.Input("in", str, str), d.Input("rows", str, str), d.Output("out", str, str)
		for i := range 5 {
			in.Queue("k", fmt.Sprint(i), tidegatetest.At(int64(10*i+5)))
		}
		for i := range 5 {
			tab.Queue("k", fmt.Sprint("r", i), tidegatetest.At(int64(10*i)))
		}
		require.Zero(t, out.Len())
		d.Run()
		require.Equal(t, []string{"0r0", "1r1", "2r2", "3r3", "4r4"}, out.ReadValues())
		require.Equal(t, int64(45), d.StreamTime())

		// What is queued when the driver restarts is processed afterwards, once.
		in.Queue("k", "after", tidegatetest.At(50))
		d.Restart()
		require.Equal(t, []string{"afterr4"}, out.ReadValues())
	}
}

func TestWaysToRead(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupBy("by-value", func(_, v string) string { return v }, str).
		Count("n").ToStream().To("out")
	top := build(t, b)
	d := tidegatetest.New(t, top, tidegatetest.WithPartitions(2))
	in, out := d.Input("in", str, str), d.Output("out", str, serde.Int64())
	hop := d.Repartition("by-value", str, str)
	in.PipeAll([]tidegatetest.KeyValue[string, string]{
		tidegatetest.KV("1", "a"), tidegatetest.KV("2", "b"), tidegatetest.KV("3", "a"),
	}, tidegatetest.At(7), tidegatetest.Header("h", []byte("x")))
	require.Equal(t, map[string]int64{"a": 2, "b": 1}, tidegatetest.ReadMap(out))
	require.Empty(t, out.ReadAll())
	all := hop.ReadAll()
	require.Len(t, all, 3)
	require.Equal(t, "a", all[0].Key)
	require.Equal(t, int64(7), all[0].Timestamp)
	require.Equal(t, tidegate.Headers{{Key: "h", Value: []byte("x")}}, all[0].Headers, "the library's own headers are not shown")
	require.Equal(t, all[0].Partition, all[2].Partition)

	failed := run(func(t testing.TB) {
		d := tidegatetest.New(t, top, tidegatetest.WithAllOutputRead())
		d.Input("in", str, str).Pipe("1", "left")
	})
	require.Contains(t, failed, `1 records of topic "out" were not read, the first with key "left"`)
	require.Contains(t, run(func(t testing.TB) { tidegatetest.New(t, top).Repartition("n", str, str) }), "these have: by-value")
}

// A partition that had records and gets none any more becomes idle, and says so
// to those behind its task, though the task has nobody to wait for.
func TestIdlePartitionHoldsTimeBackNoLonger(t *testing.T) {
	b, _ := counted(tidegate.Tumbling(10*ms), 10*ms, true)
	d := tidegatetest.New(t, build(t, b), tidegatetest.WithPartitions(2))
	in := d.Input("in", str, str)
	in.Pipe("k", "v", tidegatetest.Partition(0), tidegatetest.At(0))
	in.Pipe("k", "v", tidegatetest.Partition(1), tidegatetest.At(0))
	in.Pipe("k", "v", tidegatetest.Partition(0), tidegatetest.At(1000))
	in.Pipe("k", "v", tidegatetest.Partition(0), tidegatetest.At(5))
	require.Zero(t, d.Late(), "partition 1 is at 0")
	d.AdvanceWallClock(5 * time.Second)
	in.Pipe("k", "v", tidegatetest.Partition(0), tidegatetest.At(2000))
	in.Pipe("k", "v", tidegatetest.Partition(0), tidegatetest.At(5))
	require.Equal(t, int64(1), d.Late(), "partition 1 is idle")
	d.Restart()
	in.Pipe("k", "v", tidegatetest.Partition(0), tidegatetest.At(5))
	require.Equal(t, int64(2), d.Late(), "and was so before the restart")
}
