package moves_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/dsltest/moves"
)

// The control log is trimmed again and again while instances run, come and go;
// who comes begins with a snapshot. The log stays small, and no record is
// processed twice: trimming drives out nobody who could go on.
func TestTrimmedControlLog(t *testing.T) {
	const most = 40
	f := newFleet(t, moves.Options{
		Partitions: 4, Rate: 500, Interval: 100 * time.Millisecond, Extra: []tidegate.Option{tidegate.WithControlLogRecords(most)},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	require.NoError(t, f.Start(ctx, "a"))
	require.NoError(t, f.Start(ctx, "b"))
	require.NoError(t, f.AwaitTasks(ctx, 4, 4))
	begin := int64(0)
	trimmed := func() {
		t.Helper()
		last := begin
		require.Eventually(t, func() bool {
			start, _, err := f.ControlLog(ctx)
			begin = start
			return err == nil && start > last
		}, time.Minute, 50*time.Millisecond, "the log is not trimmed")
	}
	for range 2 {
		for _, name := range []string{"a", "b"} {
			trimmed()
			require.NoError(t, f.Stop(ctx, name))
			require.NoError(t, f.AwaitTasks(ctx, 8, 8))
			require.NoError(t, f.Start(ctx, name)) // its log does not begin at 0
			require.NoError(t, f.AwaitTasks(ctx, 4, 4))
		}
	}
	// All at once, so that the new ones have nothing but the snapshot.
	trimmed()
	require.NoError(t, f.Stop(ctx, "a"))
	require.NoError(t, f.Stop(ctx, "b"))
	require.NoError(t, f.Start(ctx, "c"))
	require.NoError(t, f.AwaitOutput(ctx))
	trimmed()
	start, end, err := f.ControlLog(ctx)
	require.NoError(t, err)
	// A snapshot is trimmed to a session timeout (6 s) after it was read; the log
	// grows on meanwhile.
	t.Logf("the control log holds offsets %d to %d", start, end)
	require.Greater(t, start, int64(5*most))
	require.Less(t, end-start, start)
	report, err := f.Finish(ctx)
	require.NoError(t, err)
	t.Log(report)
	require.Zero(t, report.Reprocessed)
	require.Zero(t, report.Lost)
	require.Zero(t, report.Duplicated)
	require.Zero(t, report.WrongCounts)
}
