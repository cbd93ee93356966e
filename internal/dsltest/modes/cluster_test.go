// Package modes runs topologies in changelog mode over the embedded broker and
// compares them with the driver, or with another run.
package modes

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
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
}

func newCluster(t *testing.T, topics map[string]int32) *cluster {
	t.Helper()
	b, err := embedded.Start(embedded.Options{Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	c, err := testkit.Dial(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &cluster{t, b, c, t.TempDir()}
}

// app makes an instance in changelog mode; a new name has an empty state folder.
func (c *cluster) app(topo *tidegate.Topology, name string, opts ...tidegate.Option) *tidegate.App {
	c.t.Helper()
	level := slog.LevelError + 4
	if os.Getenv("TIDEGATE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	app, err := tidegate.New(topo, append([]tidegate.Option{
		tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()),
		tidegate.WithMode(tidegate.Changelog), tidegate.WithCommitInterval(50 * time.Millisecond),
		tidegate.WithStateDir(filepath.Join(c.dir, name)), tidegate.WithInstanceName(name),
		tidegate.WithSessionTimeout(2 * time.Second), tidegate.WithLogger(log.With("app", name)),
		tidegate.WithIdleTimeout(time.Second),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return app
}

// running is an App that runs.
type running struct {
	*tidegate.App
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

func run(ctx context.Context, t *testing.T, app *tidegate.App) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	r := &running{app, t, cancel, make(chan error, 1)}
	go func() { r.done <- app.Run(ctx) }()
	t.Cleanup(r.end)
	return r
}

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

func (c *cluster) read(topic string, partitions int32) *testkit.Reader {
	c.t.Helper()
	r, err := c.client.Read(topic, partitions, true)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(r.Close)
	return r
}

// await reads until the output has n records, or the app ended.
func await(ctx context.Context, t *testing.T, out *testkit.Reader, n int, app *running) {
	t.Helper()
	err := out.Await(ctx, func() bool {
		if app.State() == tidegate.Failed {
			t.Fatalf("run ended: %v", app.Health().Err)
		}
		return out.Count() >= n
	})
	if err != nil {
		t.Fatalf("%d records of %d: %v", out.Count(), n, err)
	}
}
