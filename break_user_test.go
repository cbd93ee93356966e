package tidegate_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

// These tests run user code that misbehaves where no record is to blame.

// TestBlockingUserCode: a function that waits on RecordContext.Ctx gets out of
// it when the instance stops; meanwhile other tasks and the membership go on for
// longer than a session timeout.
func TestBlockingUserCode(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	topo := build(t, func(b *tidegate.Builder) {
		b.Stream("in", serde.String(), serde.String()).PeekCtx(func(rc *tidegate.RecordContext, _, v string) error {
			if v != "block" {
				return nil
			}
			<-rc.Ctx.Done()
			return rc.Ctx.Err()
		}).To("out")
	})
	asked := 0
	a := c.start(c.app(topo, "a", tidegate.WithWorkers(2), tidegate.WithShutdownDeadline(200*time.Millisecond),
		tidegate.WithSessionTimeout(500*time.Millisecond),
		tidegate.WithFailureHandler(func(error) tidegate.FailureAction { asked++; return tidegate.Skip })))
	name := ""
	require.Eventually(t, func() bool { h := a.Health(); name = h.Instance; return h.State == tidegate.Running }, 20*time.Second, 5*time.Millisecond)
	c.produce("in", testkit.Message{Partition: 1, Value: []byte("block")})
	begun := time.Now()
	for n := int64(0); time.Since(begun) < time.Second; {
		c.produce("in", testkit.Message{Partition: 0, Value: []byte("free")})
		n++
		require.Eventually(t, func() bool { return a.Health().Records >= n }, 20*time.Second, time.Millisecond)
	}
	require.Equal(t, name, a.Health().Instance)
	a.stop()
	select {
	case <-a.done:
	case <-time.After(20 * time.Second):
		t.Fatal("Run does not return")
	}
	require.NoError(t, a.err)
	require.Zero(t, asked, "the end of a task is not a record's failure")
}

// panicky panics in one of its methods, or where it is made.
type panicky struct{ in string }

func (p panicky) Init(*tidegate.ProcessorContext[string, string]) error { return p.at("init") }
func (p panicky) Process(string, tidegate.Opt[string]) error            { return p.at("process") }
func (p panicky) Close() error                                          { return p.at("close") }

func (p panicky) at(method string) error {
	if p.in == method {
		panic("boom in " + method)
	}
	return nil
}

func panicking(t *testing.T, in string) *tidegate.Topology {
	return build(t, func(b *tidegate.Builder) {
		b.Stream("in", serde.String(), serde.String()).
			Process("p", func() tidegate.Processor[string, string, string, string] {
				_ = panicky{in}.at("new")
				return panicky{in}
			})
	})
}

// TestPanicsOfUserCode: no panic takes the process along.
func TestPanicsOfUserCode(t *testing.T) {
	for _, in := range []string{"new", "init"} {
		t.Run(in, func(t *testing.T) {
			c := newCluster(t, map[string]int32{"in": 1})
			c.start(c.app(panicking(t, in), "a")).fails(`step "process p"`, "panicked", "boom in "+in, "break_user_test.go")
		})
	}
	running := func(t *testing.T, a *started) {
		require.Eventually(t, func() bool { return a.State() == tidegate.Running }, 20*time.Second, 5*time.Millisecond)
	}
	t.Run("close", func(t *testing.T) {
		c := newCluster(t, map[string]int32{"in": 1})
		a := c.start(c.app(panicking(t, "close"), "a"))
		running(t, a)
		a.close()
	})
	t.Run("handler", func(t *testing.T) {
		c := newCluster(t, map[string]int32{"in": 1})
		c.produce("in", testkit.Message{Value: []byte("v")})
		c.start(c.app(panicking(t, "process"), "a", tidegate.WithFailureHandler(func(error) tidegate.FailureAction { panic("boom too") }))).
			fails("in-0@0", "boom in process")
	})
	t.Run("listener", func(t *testing.T) {
		c := newCluster(t, map[string]int32{"in": 1})
		a := c.start(c.app(panicking(t, ""), "a", tidegate.WithStateListener(func(_, _ tidegate.State) { panic("boom too") })))
		running(t, a)
		a.close()
	})
}

