package integration

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/dsltest/moves"
)

// Three instances under load on a real broker, all restarted one after the
// other: no record is processed twice, counted by the test's own operators, and
// no partition of the output stands still for two seconds (R25).
func TestRollingRestart(t *testing.T) {
	k := servers.RequireKafka(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	f, err := moves.New(ctx, moves.Options{
		Brokers: k.Brokers(), Dir: t.TempDir(), App: fmt.Sprintf("rolling-%d", time.Now().UnixNano()), Partitions: 6, Rate: 3000,
		Interval: time.Second, Logger: slog.New(slog.DiscardHandler),
		Extra: []tidegate.Option{tidegate.WithCacheBytes(1), tidegate.WithSessionTimeout(6 * time.Second)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"a", "b", "c"}
	for _, name := range names {
		ok(f.Start(ctx, name))
	}
	ok(f.AwaitTasks(ctx, 4, 4))
	for range 5 { // a new broker's first commits take seconds
		ok(f.AwaitOutput(ctx))
	}
	f.Measure()
	for _, name := range names {
		ok(f.Stop(ctx, name))
		ok(f.AwaitTasks(ctx, 6, 6))
		ok(f.Start(ctx, name))
		ok(f.AwaitTasks(ctx, 4, 4))
	}
	ok(f.AwaitOutput(ctx))
	report, err := f.Finish(ctx)
	ok(err)
	t.Log(report, report.Gaps)
	if report.Reprocessed+report.Lost+report.Duplicated+report.WrongCounts > 0 {
		t.Error("records were not processed once")
	}
	if report.MaxGap() > 2*time.Second {
		t.Errorf("a partition of the output stood still for %v", report.MaxGap())
	}
}
