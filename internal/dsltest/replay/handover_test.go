package replay_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/dir"
)

// slowStore takes its time for manifests while it is slow, so that checkpoints,
// and handovers with them, last.
type slowStore struct {
	checkpoint.Store
	slow atomic.Bool
}

func (s *slowStore) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if s.slow.Load() {
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Store.PutIfAbsent(ctx, key, data)
}

// A second instance comes while everything is read as it is written. From its
// last barrier until its new owner has read on, a task that moves sends nothing,
// though it was at the end of its input: a join that stays must not go on without
// it, however long the handover takes.
func TestHandoverAtTheLiveEdge(t *testing.T) {
	const history, batch, batches = 500, 20, 250 // event time goes ten times as fast as the clock
	bothModes(t, func(t *testing.T, c *cluster) {
		if c.mode == tidegate.Changelog {
			return // nothing moves at a barrier there
		}
		inner, err := dir.New(filepath.Join(c.dir, "store"))
		require.NoError(t, err)
		store := &slowStore{Store: inner}
		out := c.follow()
		app := func(name string) *tidegate.App {
			return c.app(name, nil, tidegate.WithIdleTimeout(time.Hour), tidegate.WithCheckpointStore(store))
		}
		a, b := app("a"), app("b")
		c.history(0, history)
		stop := start(t, a)
		out.await(history, a)
		store.slow.Store(true)
		stopB := start(t, b)
		n := history
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range batches {
			<-tick.C
			c.history(n, n+batch)
			n += batch
		}
		store.slow.Store(false)
		out.await(n, a, b)
		require.NotEmpty(t, a.Health().Tasks)
		require.NotEmpty(t, b.Health().Tasks)
		stop()
		stopB()
		out.exactlyOnce(n)
	})
}