// TestTimestampsThatCannotBeWritten: such a record is refused by itself, with
// its name.
func TestTimestampsThatCannotBeWritten(t *testing.T) {
	times := map[string]int64{"min": math.MinInt64, "before": -1, "zero": 0, "max": math.MaxInt64}
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	for _, internal := range []bool{false, true} {
		topo := build(t, func(b *tidegate.Builder) {
			s := b.Stream("in", serde.String(), serde.String()).
				PeekCtx(func(rc *tidegate.RecordContext, _, v string) error { rc.Timestamp = times[v]; return nil })
			if internal {
				s = s.Repartition("r")
			}
			s.To("out")
		})
		id := tidegate.WithApplicationID(map[bool]string{false: "direct", true: "repartitioned"}[internal])
		out := c.reader("out", 2)
		had := 0
		if internal {
			had = 1
			c.await(out, 1)
		} else {
			c.produce("in", values("min", "before", "zero", "max")...)
		}
		c.start(c.app(topo, "a", id, tidegate.WithStateDir(t.TempDir()))).fails("in-1@0", "timestamp -9223372036854775808")
		a := c.start(c.app(topo, "a", id, tidegate.WithStateDir(t.TempDir()), tidegate.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip })))
		c.await(out, had+1)
		a.close()
		require.EqualValues(t, 3, a.Health().Skipped)
		require.Equal(t, "zero", texts(out)[had])
	}
}

// TestRunUntilADeadline: a context may end by its deadline, too.
func TestRunUntilADeadline(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 1})
	ctx, cancel := context.WithDeadline(context.Background(), time.Now())
	defer cancel()
	a := c.app(panicking(t, ""), "a")
	require.NoError(t, a.Run(ctx))
	require.Equal(t, tidegate.Stopped, a.State())
	require.ErrorContains(t, a.Run(context.Background()), "was called before")
	require.Equal(t, tidegate.Stopped, a.State())
}

// TestLargeRecords: a batch with several records must not be larger than the
// topic takes when each record by itself is not.
func TestLargeRecords(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 1, "out": 1})
	large := make([]byte, 1<<20-512)
	for range 3 {
		c.produce("in", testkit.Message{Value: large})
		c.produce("in", testkit.Message{Value: make([]byte, 300)}, testkit.Message{Value: make([]byte, 300)})
	}
	topo := build(t, func(b *tidegate.Builder) {
		b.Stream("in", serde.Bytes(), serde.Bytes()).Repartition("r").To("out")
	})
	a := c.start(c.app(topo, "a"))
	c.await(c.reader("out", 1), 9)
	a.close()
}

// TestContradictoryOptions: New names everything at once.
func TestContradictoryOptions(t *testing.T) {
	_, err := tidegate.New(panicking(t, ""),
		tidegate.WithCacheBytes(-1), tidegate.WithAlignmentBytes(-2), tidegate.WithBufferBytes(-3, -4), tidegate.WithRetainedCheckpoints(-5),
		tidegate.WithTransactionTimeout(-1), tidegate.WithExpectedRestart(-1), tidegate.WithShutdownDeadline(-1), tidegate.WithIdleTimeout(-1),
		tidegate.WithReplicationFactor(-6), tidegate.WithMode(7), tidegate.WithGuarantee(7), tidegate.WithStateStore(7), tidegate.WithOffsetReset(7),
		tidegate.WithCompression("brotli"), tidegate.WithInstanceName("a/b"), tidegate.WithBrokers(""), tidegate.WithWorkers(-1), tidegate.WithToleratedAborts(-1))
	for _, s := range []string{
		"WithCacheBytes(-1)", "WithAlignmentBytes(-2)", "WithBufferBytes(-3, …)", "WithBufferBytes(…, -4)", "WithRetainedCheckpoints(-5)",
		"WithTransactionTimeout(-1ns)", "WithExpectedRestart(-1ns)", "WithShutdownDeadline(-1ns)", "WithIdleTimeout(-1ns)", "WithReplicationFactor(-6)",
		"WithMode(7)", "WithGuarantee(7)", "WithStateStore(7)", "WithOffsetReset(7)", `WithCompression("brotli")`, `WithInstanceName("a/b")`,
		"WithBrokers", "WithWorkers(-1)", "WithToleratedAborts(-1)",
	} {
		require.ErrorContains(t, err, s)
	}
}

// TestOtherStateStore: an engine does not take the other's files for no state.
func TestOtherStateStore(t *testing.T) {
	for _, first := range []tidegate.StoreKind{tidegate.Pebble, tidegate.Memory} {
		c := newCluster(t, map[string]int32{"in": 2, "out": 2})
		out := c.reader("out", 2)
		c.produce("in", words(100, 10, 2)...)
		a := c.start(c.app(counting(t, "in", "out"), "a", tidegate.WithStateStore(first)))
		c.await(out, 100)
		a.close()
		c.start(c.app(counting(t, "in", "out"), "a", tidegate.WithStateStore(1-first))).fails("another engine", "WithStateStore")
		c.produce("in", words(100, 10, 2)...)
		a = c.start(c.app(counting(t, "in", "out"), "a", tidegate.WithStateStore(first)))
		c.await(out, 200)
		a.close()
		checkRunning(t, out.All())
	}
}
