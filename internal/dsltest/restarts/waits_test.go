package restarts_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
)

// A wait that is longer than checkpoints may take is kept, and nobody is blamed
// for checkpoints that cannot be completed meanwhile; a stop does not wait for it.
func TestLongWait(t *testing.T) {
	bothModes(t, func(t *testing.T, c *cluster) {
		const wait = time.Second
		h := &heard{}
		var mu sync.Mutex
		var begun []time.Time
		app := c.app(func(k, _ string) error {
			mu.Lock()
			defer mu.Unlock()
			begun = append(begun, time.Now())
			return errAway
		}, tidegate.WithFailureHandler(retry), tidegate.WithFailureListener(h.add), tidegate.WithRestartStrategy(tidegate.FixedDelay(5, wait)),
			tidegate.WithCheckpointTimeout(100*time.Millisecond), tidegate.WithCheckpointInterval(50*time.Millisecond), tidegate.WithToleratedAborts(0))
		stop := start(t, app)
		c.produce(0, 1)
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(begun) >= 3
		}, 30*time.Second, 10*time.Millisecond)
		mu.Lock()
		times := slices.Clone(begun)
		mu.Unlock()
		for i := range times[1:] {
			if d := times[i+1].Sub(times[i]); d < wait {
				t.Errorf("start %d came after %v", i+1, d)
			}
		}
		at := time.Now()
		require.NoError(t, stop())
		t.Log("stopped in", time.Since(at))
		require.Less(t, time.Since(at), 5*time.Second)
	})
}
