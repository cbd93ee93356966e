package metamorphic

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
)

// TestFleet runs one topology and input under random circumstances of a cluster:
// mode, guarantee, number of instances, partitions and workers, intervals and
// sizes of buffers; and instances that come, go, are cut off from the brokers for
// good, which is what a kill is to the others, or for a while.
func TestFleet(t *testing.T) {
	all := seedsOf(3)
	if *seeds > 0 {
		all = all[:len(kept)+max(1, *seeds/10)]
	}
	for _, seed := range all {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			runFleet(t, seed)
		})
	}
}

// fleet is a brokerRun whose instances come and go.
type fleet struct {
	*brokerRun
	rnd   *rand.Rand
	steps []string // what happened
	next  int      // number of the next instance
	once  bool     // at-least-once: nothing may come or go behind the start
}

func runFleet(t *testing.T, seed int64) {
	rnd := newRand(seed ^ 0x666c656574)
	in := newInput(rnd, 200)
	topo := generate(rnd, in, 8+rnd.IntN(8), in.end-begin+slack)
	f := &fleet{rnd: rnd, brokerRun: &brokerRun{
		t: t, in: in, topo: topo, partitions: int32(1 + rnd.IntN(4)), dir: t.TempDir(), apps: map[string]*instance{},
		mode: []tidegate.Mode{tidegate.Barrier, tidegate.Barrier, tidegate.Changelog}[rnd.IntN(3)], outs: map[*sink]*testkit.Reader{},
	}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v mode, %d partitions\n%s\nsteps:\n%s\nreplay: go test ./internal/dsltest/metamorphic -run TestFleet -seed=%d",
				f.mode, f.partitions, strings.Join(f.steps, "\n"), strings.Join(topo.log, "\n"), seed)
		}
	})
	var err error
	if f.built, err = topo.b.Build(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	f.open()
	f.settings()
	for range 1 + rnd.IntN(3) {
		f.come(ctx)
	}
	f.allRun(ctx)
	f.produce(ctx, in.all[:in.fixed])
	f.await(ctx, "the fixed tables", func(s *sink) bool { return s.first })
	for rest := in.all[in.fixed:]; len(rest) > 0; {
		n := min(len(rest), 1+rnd.IntN(1+len(in.all)/3))
		f.produce(ctx, rest[:n])
		rest = rest[n:]
		if !f.once {
			f.happen(ctx)
		}
	}
	f.await(ctx, "what does not wait for time", func(s *sink) bool { return s.now })
	if !f.once {
		f.happen(ctx)
	}
	f.ticks(ctx)
	f.await(ctx, "everything", func(*sink) bool { return true })
	var late int64
	for name, i := range f.apps {
		late += i.app.Health().Late
		f.end(name)
	}
	if late != 0 {
		t.Errorf("%d records were late", late)
	}
	for _, s := range topo.sinks {
		check(t, s, f.toEnd(ctx, s))
	}
}

// settings draws what all instances have in common.
func (f *fleet) settings() {
	pick := func(from, to int) int { return from + f.rnd.IntN(to-from+1) }
	ms := func(from, to int) time.Duration { return time.Duration(pick(from, to)) * time.Millisecond }
	checkpoints, commits := ms(30, 600), ms(20, 300)
	cache, buffer := []int64{0, 500, 1 << 20}[f.rnd.IntN(3)], int64(pick(1, 4))<<20
	aligned := []int64{1, 10_000, 64 << 20}[f.rnd.IntN(3)]
	standbys := f.rnd.IntN(2)
	f.opts = []tidegate.Option{
		tidegate.WithCheckpointInterval(checkpoints), tidegate.WithCommitInterval(commits), tidegate.WithCacheBytes(cache),
		tidegate.WithBufferBytes(buffer, buffer), tidegate.WithAlignmentBytes(aligned), tidegate.WithStandbys(standbys),
		tidegate.WithSessionTimeout(2 * time.Second), tidegate.WithShutdownDeadline(5 * time.Second),
		tidegate.WithRestartStrategy(tidegate.FixedDelay(-1, 0)),
	}
	if f.once = f.rnd.IntN(4) == 0; f.once {
		f.opts = append(f.opts, tidegate.WithGuarantee(tidegate.AtLeastOnce))
	}
	f.note("checkpoints every %v, commits every %v, cache %d, buffers %d, waiting %d, standbys %d, at least once %t",
		checkpoints, commits, cache, buffer, aligned, standbys, f.once)
}

func (f *fleet) note(format string, args ...any) {
	f.steps = append(f.steps, fmt.Sprintf(format, args...))
}

// come starts an instance with a network of its own.
func (f *fleet) come(ctx context.Context) {
	f.t.Helper()
	f.next++
	name := fmt.Sprint("i", f.next)
	workers := 1 + f.rnd.IntN(3)
	f.note("%s comes with %d workers", name, workers)
	net := &testkit.Network{}
	opts := []tidegate.Option{tidegate.WithWorkers(workers), tidegate.WithSarama(net.Config())}
	if path := os.Getenv("TIDEGATE_TEST_LOG"); path != "" {
		opts = append(opts, tidegate.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("app", name)))
	}
	f.start(ctx, name, opts...)
	f.apps[name].net = net
}

// some picks an instance.
func (f *fleet) some() string {
	names := make([]string, 0, len(f.apps))
	for name := range f.apps {
		names = append(names, name)
	}
	slices.Sort(names)
	return names[f.rnd.IntN(len(names))]
}

// happen lets something happen to the instances; one is left at least.
func (f *fleet) happen(ctx context.Context) {
	f.t.Helper()
	switch kind := f.rnd.IntN(8); {
	case kind < 2 && len(f.apps) < 4:
		f.come(ctx)
	case kind < 4 && len(f.apps) > 1:
		name := f.some()
		f.note("%s goes", name)
		f.end(name)
	case kind == 4:
		name := f.some()
		f.note("%s is killed", name)
		i := f.apps[name]
		delete(f.apps, name)
		i.net.Cut()
		i.stop()
		f.t.Cleanup(func() {
			if err := <-i.done; err != nil {
				f.t.Logf("%s, cut off, ended: %v", name, err)
			}
		})
		if len(f.apps) == 0 {
			f.come(ctx)
		}
	case kind == 5:
		name := f.some()
		d := time.Duration(500+f.rnd.IntN(3500)) * time.Millisecond
		f.note("%s is cut off for %v", name, d)
		net := f.apps[name].net
		net.Cut()
		time.AfterFunc(d, net.Mend)
	case kind == 6:
		<-time.After(time.Duration(f.rnd.IntN(300)) * time.Millisecond)
	}
}

// allRun waits until every instance that came runs, with its share of the tasks:
// then nothing more moves.
func (f *fleet) allRun(ctx context.Context) {
	f.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		running, least, most := true, 1<<30, 0
		for name, i := range f.apps {
			h := i.app.Health()
			if h.State == tidegate.Failed {
				f.t.Fatalf("instance %s failed: %v", name, h.Err)
			}
			running = running && h.State == tidegate.Running && len(h.Restoring) == 0
			least, most = min(least, len(h.Tasks)), max(most, len(h.Tasks))
		}
		if running && most-least <= 1 {
			return
		}
		select {
		case <-ctx.Done():
			f.t.Fatal("not all instances run")
		case <-tick.C:
		}
	}
}
