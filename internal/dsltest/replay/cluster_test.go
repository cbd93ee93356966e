// Package replay_test reads history at once, on the in-process broker and in both
// modes: a join of an external topic with a repartitioned one must not run ahead
// on the external side, which can be read faster, and must not wait at the live
// edge.
package replay_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

var str = serde.String()

const partitions = 4

// cluster is a broker with the topics of a join, and the folders of one
// application.
type cluster struct {
	t      *testing.T
	broker *embedded.Broker
	client *testkit.Client
	dir    string
	mode   tidegate.Mode
}

func bothModes(t *testing.T, f func(t *testing.T, c *cluster)) {
	for _, mode := range []tidegate.Mode{tidegate.Barrier, tidegate.Changelog} {
		t.Run(mode.String(), func(t *testing.T) {
			b, err := embedded.Start(embedded.Options{Topics: map[string]int32{
				"persons": partitions, "auctions": partitions, "out": partitions,
			}})
			require.NoError(t, err)
			t.Cleanup(func() { _ = b.Close() })
			client, err := testkit.Dial(b.Addr())
			require.NoError(t, err)
			t.Cleanup(client.Close)
			f(t, &cluster{t, b, client, t.TempDir(), mode})
		})
	}
}

// app joins persons with the auctions that they sell, which are keyed by
// auction and so reach the join through a topic. Value of an auction: its
// seller, and something that is not looked at.
func (c *cluster) app(name string, joined func(person, auction string), opts ...tidegate.Option) *tidegate.App {
	b := tidegate.NewBuilder()
	persons := b.Stream("persons", str, str)
	b.Stream("auctions", str, str).
		SelectKey(seller, str).
		JoinStream("sales", persons, tidegate.JoinWithin(window).Grace(grace), func(auction, person string) string {
			if joined != nil {
				joined(person, auction)
			}
			return person
		}, str).
		To("out")
	topo, err := b.Build()
	require.NoError(c.t, err)
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("TIDEGATE_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("app", name)
	}
	all := []tidegate.Option{
		tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()), tidegate.WithMode(c.mode),
		tidegate.WithStateDir(filepath.Join(c.dir, name)), tidegate.WithInstanceName(name), tidegate.WithLogger(log),
		tidegate.WithSessionTimeout(2 * time.Second),
	}
	if c.mode == tidegate.Barrier {
		all = append(all, tidegate.WithCheckpointDir(filepath.Join(c.dir, "store")), tidegate.WithCheckpointInterval(100*time.Millisecond))
	} else {
		all = append(all, tidegate.WithCommitInterval(50*time.Millisecond))
	}
	app, err := tidegate.New(topo, append(all, opts...)...)
	require.NoError(c.t, err)
	return app
}

func seller(_, auction string) string {
	for i := range auction {
		if auction[i] == ' ' {
			return auction[:i]
		}
	}
	return auction
}

// person and auction are the i-th records; each auction finds its person.
func person(i int) testkit.Message {
	return message(fmt.Sprint("p", i), fmt.Sprint("p", i), first+int64(i)*each)
}

func auction(i int, rest string) testkit.Message {
	return message(fmt.Sprint("a", i), fmt.Sprint("p", i, " ", rest), first+int64(i)*each+window.Milliseconds()/2)
}

func message(key, value string, ts int64) testkit.Message {
	return testkit.Message{Partition: ids.Partition([]byte(key), partitions), Key: []byte(key), Value: []byte(value), Timestamp: ts}
}

func (c *cluster) produce(topic string, list []testkit.Message) {
	c.t.Helper()
	require.NoError(c.t, c.client.Produce(c.t.Context(), topic, list))
}

// start runs an app; stop ends it and waits.
func start(t *testing.T, app *tidegate.App) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// results are committed ones, counted by key.
type results struct {
	t      *testing.T
	reader *testkit.Reader
	mu     sync.Mutex
	seen   map[string]int
	n      int
}

func (c *cluster) follow() *results {
	r := &results{t: c.t, seen: map[string]int{}}
	var err error
	r.reader, err = c.client.Follow("out", partitions, true, func(m testkit.Message) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen[string(m.Key)]++
		r.n++
	})
	require.NoError(c.t, err)
	c.t.Cleanup(r.reader.Close)
	return r
}

func (r *results) keys() (distinct, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen), r.n
}

// await waits until n keys have a result; a record that is late will never have.
func (r *results) await(n int, apps ...*tidegate.App) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	distinct := 0
	err := r.reader.Await(ctx, func() bool {
		distinct, _ = r.keys()
		late := int64(0)
		for _, app := range apps {
			if app.State() == tidegate.Failed {
				r.t.Fatalf("run ended: %v", app.Health().Err)
			}
			late += app.Health().Late
		}
		if late > 0 {
			r.t.Fatalf("%d records late, %d results of %d", late, distinct, n)
		}
		return distinct >= n
	})
	require.NoError(r.t, err, "%d results of %d", distinct, n)
}
