package modes

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/runtime"
	"github.com/tidegate/tidegate/state"
)

// gate holds up what is written to state in batches, as copies of it are.
type gate struct {
	entered chan struct{} // closed by the first write
	open    chan struct{}
	once    sync.Once
}

func newGate() *gate { return &gate{entered: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) option(c *runtime.Config) {
	c.TestRules.Engine = func(e state.Engine) state.Engine { return gatedEngine{e, g} }
}

type gatedEngine struct {
	state.Engine
	g *gate
}

func (e gatedEngine) Store(name string) (state.KV, error) {
	kv, err := e.Engine.Store(name)
	return gatedKV{kv, e.g}, err
}

func (e gatedEngine) Flush() error {
	if k, ok := e.Engine.(interface{ Flush() error }); ok {
		return k.Flush()
	}
	return nil
}

type gatedKV struct {
	state.KV
	g *gate
}

func (kv gatedKV) Batch() state.Batch { return gatedBatch(kv) }

type gatedBatch struct {
	state.KV
	g *gate
}

func (b gatedBatch) Commit() error {
	b.g.once.Do(func() { close(b.g.entered) })
	<-b.g.open
	return nil
}

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

var restoredRecords = regexp.MustCompile(`msg=restored .*records=(\d+)`)

// restored lists how many records each restore read.
func (l *logBuffer) restored() (records []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range restoredRecords.FindAllSubmatch(l.b.Bytes(), -1) {
		n, _ := strconv.Atoi(string(m[1]))
		records = append(records, n)
	}
	return records
}

// counted is a count per key with input that a test makes in rounds.
type counted struct {
	*cluster
	topo *tidegate.Topology
	out  *testkit.Reader
	sent int
}

func newCounted(t *testing.T) *counted {
	c := newCluster(t, map[string]int32{"in": 4, "out": 4})
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("by-key").Count("counts").ToStream().To("out")
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return &counted{cluster: c, topo: topo, out: c.read("out", 4)}
}

// round sends n records of 500 keys to each partition and waits for the output.
func (c *counted) round(ctx context.Context, n int, app *running) {
	c.t.Helper()
	var list []testkit.Message
	for i := range n {
		for p := range int32(4) {
			list = append(list, message(p, fmt.Sprintf("k%d-%d", p, i%500), "v", 1))
		}
	}
	if err := c.client.Produce(ctx, "in", list); err != nil {
		c.t.Fatal(err)
	}
	c.sent += len(list)
	await(ctx, c.t, c.out, c.sent, app)
}

// check compares the output: each count of a key once, in order.
func (c *counted) check() {
	c.t.Helper()
	if n := c.out.Count(); n != c.sent {
		c.t.Fatalf("%d records of output for %d of input", n, c.sent)
	}
	last := map[string]uint64{}
	for _, list := range c.out.All() {
		for _, m := range list {
			n := binary.BigEndian.Uint64(m.Value)
			if want := last[string(m.Key)] + 1; n != want {
				c.t.Fatalf("key %s at offset %d: count %d, want %d", m.Key, m.Offset, n, want)
			}
			last[string(m.Key)] = n
		}
	}
}

// A new instance gets tasks with state when it has nearly all of that, while their
// owner goes on, and reads next to nothing when they start.
func TestWarmUp(t *testing.T) {
	for _, kind := range []tidegate.StoreKind{tidegate.Pebble, tidegate.Memory} {
		c := newCounted(t)
		ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
		defer cancel()
		opts := []tidegate.Option{tidegate.WithAcceptableLag(100), tidegate.WithMaxWarmups(1), tidegate.WithStateStore(kind)}
		a := run(ctx, t, c.app(c.topo, "a", opts...))
		c.round(ctx, 2000, a)
		var log logBuffer
		g := newGate()
		b := run(ctx, t, c.app(c.topo, "b", append(opts, g.option, tidegate.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...))
		select {
		case <-g.entered:
		case <-ctx.Done():
			t.Fatal("the new instance follows nothing")
		}
		// Its copy makes no progress, and all partitions have output.
		for range 5 {
			c.round(ctx, 100, a)
		}
		if x, y := len(a.Health().Tasks), len(b.Health().Tasks); x != 4 || y != 0 {
			t.Errorf("%v: instances have %d and %d tasks while one has no state, want 4 and 0", kind, x, y)
		}
		close(g.open)
		for len(b.Health().Tasks) != 2 || b.State() != tidegate.Running || len(b.Health().Restoring) > 0 || len(a.Health().Tasks) != 2 {
			c.round(ctx, 10, a)
		}
		c.round(ctx, 100, a)
		got := log.restored()
		if len(got) != 2 || got[0]+got[1] > 200 {
			t.Errorf("%v: tasks that moved restored %v records of more than 2000 each", kind, got)
		}
		a.end()
		c.round(ctx, 100, b)
		b.end()
		c.check()
	}
}

// Where any lag is acceptable, tasks move at once and restore.
func TestWithoutWarmUp(t *testing.T) {
	c := newCounted(t)
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	a := run(ctx, t, c.app(c.topo, "a", tidegate.WithAcceptableLag(math.MaxInt64)))
	c.round(ctx, 2000, a)
	var log logBuffer
	b := run(ctx, t, c.app(c.topo, "b", tidegate.WithAcceptableLag(math.MaxInt64), tidegate.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
	for len(b.Health().Tasks) != 2 || b.State() != tidegate.Running || len(b.Health().Restoring) > 0 {
		c.round(ctx, 10, a)
	}
	if got := log.restored(); len(got) != 2 || got[0]+got[1] < 1000 {
		t.Errorf("restored %v records, want all of two tasks", got)
	}
	a.end()
	b.end()
	c.check()
}
