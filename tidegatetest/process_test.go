package tidegatetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/pebblestore"
	"github.com/tidegate/tidegate/tidegatetest"
)

var (
	lastStore = tidegate.KeyValueStore("last", serde.String(), serde.String())
	seenStore = tidegate.WindowStore("seen", 100*ms, serde.String(), serde.Int64())
)

// watch keeps the last value of each key and forwards it when a clock ticks.
type watch struct {
	ctx    *tidegate.ProcessorContext[string, string]
	last   *tidegate.KV[string, string]
	seen   *tidegate.WindowKV[string, int64]
	closed *int
}

func (w *watch) Init(ctx *tidegate.ProcessorContext[string, string]) (err error) {
	w.ctx = ctx
	if w.last, err = ctx.Store(lastStore); err != nil {
		return err
	}
	if w.seen, err = ctx.WindowStore(seenStore); err != nil {
		return err
	}
	tell := func(clock string) func(int64) error {
		return func(now int64) error {
			n := 0
			if err := w.last.All(func(string, string) bool { n++; return true }); err != nil {
				return err
			}
			return ctx.Forward(clock, fmt.Sprintf("%d@%d", n, now))
		}
	}
	if _, err = ctx.Schedule(10*time.Second, tidegate.WallClock, tell("wall")); err != nil {
		return err
	}
	_, err = ctx.Schedule(50*ms, tidegate.StreamTime, tell("stream"))
	return err
}

func (w *watch) Process(k string, v tidegate.Opt[string]) error {
	s, ok := v.Get()
	if !ok {
		return w.last.Delete(k)
	}
	if err := w.seen.Put(k, w.ctx.Record().Timestamp, 1); err != nil {
		return err
	}
	return w.last.Put(k, s)
}

func (w *watch) Close() error { *w.closed++; return nil }

func watched(t *testing.T) (top *tidegate.Topology, closed *int) {
	t.Helper()
	closed = new(int)
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).Process("watch", func() tidegate.Processor[string, string, string, string] {
		return &watch{closed: closed}
	}, lastStore, seenStore).As(str, str).To("out")
	return build(t, b), closed
}

func TestClocksAndRestart(t *testing.T) {
	shared := pebblestore.NewShared(pebblestore.SharedOptions{})
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	engines := map[string]tidegatetest.Option{
		"memory": tidegatetest.WithCacheBytes(1000),
		"pebble": tidegatetest.WithEngine(func(dir string) (state.Engine, error) {
			return pebblestore.Open(shared, dir, pebblestore.Options{})
		}),
		"written back": tidegatetest.WithCacheBytes(0),
	}
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			top, closed := watched(t)
			d := tidegatetest.New(t, top, engine)
			in, out := d.Input("in", str, str), d.Output("out", str, str)
			in.Pipe("a", "1", tidegatetest.At(5))
			require.Equal(t, []string{"stream=1@5@5"}, lines(out), "stream time is known for the first time")
			d.AdvanceWallClock(9_999 * ms)
			require.Zero(t, out.Len())
			d.AdvanceWallClock(1 * ms)
			require.Equal(t, []string{"wall=1@10000@10000"}, lines(out))
			d.AdvanceWallClock(time.Minute)
			require.Equal(t, []string{"wall=1@70000@70000"}, lines(out), "once, though six intervals passed")
			require.Equal(t, time.UnixMilli(70_000).UTC(), d.Now())

			in.Pipe("b", "2", tidegatetest.At(49))
			d.Restart()
			require.Equal(t, 1, *closed)
			in.Pipe("c", "3", tidegatetest.At(49))
			require.Zero(t, out.Len(), "the timer of before is due at 50")
			d.AdvanceStreamTime(50)
			d.AdvanceStreamTime(20)
			require.Equal(t, []string{"stream=3@50@50"}, lines(out))
			d.AdvanceWallClock(9_999 * ms)
			require.Zero(t, out.Len(), "wall-clock timers begin anew")
			d.AdvanceWallClock(1 * ms)
			require.Equal(t, []string{"wall=3@80000@80000"}, lines(out))

			in.Pipe("b", "", tidegatetest.Tombstone(), tidegatetest.At(50))
			last := d.Store("last", str, str)
			require.Equal(t, []tidegatetest.KeyValue[string, string]{tidegatetest.KV("a", "1"), tidegatetest.KV("c", "3")}, last.All())
			v, ok := last.Get("a")
			require.Equal(t, "1", v)
			require.True(t, ok)
			seen := d.WindowStore("seen", str, serde.Int64())
			n, ok := seen.Get("b", 49)
			require.True(t, ok)
			require.Equal(t, int64(1), n)
			_, ok = seen.Get("b", 5)
			require.False(t, ok)
			var starts []int64
			for _, e := range seen.InPartition(0).All() {
				require.Equal(t, e.Key.Start, e.Key.End)
				starts = append(starts, e.Key.Start)
			}
			require.Equal(t, []int64{5, 49, 49}, starts)

			d.Close()
			d.Close()
			require.Equal(t, 2, *closed)
			require.ErrorContains(t, in.TryPipe("a", "1"), "the driver is closed")
		})
	}
}

