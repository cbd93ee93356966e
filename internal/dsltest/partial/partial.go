// Package partial runs two instances of an application whose topology has
// two regions that share nothing, lets a task of the first fail, and checks that
// the second does not notice: no record of it is processed twice, and its
// committed output keeps flowing (R26). The test here uses the in-process broker,
// one of package integration a real one.
package partial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

var str = serde.String()

const (
	partitions = 4
	keys       = 8
	interval   = 100 * time.Millisecond
	session    = 6 * time.Second
)

// counter counts how often each record was processed, at each place of the
// topology.
type counter struct {
	mu    sync.Mutex
	seen  map[string]int
	again map[string]int // per place
	parts map[string]*progress
}

// progress is that of one partition at one place.
type progress struct {
	again int // records processed again
	last  time.Time
	gap   time.Duration // the longest time without any
}

func (c *counter) at(place string) func(*tidegate.RecordContext, string, string) error {
	return func(r *tidegate.RecordContext, _, _ string) error {
		part := fmt.Sprintf("%s %d", place, r.Partition)
		id := fmt.Sprintf("%s %s@%d", part, r.Topic, r.Offset)
		c.mu.Lock()
		defer c.mu.Unlock()
		p := c.parts[part]
		if p == nil {
			p = &progress{last: time.Now()}
			c.parts[part] = p
		}
		if c.seen[id]++; c.seen[id] > 1 {
			c.again[place]++
			p.again++
		}
		p.gap, p.last = max(p.gap, time.Since(p.last)), time.Now()
		return nil
	}
}

// of returns the progress of a partition, and begins to measure anew.
func (c *counter) of(place string, partition int) progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.parts[fmt.Sprintf("%s %d", place, partition)]
	if p == nil {
		return progress{}
	}
	was := *p
	was.gap = max(was.gap, time.Since(p.last))
	p.again, p.gap, p.last = 0, 0, time.Now()
	return was
}

func (c *counter) reprocessed(place string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.again[place]
}

var errAway = errors.New("away")

// failing is where the next record fails, once.
type failing struct{ place atomic.Pointer[string] }

func (f *failing) at(place string) func(*tidegate.RecordContext, string, string) error {
	return func(*tidegate.RecordContext, string, string) error {
		if p := f.place.Load(); p != nil && *p == place && f.place.CompareAndSwap(p, nil) {
			return errAway
		}
		return nil
	}
}

func (f *failing) next(place string) { f.place.Store(&place) }

func topology(t *testing.T, prefix string, c *counter, f *failing) *tidegate.Topology {
	b := tidegate.NewBuilder()
	for _, region := range []string{"a", "b"} {
		b.Stream(prefix+region+"-in", str, str).
			PeekCtx(c.at(region+"-first")).PeekCtx(f.at(region+"-first")).
			SelectKey(func(_, v string) string { return v }, str).Repartition(region + "-by-value").
			PeekCtx(c.at(region + "-second")).PeekCtx(f.at(region + "-second")).
			GroupByKey(region + "-g").Count(region + "-n").ToStream().To(prefix + region + "-out")
	}
	topo, err := b.Build()
	require.NoError(t, err)
	return topo
}

// flow follows the committed output of a region: the last count of each key, and
// the longest time without any.
type flow struct {
	mu     sync.Mutex
	counts map[string]int64
	last   time.Time
	gap    time.Duration
}

func (f *flow) take(m testkit.Message) {
	n, _ := serde.Int64().Decode(m.Value)
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if !f.last.IsZero() {
		f.gap = max(f.gap, now.Sub(f.last))
	}
	f.last = now
	f.counts[string(m.Key)] = n
}

func (f *flow) reset() {
	f.mu.Lock()
	f.gap, f.last = 0, time.Now()
	f.mu.Unlock()
}

func (f *flow) longest() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.gap, time.Since(f.last))
}

func (f *flow) total() (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.counts {
		n += v
	}
	return n
}

// cluster is two instances under load.
type cluster struct {
	t      *testing.T
	prefix string // of topics
	count  *counter
	fail   *failing
	client *testkit.Client
	flows  map[string]*flow
	heard  atomic.Int32 // failures
	sent   atomic.Int64 // per region
	stop   context.CancelFunc
	done   sync.WaitGroup
	apps   []*tidegate.App
	nets   []*testkit.Network // of the apps
}

