// Package elastic starts, stops and kills instances in barrier mode over the
// embedded broker, and looks at what each of them had to download.
package elastic

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

var str = serde.String()

type cluster struct {
	t      *testing.T
	broker *embedded.Broker
	client *testkit.Client
	dir    string
	topo   *tidegate.Topology
	out    *testkit.Reader
	sent   int

	mu        sync.Mutex
	processed map[string]int // input records, by partition and offset
}

// count notes that a record of the input is processed.
func (c *cluster) count(r *tidegate.RecordContext, _, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processed[fmt.Sprintf("%d@%d", r.Partition, r.Offset)]++
	return nil
}

// again counts the records of an input partition that were processed more than
// once.
func (c *cluster) again(partition int) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for place, times := range c.processed {
		if times > 1 && strings.HasPrefix(place, strconv.Itoa(partition)+"@") {
			n++
		}
	}
	return n
}

const partitions = 4

// newCluster has a topology that counts records by key behind a repartition
// topic.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	b, err := embedded.Start(embedded.Options{Topics: map[string]int32{"in": partitions, "out": partitions}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	client, err := testkit.Dial(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c := &cluster{t: t, broker: b, client: client, dir: t.TempDir(), processed: map[string]int{}}
	builder := tidegate.NewBuilder()
	builder.Stream("in", str, str).PeekCtx(c.count).GroupBy("by-key", func(_, v string) string { return v }, str).
		Count("counts").ToStream().To("out")
	if c.topo, err = builder.Build(); err != nil {
		t.Fatal(err)
	}
	if c.out, err = client.Read("out", partitions, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.out.Close)
	return c
}

// running is an App that runs.
type running struct {
	*tidegate.App
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

// start runs an instance; its name says which state folder it has.
func (c *cluster) start(name string, opts ...tidegate.Option) *running {
	c.t.Helper()
	level := slog.LevelError + 4
	if os.Getenv("TIDEGATE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	app, err := tidegate.New(c.topo, append([]tidegate.Option{
		tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()),
		tidegate.WithCheckpointDir(filepath.Join(c.dir, "checkpoints")), tidegate.WithCheckpointInterval(100 * time.Millisecond),
		tidegate.WithStateDir(c.folder(name)), tidegate.WithSessionTimeout(2 * time.Second),
		tidegate.WithLogger(log.With("app", name)), tidegate.WithIdleTimeout(time.Second),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{app, c.t, cancel, make(chan error, 1)}
	go func() { r.done <- app.Run(ctx) }()
	c.t.Cleanup(r.end)
	return r
}

func (c *cluster) folder(name string) string { return filepath.Join(c.dir, name) }

// killed makes end leave at once, as a crash does: no last checkpoint, no
// handover, what was not committed is aborted.
func killed() tidegate.Option { return tidegate.WithShutdownDeadline(time.Millisecond) }

// end stops the app and waits.
func (r *running) end() {
	r.stop()
	if err, ok := <-r.done; ok {
		if err != nil {
			r.t.Errorf("run ended: %v", err)
		}
		close(r.done)
	}
}

// eventually polls.
func (c *cluster) eventually(what string, f func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("did not happen in a minute: %s", what)
		}
	}
}

func (c *cluster) running(apps ...*running) {
	c.t.Helper()
	for _, a := range apps {
		c.eventually("it runs", func() bool {
			if a.State() == tidegate.Failed {
				c.t.Fatal(a.Health().Err)
			}
			return a.State() == tidegate.Running && len(a.Health().Tasks) > 0 && len(a.Health().Restoring) == 0
		})
	}
}

// produce sends n records of keys.
func (c *cluster) produce(n, keys int) {
	c.t.Helper()
	var list []testkit.Message
	for i := range n {
		list = append(list, testkit.Message{Partition: int32(i % partitions), Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "key-%06d", (c.sent+i)%keys)})
	}
	if err := c.client.Produce(context.Background(), "in", list); err != nil {
		c.t.Fatal(err)
	}
	c.sent += n
}

// settled waits for the output of all that was sent, and compares it: the counts
// of each key go up by one, without a gap or a repetition.
func (c *cluster) settled(apps ...*running) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	if err := c.out.Await(ctx, func() bool {
		for _, a := range apps {
			if a.State() == tidegate.Failed {
				c.t.Fatal(a.Health().Err)
			}
		}
		return c.out.Count() >= c.sent
	}); err != nil {
		c.t.Fatalf("%d records of %d: %v", c.out.Count(), c.sent, err)
	}
	next := map[string]int{}
	for _, list := range c.out.All() {
		for _, r := range list {
			next[string(r.Key)]++
			if got, err := strconv.Atoi(decode(r.Value)); err != nil || got != next[string(r.Key)] {
				c.t.Fatalf("count %d of %s, want %d (%v)", got, r.Key, next[string(r.Key)], err)
			}
		}
	}
}

// decode reads a count.
func decode(b []byte) string {
	v, err := serde.Int64().Decode(b)
	if err != nil {
		return err.Error()
	}
	return strconv.FormatInt(v, 10)
}

// checkpoints waits until n more completed.
func (c *cluster) checkpoints(a *running, n int) {
	c.t.Helper()
	for range n {
		last := a.Health().LastCheckpoint
		c.eventually("another checkpoint", func() bool { return a.Health().LastCheckpoint > last })
	}
}

// copies are the files that an instance keeps of checkpoints, with their sizes.
func (c *cluster) copies(name string) map[string]int64 {
	c.t.Helper()
	list := map[string]int64{}
	root := filepath.Join(c.folder(name), "files")
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(path, "partial-") {
			if info, err := d.Info(); err == nil {
				list[strings.TrimPrefix(path, root)] = info.Size()
			}
		}
		return nil // files come and go
	})
	return list
}
