// Package logfaults runs applications in changelog mode over a broker that fails,
// and over restarts, and compares what they write with what they must.
package logfaults

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

const ms = time.Millisecond

var str = serde.String()

// cluster is a broker whose faults a test can choose.
type cluster struct {
	t      *testing.T
	ctx    context.Context
	broker *kfake.Cluster
	client *testkit.Client
	dir    string
}

func newCluster(t *testing.T, topics map[string]int32) *cluster {
	t.Helper()
	b, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(0), kfake.GroupMinSessionTimeout(100*ms),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return (&net.ListenConfig{}).Listen(t.Context(), network, net.JoinHostPort("127.0.0.1", port))
		}))
	require.NoError(t, err)
	t.Cleanup(b.Close)
	client, err := testkit.Dial(b.ListenAddrs()[0])
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	t.Cleanup(cancel)
	for name, n := range topics {
		require.NoError(t, client.CreateTopics(ctx, n, name))
	}
	return &cluster{t, ctx, b, client, t.TempDir()}
}

// app is an instance that runs; a new name has an empty state folder.
type app struct {
	*tidegate.App
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func (c *cluster) start(topo *tidegate.Topology, name string, opts ...tidegate.Option) *app {
	c.t.Helper()
	level := slog.LevelError + 4
	if os.Getenv("TIDEGATE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	inner, err := tidegate.New(topo, append([]tidegate.Option{
		tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.ListenAddrs()...),
		tidegate.WithMode(tidegate.Changelog), tidegate.WithCommitInterval(50 * ms),
		tidegate.WithStateDir(filepath.Join(c.dir, name)), tidegate.WithInstanceName(name),
		tidegate.WithSessionTimeout(2 * time.Second), tidegate.WithLogger(log.With("app", name)),
		tidegate.WithIdleTimeout(200 * ms),
	}, opts...)...)
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(c.ctx)
	a := &app{App: inner, t: c.t, stop: cancel, done: make(chan struct{})}
	go func() {
		a.err = inner.Run(ctx)
		close(a.done)
	}()
	c.t.Cleanup(func() {
		cancel()
		<-a.done
	})
	return a
}

// end stops the instance and waits.
func (a *app) end() {
	a.t.Helper()
	a.stop()
	<-a.done
	require.NoError(a.t, a.err)
}

func (c *cluster) produce(topic string, list ...testkit.Message) {
	c.t.Helper()
	require.NoError(c.t, c.client.Produce(c.ctx, topic, list))
}

func (c *cluster) read(topic string, partitions int32) *testkit.Reader {
	c.t.Helper()
	r, err := c.client.Read(topic, partitions, true)
	require.NoError(c.t, err)
	c.t.Cleanup(r.Close)
	return r
}

// await waits until done says so, or an instance ended.
func (c *cluster) await(done func() bool, apps ...*app) {
	c.t.Helper()
	tick := time.NewTicker(5 * ms)
	defer tick.Stop()
	for !done() {
		for _, a := range apps {
			if a.State() == tidegate.Failed {
				c.t.Fatalf("run ended: %v", a.Health().Err)
			}
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			c.t.Fatal("waited too long")
		}
	}
}

func message(p int32, key, value string, at int64) testkit.Message {
	return testkit.Message{Partition: p, Key: []byte(key), Value: []byte(value), Timestamp: at}
}

// counted is a topology that counts values, behind a repartition topic or by the
// records' keys, with its input and output.
type counted struct {
	*cluster
	topo *tidegate.Topology
	out  *testkit.Reader
	keys int // of each partition
	sent int
}

const parts = 4

func newCounted(t *testing.T, repartition bool) *counted {
	t.Helper()
	c := newCluster(t, map[string]int32{"in": parts, "out": parts})
	b := tidegate.NewBuilder()
	s := b.Stream("in", str, str)
	if repartition {
		s = s.SelectKey(func(_, v string) string { return v }, str)
	}
	s.GroupByKey("by-key").Count("counts").ToStream().To("out")
	topo, err := b.Build()
	require.NoError(t, err)
	return &counted{cluster: c, topo: topo, out: c.read("out", parts), keys: 7}
}

func (c *counted) send(n int) {
	c.t.Helper()
	var list []testkit.Message
	for i := range n {
		list = append(list, message(int32(i%parts), fmt.Sprintf("k%d-%d", i%parts, i%c.keys), fmt.Sprint("v", i%23), int64(i)))
	}
	c.produce("in", list...)
	c.sent += n
}

// round sends n records and waits for their output.
func (c *counted) round(n int, apps ...*app) {
	c.t.Helper()
	c.send(n)
	c.await(func() bool { return c.out.Count() >= c.sent }, apps...)
}

// check compares the output: each count of a key once, in order.
func (c *counted) check() {
	c.t.Helper()
	require.Equal(c.t, c.sent, c.out.Count(), "records of output")
	last := map[string]uint64{}
	for _, list := range c.out.All() {
		for _, m := range list {
			n := binary.BigEndian.Uint64(m.Value)
			require.Equal(c.t, last[string(m.Key)]+1, n, "key %s at offset %d", m.Key, m.Offset)
			last[string(m.Key)] = n
		}
	}
}
