package tidegate_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/runtime"
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

// Instances come and go while records flow: every count appears once, in order.
func TestChangelogRebalance(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 4, "out": 4})
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	out, err := c.client.Read("out", 4, true)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	topo := counting(t, "in", "out")
	n := 0
	more := func(apps ...*launched) {
		t.Helper()
		if err := c.client.Produce(ctx, "in", words(2000, 50, 4)); err != nil {
			t.Fatal(err)
		}
		n += 2000
		await(ctx, t, out, n, apps...)
	}
	a := launch(ctx, t, c.logApp(topo, "a"))
	more(a)
	b := launch(ctx, t, c.logApp(topo, "b"))
	for len(b.Health().Tasks) == 0 || b.State() != tidegate.Running {
		more(a, b)
	}
	more(a, b)
	if x, y := len(a.Health().Tasks), len(b.Health().Tasks); x != 4 || y != 4 {
		t.Errorf("instances have %d and %d tasks, want 4 each", x, y)
	}
	a.end()
	more(b)
	b.end()
	if got := checkRunning(t, out.All()); got != n {
		t.Fatalf("read %d records, want %d", got, n)
	}
}

// State of one mode is refused by the other, with both named and what to do.
func TestOtherMode(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 1, "out": 1})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	topo := counting(t, "in", "out")
	for _, first := range []tidegate.Mode{tidegate.Barrier, tidegate.Changelog} {
		id := tidegate.WithApplicationID("app-" + first.String())
		second := tidegate.Changelog
		if first == tidegate.Changelog {
			second = tidegate.Barrier
		}
		if err := c.client.Produce(ctx, "in", words(10, 5, 1)); err != nil {
			t.Fatal(err)
		}
		app := launch(ctx, t, c.app(topo, "a"+first.String(), id, tidegate.WithMode(first)))
		for app.Health().LastCheckpointAt.IsZero() && app.Health().LastCommitAt.IsZero() {
			if app.State() == tidegate.Failed || ctx.Err() != nil {
				t.Fatalf("%v: nothing was committed: %v", first, app.Health().Err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		app.end()
		err := c.app(topo, "b"+first.String(), id, tidegate.WithMode(second)).Run(ctx)
		if err == nil {
			t.Fatalf("started in %v mode on state of %v mode", second, first)
		}
		for _, part := range []string{"ran in " + first.String() + " mode", "started in " + second.String() + " mode", "tidegate reset --brokers " + c.broker.Addr() + " --application app-" + first.String()} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		// The command that it names is enough.
		reset, err := runtime.PlanReset(ctx, runtime.KafkaConfig{Brokers: []string{c.broker.Addr()}}, "app-"+first.String(), testLogger())
		if err != nil {
			t.Fatal(err)
		}
		defer reset.Close()
		if len(reset.Topics) != 2 { // repartition, and control or changelog
			t.Errorf("topics to delete: %v", reset.Topics)
		}
		if err := reset.Execute(ctx); err != nil {
			t.Fatal(err)
		}
		app = launch(ctx, t, c.app(topo, "c"+first.String(), id, tidegate.WithMode(second)))
		for app.Health().LastCheckpointAt.IsZero() && app.Health().LastCommitAt.IsZero() {
			if app.State() == tidegate.Failed || ctx.Err() != nil {
				t.Fatalf("after the reset: %v", app.Health().Err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		app.end()
	}
}

// A store that is no store is refused; one without a changelog has no topic.
func TestWithoutChangelog(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 1, "out": 1})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	topo := counting(t, "in", "out")
	err := c.logApp(topo, "a", tidegate.WithoutChangelog("typo")).Run(ctx)
	if err == nil || !strings.Contains(err.Error(), `WithoutChangelog("typo")`) || !strings.Contains(err.Error(), "counts") {
		t.Fatalf("error %v", err)
	}
	out, err := c.client.Read("out", 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for round := range 2 { // counts begin anew with each start
		if err := c.client.Produce(ctx, "in", words(50, 5, 1)); err != nil {
			t.Fatal(err)
		}
		app := launch(ctx, t, c.logApp(topo, "a", tidegate.WithoutChangelog("counts")))
		await(ctx, t, out, 50*(round+1), app)
		app.end()
	}
	list := out.All()[0]
	if first, last := list[49].Value, list[99].Value; !bytes.Equal(first, last) {
		t.Errorf("the last counts of the two runs are %x and %x", first, last)
	}
	found, err := c.client.K.Admin().DescribeTopics(ctx, false, "app-counts-changelog")
	if err != nil || found["app-counts-changelog"].Exists {
		t.Errorf("the store has a changelog topic: %v", err)
	}
}
