package modes

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
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
	reset, err := runtime.PlanReset(ctx, []string{c.broker.Addr()}, "a", slog.New(slog.DiscardHandler))
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
