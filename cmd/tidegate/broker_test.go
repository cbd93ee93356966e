package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/serde"
)

// What the commands show of an application that stopped cleanly, and that they do
// it: a repair, with whose checkpoints it starts again, and a reset.
func TestCommandsOverABroker(t *testing.T) {
	b, err := embedded.Start(embedded.Options{Topics: map[string]int32{"in": 1, "out": 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close() //nolint:errcheck // of a test
	folder := t.TempDir()
	store := filepath.Join(folder, "store")
	checkpoints := func(opts ...tidegate.Option) {
		t.Helper()
		runUntilCheckpoint(t, append([]tidegate.Option{
			tidegate.WithApplicationID("app"), tidegate.WithBrokers(b.Addr()), tidegate.WithStateDir(filepath.Join(folder, "state")),
			tidegate.WithCheckpointDir(store), tidegate.WithCheckpointInterval(50 * time.Millisecond), tidegate.WithLogger(slog.New(slog.DiscardHandler)),
		}, opts...))
	}
	says := func(args string, code int, want ...string) {
		t.Helper()
		var out strings.Builder
		if got := run(strings.Fields(args), &out); got != code {
			t.Fatalf("%s: code %d\n%s", args, got, &out)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: no %q in\n%s", args, text, &out)
			}
		}
	}
	at := " --brokers " + b.Addr() + " --application app --checkpoints " + store
	checkpoints()
	says("repair"+at, 0, "checkpoint ", "topology ", "is known to be committed", "consumer group app", "topic app-control", "Nothing was deleted")
	says("upgrade"+at+" --execute", 0, "start the application with tidegate.StartFrom(")
	checkpoints(tidegate.StartFrom("last"))
	says("repair"+at+" --include other", 1, `topic "other" is not among`)
	says("repair"+at+" --sasl-user me", 1, "no SASL password")
	says("reset"+at, 0, "topic app-control", "objects of "+store, "Nothing was deleted")
	says("reset"+at+" --execute", 0, "as if it had never run")
	says("repair"+at, 1, "no checkpoint in")
	checkpoints()
}

// runUntilCheckpoint runs an application until it completed checkpoints, and stops
// it.
func runUntilCheckpoint(t *testing.T, opts []tidegate.Option) {
	t.Helper()
	builder := tidegate.NewBuilder()
	builder.Stream("in", serde.String(), serde.String()).GroupByKey("by-key").Count("n").ToStream().To("out")
	topo, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	app, err := tidegate.New(topo, opts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(time.Minute); app.Health().LastCheckpoint < 1; <-tick.C {
		if app.State() == tidegate.Failed || time.Now().After(limit) {
			t.Fatalf("no checkpoint: %v", app.Health().Err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
