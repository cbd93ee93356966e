package tidegate_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
)

// logApp is c.app in changelog mode with short times.
func (c *cluster) logApp(topo *tidegate.Topology, name string, opts ...tidegate.Option) *tidegate.App {
	c.t.Helper()
	return c.app(topo, name, append([]tidegate.Option{
		tidegate.WithMode(tidegate.Changelog), tidegate.WithCommitInterval(50 * time.Millisecond),
	}, opts...)...)
}

// launched is an App that runs.
type launched struct {
	*tidegate.App
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

func launch(ctx context.Context, t *testing.T, app *tidegate.App) *launched {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	r := &launched{app, t, cancel, make(chan error, 1)}
	go func() { r.done <- app.Run(ctx) }()
	t.Cleanup(r.end)
	return r
}

// end stops the app and waits.
func (r *launched) end() {
	r.stop()
	if err, ok := <-r.done; ok {
		if err != nil {
			r.t.Errorf("run ended: %v", err)
		}
		close(r.done)
	}
}

// await reads until the output has n records, or an app ended.
func await(ctx context.Context, t *testing.T, out *testkit.Reader, n int, apps ...*launched) {
	t.Helper()
	err := out.Await(ctx, func() bool {
		for _, a := range apps {
			if a.State() == tidegate.Failed {
				t.Fatalf("run ended: %v", a.Health().Err)
			}
		}
		return out.Count() >= n
	})
	if err != nil {
		t.Fatalf("%d records of %d: %v", out.Count(), n, err)
	}
}

func TestChangelogEndToEnd(t *testing.T) {
	for _, g := range []tidegate.Guarantee{tidegate.ExactlyOnce, tidegate.AtLeastOnce} {
		c := newCluster(t, map[string]int32{"in": 4, "out": 4})
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		const n = 20000
		if err := c.client.Produce(ctx, "in", words(n, 100, 4)); err != nil {
			t.Fatal(err)
		}
		out, err := c.client.Read("out", 4, true)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		topo := counting(t, "in", "out")
		app := launch(ctx, t, c.logApp(topo, "a", tidegate.WithGuarantee(g)))
		await(ctx, t, out, n, app)
		app.end()
		// Counts go on where they were, after a clean end and with another
		// instance, which has no local state.
		for round, name := range []string{"a", "b"} {
			if err := c.client.Produce(ctx, "in", words(1000, 100, 4)); err != nil {
				t.Fatal(err)
			}
			app = launch(ctx, t, c.logApp(topo, name, tidegate.WithGuarantee(g)))
			await(ctx, t, out, n+1000*(round+1), app)
			app.end()
		}
		if got := checkRunning(t, out.All()); got != n+2000 {
			t.Fatalf("read %d records, want %d", got, n+2000)
		}
	}
}
