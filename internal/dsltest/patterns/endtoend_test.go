package patterns_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/runtime"
)

// logs is a log that tests read while it is written.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), text)
}

type cluster struct {
	t      *testing.T
	ctx    context.Context
	broker *embedded.Broker
	client *testkit.Client
	dir    string
	mode   tidegate.Mode
	log    logs
}

func newCluster(t *testing.T, mode tidegate.Mode, topics map[string]int32) *cluster {
	t.Helper()
	b, err := embedded.Start(embedded.Options{Topics: topics})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	client, err := testkit.Dial(b.Addr())
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return &cluster{t: t, ctx: ctx, broker: b, client: client, dir: t.TempDir(), mode: mode}
}

// start runs an instance; end stops it and waits.
func (c *cluster) start(top *tidegate.Topology, name string) (running *tidegate.App, end func()) {
	c.t.Helper()
	app, err := tidegate.New(top,
		tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()), tidegate.WithMode(c.mode),
		tidegate.WithCheckpointDir(filepath.Join(c.dir, "checkpoints")), tidegate.WithStateDir(filepath.Join(c.dir, name)),
		tidegate.WithInstanceName(name), tidegate.WithCheckpointInterval(200*time.Millisecond), tidegate.WithSessionTimeout(2*time.Second),
		tidegate.WithCommitInterval(50*time.Millisecond), tidegate.WithLogger(slog.New(slog.NewTextHandler(&c.log, nil)).With("app", name)),
		func(c *runtime.Config) { c.ListTopicsEvery = 20 * time.Millisecond })
	require.NoError(c.t, err)
	ctx, stop := context.WithCancel(c.ctx)
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	end = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			c.t.Errorf("instance %s: %v", name, err)
		}
	})
	c.t.Cleanup(end)
	return app, end
}

func (c *cluster) produce(topic string, n int) {
	c.t.Helper()
	var list []testkit.Message
	for i := range n {
		list = append(list, testkit.Message{Partition: int32(i % 2), Value: fmt.Appendf(nil, "w%d", i%10), Timestamp: int64(i)})
	}
	require.NoError(c.t, c.client.Produce(c.ctx, topic, list))
}

// await reads until n counts came, and checks that none is missing or double.
func (c *cluster) await(out *testkit.Reader, n int, apps ...*tidegate.App) {
	c.t.Helper()
	require.NoError(c.t, out.Await(c.ctx, func() bool {
		for _, a := range apps {
			if a.State() == tidegate.Failed {
				c.t.Fatal(a.Health().Err)
			}
		}
		return out.Count() >= n
	}))
	last := map[string]uint64{}
	for _, list := range out.All() {
		for _, m := range list {
			v := binary.BigEndian.Uint64(m.Value)
			require.Equal(c.t, last[string(m.Key)]+1, v, "counts of %s", m.Key)
			last[string(m.Key)] = v
		}
	}
	require.Equal(c.t, n, out.Count())
}

func (c *cluster) eventually(what string, f func() bool) {
	c.t.Helper()
	require.Eventually(c.t, f, time.Minute, 5*time.Millisecond, what)
}

// Two instances read by pattern. A topic that appears is told of; an instance
// that starts then, and would read it, reads what the group's leader does. After
// a restart of all it is read from its start, state goes on, nothing is lost and
// nothing double.
func TestTopicsThatAppearLater(t *testing.T) {
	for _, mode := range []tidegate.Mode{tidegate.Barrier, tidegate.Changelog} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCluster(t, mode, map[string]int32{"orders-eu": 2, "out": 2})
			top := build(t, func(b *tidegate.Builder) {
				b.StreamPattern("orders-.*", str, str).
					GroupBy("by-word", func(_, v string) string { return v }, str).
					Count("counts").ToStream().To("out")
			})
			out, err := c.client.Read("out", 2, true)
			require.NoError(t, err)
			defer out.Close()
			c.produce("orders-eu", 1000)
			a, endA := c.start(top, "a")
			b, endB := c.start(top, "b")
			c.await(out, 1000, a, b)

			require.NoError(t, c.broker.CreateTopic("orders-us", 2))
			c.produce("orders-us", 1000)
			c.eventually("a warning", func() bool { return c.log.has("appeared and are not read yet") && c.log.has("orders-us") })
			third, endC := c.start(top, "c")
			c.eventually("the leader's list", func() bool { return c.log.has("reading the topics that the leader") })
			c.eventually("tasks again", func() bool { return third.State() == tidegate.Running && len(third.Health().Tasks) > 0 })
			c.produce("orders-eu", 1000)
			c.await(out, 2000, a, b, third)
			endA()
			endB()
			endC()

			a, endA = c.start(top, "a")
			b, endB = c.start(top, "b")
			c.await(out, 3000, a, b)
			c.produce("orders-us", 500)
			c.await(out, 3500, a, b)
			endA()
			endB()
		})
	}
}

func TestNoTopicMatches(t *testing.T) {
	c := newCluster(t, tidegate.Barrier, map[string]int32{"other": 1, "out": 1})
	top := build(t, func(b *tidegate.Builder) { b.StreamPattern("orders-.*", str, str).To("out") })
	app, err := tidegate.New(top, tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()),
		tidegate.WithCheckpointDir(c.dir), tidegate.WithStateDir(t.TempDir()), tidegate.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.ErrorContains(t, app.Run(c.ctx), `no topic matches the pattern "orders-.*"`)
}

// Tasks are as many as partitions at the first start: a later topic may not need
// more.
func TestLaterTopicWithMorePartitions(t *testing.T) {
	c := newCluster(t, tidegate.Barrier, map[string]int32{"orders-eu": 2, "out": 2})
	top := build(t, func(b *tidegate.Builder) { b.StreamPattern("orders-.*", str, str).To("out") })
	out, err := c.client.Read("out", 2, true)
	require.NoError(t, err)
	defer out.Close()
	c.produce("orders-eu", 10)
	_, end := c.start(top, "a")
	require.NoError(t, out.Await(c.ctx, func() bool { return out.Count() == 10 }))
	end()
	require.NoError(t, c.broker.CreateTopic("orders-us", 3))
	app, err := tidegate.New(top, tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()),
		tidegate.WithCheckpointDir(filepath.Join(c.dir, "checkpoints")), tidegate.WithStateDir(t.TempDir()), tidegate.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	err = app.Run(c.ctx)
	require.ErrorContains(t, err, `topic "orders-us", which appeared after checkpoint`)
	require.ErrorContains(t, err, "has 3 partitions, and the checkpoint has 2 tasks")

	require.NoError(t, c.client.K.Admin().DeleteTopics(c.ctx, "orders-eu", "orders-us"))
	require.NoError(t, c.broker.CreateTopic("orders-ap", 1))
	app, err = tidegate.New(top, tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()),
		tidegate.WithCheckpointDir(filepath.Join(c.dir, "checkpoints")), tidegate.WithStateDir(t.TempDir()), tidegate.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.ErrorContains(t, app.Run(c.ctx), `topic "orders-eu", which checkpoint`)
}
