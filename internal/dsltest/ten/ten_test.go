package ten

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/dir"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

var (
	measure = flag.Bool("measure", false, "full size, and a bound on the median")
	seconds = flag.Int("seconds", 15, "how long to measure, with -measure")
)

// size is how large a run is.
type size struct {
	instances, keys int
	partitions      int32 // source tasks, and as many stateful ones
	rate            int   // records per second
	interval        time.Duration
	checkpoints     int           // to measure
	median          time.Duration // at most
}

func sizeOf() size {
	if *measure {
		return size{10, 20_000, 100, 20_000, time.Second, *seconds, 500 * time.Millisecond}
	}
	return size{3, 500, 6, 500, 300 * time.Millisecond, 4, 30 * time.Second}
}

// store counts which tasks' files are put.
type store struct {
	checkpoint.Store
	mu    sync.Mutex
	tasks map[ids.TaskID]bool
}

func (s *store) Put(ctx context.Context, key string, src checkpoint.Source) error {
	if n, err := checkpoint.ParseName(key); err == nil && (n.Kind == checkpoint.NameFile || n.Kind == checkpoint.NamePack) {
		s.mu.Lock()
		s.tasks[n.Task] = true
		s.mu.Unlock()
	}
	return s.Store.Put(ctx, key, src)
}

// since returns how many tasks had files put since the call before.
func (s *store) since() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.tasks)
	s.tasks = map[ids.TaskID]bool{}
	return n
}

type fleet struct {
	t      *testing.T
	size   size
	client *testkit.Client
	store  *store
	apps   []*tidegate.App
	sent   map[string]int
	half   atomic.Bool // only keys of half the partitions
}

