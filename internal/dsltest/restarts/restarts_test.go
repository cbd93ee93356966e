// Package restarts_test runs applications whose functions fail, on the
// in-process broker and in both modes: what the restart strategy decides, what
// listeners hear, and that nothing is lost or doubled by it.
package restarts_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

var str = serde.String()

var errAway = errors.New("the database is away")

// cluster is a broker with a topic "in" of one partition, and the folders of one
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
			b, err := embedded.Start(embedded.Options{Topics: map[string]int32{"in": 1, "out": 1}})
			require.NoError(t, err)
			t.Cleanup(func() { _ = b.Close() })
			client, err := testkit.Dial(b.Addr())
			require.NoError(t, err)
			t.Cleanup(client.Close)
			f(t, &cluster{t, b, client, t.TempDir(), mode})
		})
	}
}

// app counts records by key; f sees each record first and may fail.
func (c *cluster) app(f func(k, v string) error, opts ...tidegate.Option) *tidegate.App {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).
		Filter(func(k, v string) bool {
			if err := f(k, v); err != nil {
				panic(err)
			}
			return true
		}).
		GroupByKey("g").Count("n").ToStream().To("out")
	topo, err := b.Build()
	require.NoError(c.t, err)
	all := []tidegate.Option{
		tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()), tidegate.WithMode(c.mode),
		tidegate.WithStateDir(filepath.Join(c.dir, "state")), tidegate.WithLogger(slog.New(slog.DiscardHandler)),
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

func (c *cluster) produce(from, to int) {
	var list []testkit.Message
	for n := from; n < to; n++ {
		list = append(list, testkit.Message{Key: fmt.Appendf(nil, "k%d", n%3), Value: fmt.Appendf(nil, "%d", n), Timestamp: int64(n)})
	}
	require.NoError(c.t, c.client.Produce(c.t.Context(), "in", list))
}

// await reads committed output until each of the three keys has counted to n,
// and returns how often each count came: with one key's counts in a row, a
// record that was processed twice shows as a count beyond n.
func (c *cluster) await(n int) {
	out, err := c.client.Read("out", 1, true)
	require.NoError(c.t, err)
	defer out.Close()
	last := func(k string) (v int64) {
		for _, m := range out.All()[0] {
			if string(m.Key) == k {
				v, _ = serde.Int64().Decode(m.Value)
			}
		}
		return v
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	err = out.Await(ctx, func() bool { return last("k0") == int64(n) && last("k1") == int64(n) && last("k2") == int64(n) })
	require.NoError(c.t, err, "counts %d, %d, %d of %d", last("k0"), last("k1"), last("k2"), n)
}

// heard collects what a failure listener is told.
type heard struct {
	mu   sync.Mutex
	list []tidegate.Failure
}

func (h *heard) add(f tidegate.Failure) {
	h.mu.Lock()
	h.list = append(h.list, f)
	h.mu.Unlock()
}

func (h *heard) all() []tidegate.Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.list)
}

// start runs the application until stop, which returns what Run did.
func start(t *testing.T, app *tidegate.App) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func retry(error) tidegate.FailureAction { return tidegate.Retry }

// What the user's handler wants to retry is retried as the strategy says, until
// it goes well; each record counts once.
func TestRetry(t *testing.T) {
	bothModes(t, func(t *testing.T, c *cluster) {
		var h heard
		var failed atomic.Int32
		app := c.app(func(_, v string) error {
			if v == "7" && failed.Add(1) <= 3 {
				return errAway
			}
			return nil
		}, tidegate.WithFailureHandler(retry), tidegate.WithFailureListener(h.add),
			tidegate.WithRestartStrategy(tidegate.FixedDelay(5, 20*time.Millisecond)))
		c.produce(0, 30)
		stop := start(t, app)
		c.await(10)
		require.NoError(t, stop())
		list := h.all()
		require.Len(t, list, 3)
		for _, f := range list {
			var rec *tidegate.RecordError
			require.ErrorIs(t, f.Err, errAway)
			require.ErrorAs(t, f.Err, &rec)
			require.Equal(t, int64(7), rec.Offset)
			require.Equal(t, tidegate.UserCode, f.Cause)
			require.True(t, f.Restart)
			require.Equal(t, 20*time.Millisecond, f.Delay)
			require.LessOrEqual(t, f.Attempt, 3)
		}
		health := app.Health()
		require.Equal(t, int64(3), health.Failures)
		require.ErrorIs(t, health.LastFailure.Err, errAway)
	})
}