func start(t *testing.T, brokers []string, app string, more ...tidegate.Option) *cluster {
	client, err := testkit.Dial(brokers...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	prefix := app + "-"
	require.NoError(t, client.CreateTopics(t.Context(), partitions, prefix+"a-in", prefix+"b-in", prefix+"a-out", prefix+"b-out"))
	c := &cluster{
		t: t, prefix: prefix, count: &counter{seen: map[string]int{}, again: map[string]int{}, parts: map[string]*progress{}}, fail: &failing{},
		client: client, flows: map[string]*flow{},
	}
	for _, region := range []string{"a", "b"} {
		f := &flow{counts: map[string]int64{}}
		c.flows[region] = f
		r, err := client.Follow(prefix+region+"-out", partitions, true, f.take)
		require.NoError(t, err)
		t.Cleanup(r.Close)
	}
	dir := t.TempDir()
	for _, name := range []string{"x", "y"} {
		log := slog.New(slog.DiscardHandler)
		if os.Getenv("TIDEGATE_TEST_LOG") != "" {
			log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("app", name)
		}
		net := &testkit.Network{}
		c.nets = append(c.nets, net)
		instance, err := tidegate.New(topology(t, prefix, c.count, c.fail), append([]tidegate.Option{
			tidegate.WithApplicationID(app), tidegate.WithBrokers(brokers...), tidegate.WithInstanceName(name),
			tidegate.WithStateDir(filepath.Join(dir, name)), tidegate.WithCheckpointDir(filepath.Join(dir, "store")),
			tidegate.WithCheckpointInterval(interval), tidegate.WithSessionTimeout(session), tidegate.WithLogger(log),
			tidegate.WithSarama(net.Config()),
			tidegate.WithRestartStrategy(tidegate.FixedDelay(-1, 0)),
			tidegate.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Retry }),
			tidegate.WithFailureListener(func(tidegate.Failure) { c.heard.Add(1) }),
		}, more...)...)
		require.NoError(t, err)
		c.apps = append(c.apps, instance)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	for _, app := range c.apps {
		c.done.Go(func() {
			if err := app.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(func() { cancel(); c.done.Wait() })
	return c
}

// produce writes the same to both regions.
func (c *cluster) produce(n int) {
	var list []testkit.Message
	for range n {
		v := c.sent.Add(1)
		list = append(list, testkit.Message{Partition: int32(v) % partitions, Key: []byte("k"), Value: fmt.Appendf(nil, "v%d", v%keys), Timestamp: time.Now().UnixMilli()})
	}
	for _, region := range []string{"a", "b"} {
		require.NoError(c.t, c.client.Produce(context.Background(), c.prefix+region+"-in", list))
	}
}

// until produces until something holds.
func (c *cluster) until(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); {
		require.False(c.t, time.Now().After(end), what)
		c.produce(20)
	}
}

func (c *cluster) running() bool {
	tasks := 0
	for _, app := range c.apps {
		h := app.Health()
		if h.State != tidegate.Running || len(h.Tasks) == 0 || len(h.Restoring) > 0 {
			return false
		}
		tasks += len(h.Tasks)
	}
	return tasks == 4*partitions
}

// Places are where a task of region a can fail: in the first subtopology or in
// the second, which reads what the first writes.
var Places = []string{"a-first", "a-second"}

// Run lets tasks of region a fail at a place, and checks that region b, and what
// is upstream, go on. app names the application and its topics.
func Run(t *testing.T, brokers []string, app, place string) {
	c := start(t, brokers, app)
	c.until("both instances run", c.running)
	before := c.flows["b"].total()
	c.until("output before the failure", func() bool { return c.flows["b"].total() > before+100 })
	settled := map[string]int{}
	for _, p := range []string{"a-first", "a-second", "b-first", "b-second"} {
		settled[p] = c.count.reprocessed(p) // by the handover of the start
	}
	c.flows["b"].reset()
	const failures = 5
	for n := range int32(failures) {
		c.fail.next(place)
		c.until("the failure", func() bool { return c.heard.Load() > n })
		at := c.sent.Load()
		c.until("region a goes on", func() bool { return c.running() && c.flows["a"].total() >= at })
	}
	all := c.sent.Load()
	require.Eventually(t, func() bool { return c.flows["a"].total() == all && c.flows["b"].total() == all }, time.Minute, time.Millisecond)
	gap := c.flows["b"].longest()
	again := map[string]int{}
	for p, n := range settled {
		again[p] = c.count.reprocessed(p) - n
	}
	t.Logf("%d failures in %s, %d records per region: processed again %v, longest gap in the output of region b %v", failures, place, all, again, gap)
	for p, n := range again {
		if n > 0 && (strings.HasPrefix(p, "b") || p == "a-first" && place == "a-second") {
			t.Errorf("%d records were processed again at %s", n, p)
		}
	}
	require.Less(t, gap, 5*time.Second)
	for key, n := range c.flows["a"].counts {
		require.Equal(t, c.flows["b"].counts[key], n, key)
	}
}
