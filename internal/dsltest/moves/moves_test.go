package moves_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/dsltest/moves"
)

func newFleet(t *testing.T, o moves.Options) *moves.Fleet {
	t.Helper()
	b, err := embedded.Start(embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	o.Brokers, o.Dir, o.App = []string{b.Addr()}, t.TempDir(), "fleet"
	o.Logger = slog.New(slog.DiscardHandler)
	if os.Getenv("MOVES_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	o.Extra = append(o.Extra, tidegate.WithCacheBytes(1), tidegate.WithSessionTimeout(6*time.Second))
	f, err := moves.New(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

// Three instances under load, each stopped as by SIGTERM and started again:
// every record is processed once, by whom ever (R25).
func TestRollingRestart(t *testing.T) {
	f := newFleet(t, moves.Options{Partitions: 6, Rate: 2000, Interval: 500 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	names := []string{"a", "b", "c"}
	for _, name := range names {
		require.NoError(t, f.Start(ctx, name))
	}
	require.NoError(t, f.AwaitTasks(ctx, 4, 4))
	require.NoError(t, f.AwaitOutput(ctx))
	f.Measure()
	for _, name := range names {
		require.NoError(t, f.Stop(ctx, name))
		require.NoError(t, f.AwaitTasks(ctx, 6, 6))
		require.NoError(t, f.Start(ctx, name))
		require.NoError(t, f.AwaitTasks(ctx, 4, 4))
	}
	require.NoError(t, f.AwaitOutput(ctx))
	report, err := f.Finish(ctx)
	require.NoError(t, err)
	t.Log(report)
	require.Zero(t, report.Reprocessed)
	require.Zero(t, report.Lost)
	require.Zero(t, report.Duplicated)
	require.Zero(t, report.WrongCounts)
	require.Less(t, report.MaxGap(), 4*time.Second) // generous: the machine may be busy
}