func start(t *testing.T) *fleet {
	f := &fleet{t: t, size: sizeOf(), sent: map[string]int{}}
	n := f.size.partitions
	b, err := embedded.Start(embedded.Options{Topics: map[string]int32{"in": n, "out": n}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	f.client, err = testkit.Dial(b.Addr())
	require.NoError(t, err)
	t.Cleanup(f.client.Close)
	folder := t.TempDir()
	inner, err := dir.New(filepath.Join(folder, "store"))
	require.NoError(t, err)
	f.store = &store{Store: inner, tasks: map[ids.TaskID]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	t.Cleanup(func() { stop(); done.Wait() })
	for i := range f.size.instances {
		app, err := tidegate.New(f.topology(),
			tidegate.WithApplicationID("app"), tidegate.WithBrokers(b.Addr()),
			tidegate.WithCheckpointStore(f.store), tidegate.WithCheckpointInterval(f.size.interval),
			tidegate.WithStateDir(filepath.Join(folder, fmt.Sprint(i))), tidegate.WithInstanceName(fmt.Sprint("i", i)),
			tidegate.WithSessionTimeout(20*time.Second), tidegate.WithWorkers(1), tidegate.WithLogger(logger(i)),
		)
		require.NoError(t, err)
		f.apps = append(f.apps, app)
		done.Go(func() {
			if err := app.Run(ctx); err != nil {
				t.Errorf("instance %d: %v", i, err)
			}
		})
	}
	return f
}

func logger(i int) *slog.Logger {
	if os.Getenv("TIDEGATE_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("app", i)
}

// topology counts by key behind a repartition topic.
func (f *fleet) topology() *tidegate.Topology {
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.String()).
		GroupBy("by-value", func(_, v string) string { return v }, serde.String()).
		Count("n").ToStream().To("out")
	topo, err := b.Build()
	require.NoError(f.t, err)
	return topo
}

// spread reports whether the tasks are shared out evenly and all run.
func (f *fleet) spread() bool {
	each := 2 * int(f.size.partitions) / f.size.instances
	for _, app := range f.apps {
		if h := app.Health(); h.State != tidegate.Running || len(h.Restoring) > 0 || len(h.Tasks) != each {
			return false
		}
	}
	return true
}

// load produces at the rate until something holds.
func (f *fleet) load(what string, holds func() bool) {
	f.t.Helper()
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	begun, made, end := time.Now(), 0, time.Now().Add(2*time.Minute)
	for i := 0; ; i++ {
		if i%10 == 0 && holds() {
			return
		}
		require.True(f.t, time.Now().Before(end), "wait for %s", what)
		<-tick.C
		var list []testkit.Message
		for due := int(time.Since(begun).Seconds() * float64(f.size.rate)); made < due; made++ {
			key := fmt.Sprint("k", made*7919%f.size.keys)
			if f.half.Load() && ids.Partition([]byte(key), f.size.partitions) >= f.size.partitions/2 {
				continue
			}
			f.sent[key]++
			list = append(list, testkit.Message{Partition: int32(made) % f.size.partitions, Key: []byte("k"), Value: []byte(key), Timestamp: time.Now().UnixMilli()})
		}
		require.NoError(f.t, f.client.Produce(f.t.Context(), "in", list))
	}
}

// checkpoints reads what the control log holds of them: completed ones, and from
// when to when.
type took struct{ from, to int64 }

func (f *fleet) checkpoints() (list []took, aborts int) {
	all, err := f.client.ReadToEnd(f.t.Context(), "app-control", 1, false)
	require.NoError(f.t, err)
	triggers := map[ids.CheckpointID]int64{}
	for _, m := range all[0] {
		r, err := barrier.DecodeRecord(m.Value)
		require.NoError(f.t, err)
		switch b := r.Body.(type) {
		case barrier.Trigger:
			triggers[ids.CheckpointID(m.Offset)] = m.Timestamp
		case barrier.Complete:
			if at, ok := triggers[b.N]; ok {
				list = append(list, took{at, m.Timestamp})
			}
		case barrier.Abort:
			aborts++
		}
	}
	return list, aborts
}

// after lists how long those took that began at a time or later.
func after(list []took, at int64) (out []time.Duration) {
	for _, c := range list {
		if c.from >= at {
			out = append(out, time.Duration(c.to-c.from)*time.Millisecond)
		}
	}
	slices.Sort(out)
	return out
}

// completed returns a function that reports whether n more checkpoints completed.
func (f *fleet) completed(n int) func() bool {
	seen, last := 0, f.apps[0].Health().LastCheckpoint
	return func() bool {
		if now := f.apps[0].Health().LastCheckpoint; now != last {
			seen, last = seen+1, now
		}
		return seen >= n
	}
}

func TestTenInstances(t *testing.T) {
	f := start(t)
	f.load("all instances to run", f.spread)
	f.load("the first checkpoints", f.completed(3))
	at := time.Now().UnixMilli()
	f.load("checkpoints", f.completed(f.size.checkpoints))
	list, aborts := f.checkpoints()
	all := after(list, at)
	require.NotEmpty(t, all)
	median := all[len(all)/2]
	t.Logf("%d instances, %d tasks, %d records/s: %d checkpoints, from Trigger to Complete: median %v, least %v, most %v; %d aborted since the start",
		f.size.instances, 2*f.size.partitions, f.size.rate, len(all), median, all[0], all[len(all)-1], aborts)

	// Tasks whose keys do not come any more upload nothing.
	f.half.Store(true)
	f.load("a checkpoint behind the change", f.completed(2))
	f.store.since()
	f.load("checkpoints of half the tasks", f.completed(3))
	some := f.store.since()
	t.Logf("with keys of half the partitions %d of %d stateful tasks uploaded files", some, f.size.partitions)
	require.LessOrEqual(t, some, int(f.size.partitions)/2)
	require.Positive(t, some)

	f.await()
	require.LessOrEqual(t, median, f.size.median)
}

// await waits until the committed output holds the last count of every key.
func (f *fleet) await() {
	f.t.Helper()
	var mu sync.Mutex
	got := map[string]int{}
	r, err := f.client.Follow("out", f.size.partitions, true, func(m testkit.Message) {
		n, err := serde.Int64().Decode(m.Value)
		mu.Lock()
		defer mu.Unlock()
		if key := strings.Clone(string(m.Key)); err == nil {
			got[key] = int(n)
		}
	})
	require.NoError(f.t, err)
	defer r.Close()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	wrong := ""
	err = r.Await(ctx, func() bool {
		mu.Lock()
		defer mu.Unlock()
		for key, n := range f.sent {
			if got[key] != n {
				wrong = fmt.Sprintf("%s has %d, want %d", key, got[key], n)
				return false
			}
		}
		return true
	})
	require.NoError(f.t, err, wrong)
}