// What is wrong in a test fails it with an error that says what to do.
func TestMistakes(t *testing.T) {
	top, _ := watched(t)
	for want, test := range map[string]func(testing.TB){
		`the topology is nil`: func(t testing.TB) { tidegatetest.New(t, nil) },
		`WithPartitions(0)`:   func(t testing.TB) { tidegatetest.New(t, top, tidegatetest.WithPartitions(0)) },
		`WithTopic("in", 0)`:  func(t testing.TB) { tidegatetest.New(t, top, tidegatetest.WithTopic("in", 0)) },
		`must not be before the epoch`: func(t testing.TB) {
			tidegatetest.New(t, top, tidegatetest.WithStart(time.UnixMilli(-1)))
		},
		`WithCacheBytes(-1)`: func(t testing.TB) { tidegatetest.New(t, top, tidegatetest.WithCacheBytes(-1)) },
		`it reads: in`:       func(t testing.TB) { tidegatetest.New(t, top).Input("out", str, str) },
		`Input("in"): a serde is nil`: func(t testing.TB) {
			tidegatetest.New(t, top).Input[string, string]("in", nil, str)
		},
		`it writes: out`: func(t testing.TB) { tidegatetest.New(t, top).Output("nowhere", str, str) },
		`Output("out"): a serde is nil`: func(t testing.TB) {
			tidegatetest.New(t, top).Output[string, string]("out", str, nil)
		},
		`it has: last, seen`: func(t testing.TB) { tidegatetest.New(t, top).Store("other", str, str) },
		`of another kind, window-kv-2: open it with Driver.WindowStore`: func(t testing.TB) {
			tidegatetest.New(t, top).Store("seen", str, serde.Int64())
		},
		`of another kind, kv-1: open it with Driver.Store`: func(t testing.TB) {
			tidegatetest.New(t, top).WindowStore("last", str, str)
		},
		`its values are`: func(t testing.TB) { tidegatetest.New(t, top).Store("last", str, serde.Int64()) },
		`its keys are`:   func(t testing.TB) { tidegatetest.New(t, top).Store("last", serde.Int64(), str) },
		`Store("last"): a serde is nil`: func(t testing.TB) {
			tidegatetest.New(t, top).Store[string, string]("last", nil, nil)
		},
		`partition 1: it has 1`: func(t testing.TB) { tidegatetest.New(t, top).Store("last", str, str).InPartition(1) },
		`must be at least 1ms`:  func(t testing.TB) { tidegatetest.New(t, top).AdvanceWallClock(0) },
		`AdvanceStreamTime(-1)`: func(t testing.TB) { tidegatetest.New(t, top).AdvanceStreamTime(-1) },
		`timestamp -1`:          func(t testing.TB) { tidegatetest.New(t, top).Input("in", str, str).Pipe("", "", tidegatetest.At(-1)) },
		`partition 1: the topic ha`: func(t testing.TB) {
			tidegatetest.New(t, top).Input("in", str, str).Pipe("", "", tidegatetest.Partition(1))
		},
		`decode value "1@5"`: func(t testing.TB) {
			d := tidegatetest.New(t, top)
			d.Input("in", str, str).Pipe("k", "v", tidegatetest.At(5))
			d.Output("out", str, serde.Int64()).Read()
		},
		`the driver is closed`: func(t testing.TB) {
			d := tidegatetest.New(t, top)
			d.Close()
			d.Restart()
		},
		`store "last": the driver is closed`: func(t testing.TB) {
			d := tidegatetest.New(t, top)
			last := d.Store("last", str, str)
			d.Close()
			last.All()
		},
	} {
		require.Contains(t, run(test), want)
	}

	b := tidegate.NewBuilder()
	tab := b.Table("rows", "rows", str, str)
	b.Stream("in", str, str).JoinTable("j", tab, func(a, b string) string { return a + b }, str).To("out")
	joined := build(t, b)
	require.Contains(t, run(func(t testing.TB) { tidegatetest.New(t, joined, tidegatetest.WithTopic("rows", 2)) }),
		"needs co-partitioned topics", "partition counts are checked as in production")

	b = tidegate.NewBuilder()
	b.Stream("in", str, str).Process("forgot", func() tidegate.Processor[string, string, string, string] { return &watch{closed: new(int)} })
	forgot := build(t, b)
	require.Contains(t, run(func(t testing.TB) { tidegatetest.New(t, forgot) }), `step "process forgot": init: store "last"`)
}
