package modes

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint/dir"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/runtime"
)

// A reset deletes what is the application's, and nothing of one whose id begins
// with the same words.
func TestResetBesideAnotherApplication(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 1, "out": 1})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("g").Count("counts")
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "a-b"} {
		app := run(ctx, t, c.app(topo, id, tidegate.WithApplicationID(id)))
		for app.Health().LastCommitAt.IsZero() {
			if app.State() == tidegate.Failed || ctx.Err() != nil {
				t.Fatalf("%s: %v", id, app.Health().Err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		app.end()
	}
	reset, err := runtime.PlanReset(ctx, runtime.KafkaConfig{Brokers: []string{c.broker.Addr()}}, "a", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer reset.Close()
	want := runtime.AmbiguousTopic{Topic: "a-b-counts-changelog", Other: "a-b", Trace: "consumer group a-b"}
	if !slices.Equal(reset.Topics, []string{"a-counts-changelog"}) || !slices.Equal(reset.Ambiguous, []runtime.AmbiguousTopic{want}) {
		t.Errorf("topics %q, left alone %v", reset.Topics, reset.Ambiguous)
	}
	if err := reset.Execute(ctx); err != nil {
		t.Fatal(err)
	}
	groups, err := c.client.K.Admin().ListGroups(ctx)
	if err != nil || !slices.Equal(groups, []string{"a-b"}) {
		t.Errorf("groups %q: %v", groups, err)
	}
	found, err := c.client.K.Admin().DescribeTopics(ctx, false, "a-counts-changelog", "a-b-counts-changelog")
	if err != nil || found["a-counts-changelog"].Exists || !found["a-b-counts-changelog"].Exists {
		t.Errorf("topics %v: %v", found, err)
	}
}

// One application changes its mode there and back with one checkpoint store. A
// reset that leaves the checkpoints is noticed; one that takes them along lets it
// begin anew, whatever there was.
func TestModeThereAndBack(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 1, "out": 1})
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("g").Count("counts").ToStream().
		MapValues(func(n int64) string { return fmt.Sprint(n) }, str).To("out")
	topo, err := b.Build()
	require.NoError(t, err)
	require.NoError(t, c.client.Produce(ctx, "in", []testkit.Message{{Key: []byte("k"), Value: []byte("v")}}))
	folder := filepath.Join(c.dir, "checkpoints")
	out := c.read("out", 1)
	in := func(mode tidegate.Mode, records int) {
		app := run(ctx, t, c.app(topo, "x", tidegate.WithMode(mode), tidegate.WithCheckpointDir(folder), tidegate.WithCheckpointInterval(50*time.Millisecond)))
		await(ctx, t, out, records, app)
		app.end()
	}
	reset := func(withStore bool) (objects int) {
		r, err := runtime.PlanReset(ctx, runtime.KafkaConfig{Brokers: []string{c.broker.Addr()}}, "app", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		defer r.Close()
		if withStore {
			store, err := dir.New(folder)
			require.NoError(t, err)
			objects, err = r.AddStore(ctx, store)
			require.NoError(t, err)
		}
		require.NoError(t, r.Execute(ctx))
		return objects
	}
	in(tidegate.Barrier, 1)
	require.Zero(t, reset(false))
	in(tidegate.Changelog, 2) // has no use for checkpoints
	reset(false)
	app := c.app(topo, "x", tidegate.WithMode(tidegate.Barrier), tidegate.WithCheckpointDir(folder))
	require.ErrorContains(t, app.Run(ctx), "tidegate reset --application app --checkpoints")
	require.Positive(t, reset(true))
	in(tidegate.Barrier, 3)
	for _, m := range out.All()[0] {
		require.Equal(t, "1", string(m.Value), "it began anew each time")
	}
}