// An application that gives up ends with the last error; the next start goes on
// from the state that it left.
func TestGiveUp(t *testing.T) {
	bothModes(t, func(t *testing.T, c *cluster) {
		var h heard
		fail := func(_, v string) error {
			if v == "37" {
				return errAway
			}
			return nil
		}
		app := c.app(fail, tidegate.WithFailureHandler(retry), tidegate.WithFailureListener(h.add),
			tidegate.WithRestartStrategy(tidegate.FixedDelay(2, time.Millisecond)))
		c.produce(0, 30)
		stop := start(t, app)
		c.await(10) // this much is committed
		c.produce(30, 60)
		require.Eventually(t, func() bool { return app.State() == tidegate.Failed }, time.Minute, time.Millisecond)
		err := stop()
		require.ErrorIs(t, err, errAway)
		require.ErrorContains(t, err, "2 restarts in a row")
		list := h.all()
		require.GreaterOrEqual(t, len(list), 3)
		require.False(t, list[len(list)-1].Restart)
		for _, f := range list[:len(list)-1] {
			require.True(t, f.Restart)
		}

		stop = start(t, c.app(func(_, _ string) error { return nil }))
		c.await(20)
		require.NoError(t, stop())
	})
}

// An error of user code ends the application at once, whatever the strategy.
func TestUserErrorEnds(t *testing.T) {
	bothModes(t, func(t *testing.T, c *cluster) {
		var h heard
		app := c.app(func(_, v string) error {
			if v == "7" {
				return errAway
			}
			return nil
		}, tidegate.WithFailureListener(h.add), tidegate.WithRestartStrategy(tidegate.FixedDelay(-1, 0)))
		c.produce(0, 30)
		stop := start(t, app)
		require.Eventually(t, func() bool { return app.State() == tidegate.Failed }, time.Minute, time.Millisecond)
		require.ErrorIs(t, stop(), errAway)
		list := h.all()
		require.Len(t, list, 1)
		require.Equal(t, tidegate.UserCode, list[0].Cause)
		require.False(t, list[0].Restart)
		require.Zero(t, list[0].Attempt)
	})
}

// registry is a serde whose schema registry is away for the first records.
type registry struct {
	serde.Serde[string]
	away *atomic.Int32
}

func (r registry) Decode(b []byte) (string, error) {
	if r.away.Add(-1) >= 0 {
		return "", fmt.Errorf("look up a schema: %w", serde.ErrUnavailable)
	}
	return r.Serde.Decode(b)
}

// A schema registry that is away is no fault of the record: the tasks start
// again, without a word of the failure handler.
func TestInfrastructureRestarts(t *testing.T) {
	bothModes(t, func(t *testing.T, c *cluster) {
		var h heard
		var away atomic.Int32
		away.Store(2)
		old := str
		str = registry{old, &away}
		app := c.app(func(_, _ string) error { return nil }, tidegate.WithFailureListener(h.add),
			tidegate.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Skip }))
		str = old
		c.produce(0, 30)
		stop := start(t, app)
		c.await(10)
		require.NoError(t, stop())
		list := h.all()
		require.Len(t, list, 2)
		for _, f := range list {
			require.Equal(t, tidegate.Infrastructure, f.Cause)
			require.ErrorIs(t, f.Err, serde.ErrUnavailable)
			require.True(t, f.Restart)
		}
	})
}

// NoRestart ends the application with what would be retried.
func TestNoRestart(t *testing.T) {
	bothModes(t, func(t *testing.T, c *cluster) {
		app := c.app(func(_, _ string) error { return errAway }, tidegate.WithFailureHandler(retry),
			tidegate.WithFailureListener(func(tidegate.Failure) { panic("the listener, too") }),
			tidegate.WithRestartStrategy(tidegate.NoRestart()))
		c.produce(0, 3)
		stop := start(t, app)
		require.Eventually(t, func() bool { return app.State() == tidegate.Failed }, time.Minute, time.Millisecond)
		err := stop()
		require.ErrorIs(t, err, errAway)
		require.ErrorContains(t, err, "NoRestart")
	})
}
