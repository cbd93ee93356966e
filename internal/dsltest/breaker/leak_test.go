package breaker_test

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/embedded"
)

// An application that is started and stopped again and again leaves no goroutine
// and no memory behind, whatever its topology has.
func TestStartAndStopLeaveNothing(t *testing.T) {
	broker, err := embedded.Start(embedded.Options{Topics: map[string]int32{"l": 2, "r": 2, "global": 1, "out": 2}})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Close()) }()
	dir := t.TempDir()
	round := func() {
		b := tidegate.NewBuilder()
		l, r := b.Stream("l", str, str), b.Stream("r", str, str)
		g := b.GlobalTable("global", "gt", str, str)
		l.JoinGlobal(g, func(k, _ string) string { return k }, func(a, b string) string { return a + b }, str).To("out")
		t1 := l.ToTable("t1")
		send(t1.LeftJoinForeignKey("f", t1, func(_, v string) (string, bool) { return v, true },
			func(a string, b tidegate.Opt[string]) string { return a + b.Or("") }, str))
		send(r.GroupByKey("g").SessionWindowedBy(tidegate.Session(9*ms), tidegate.ByWindow).EmitOnClose().Count("s"))
		send(l.GroupByKey("g2").WindowedBy(tidegate.Hopping(9*ms, 3*ms), tidegate.ByWindow).Count("w").Suppress("u", tidegate.UntilWindowCloses()))
		l.Process("p", func() tidegate.Processor[string, string, string, string] {
			return &proc{init: func(c *tidegate.ProcessorContext[string, string]) error {
				_, err := c.Schedule(time.Millisecond, tidegate.WallClock, func(int64) error { return nil })
				return err
			}, f: func(*tidegate.ProcessorContext[string, string], string, string) error { return nil }}
		})
		top, err := b.Build()
		require.NoError(t, err)
		app, err := tidegate.New(top, tidegate.WithApplicationID("app"), tidegate.WithBrokers(broker.Addr()),
			tidegate.WithCheckpointDir(dir+"/checkpoints"), tidegate.WithStateDir(dir+"/state"),
			tidegate.WithCheckpointInterval(100*ms), tidegate.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- app.Run(ctx) }()
		require.Eventually(t, func() bool { return app.State() == tidegate.Running }, 30*time.Second, 5*ms)
		cancel()
		require.NoError(t, <-ran)
	}
	size := func() (goroutines int, heap uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	round()
	round()
	n, heap := size()
	for range 3 {
		round()
	}
	var after uint64
	require.Eventually(t, func() bool {
		var m int
		m, after = size()
		return m <= n+2
	}, 10*time.Second, 20*ms, "%d goroutines before", n)
	require.Less(t, after, heap+8<<20)
}
