package partial

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/runtime"
	"github.com/tidegate/tidegate/state"
)

// gate holds restores up: who opens a state while it is closed waits.
type gate struct {
	mu      sync.Mutex
	closed  chan struct{}
	waiting atomic.Int32
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

func (g *gate) pass(e state.Engine) state.Engine {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		g.waiting.Add(1)
		<-closed
		g.waiting.Add(-1)
	}
	return e
}

func (g *gate) option(c *runtime.Config) { c.TestRules.Engine = g.pass }

// RunLong lets tasks of region a fail whose restore takes long, and checks that
// the committed output of region b goes on meanwhile: checkpoints are taken of
// what runs, and hold the others as the last one did. Then they fail again, before
// any checkpoint of their own.
func RunLong(t *testing.T, brokers []string, app, place string) {
	g := &gate{}
	t.Cleanup(g.open)
	c := start(t, brokers, app, g.option)
	c.until("both instances run", c.running)
	before := c.flows["b"].total()
	c.until("output before the failure", func() bool { return c.flows["b"].total() > before+100 })
	for n := range int32(2) {
		restoresLong(t, c, g, place, n)
	}
	all := c.sent.Load()
	require.Eventually(t, func() bool { return c.flows["a"].total() == all && c.flows["b"].total() == all }, time.Minute, time.Millisecond,
		"output of all records")
	for key, n := range c.flows["a"].counts {
		require.Equal(t, c.flows["b"].counts[key], n, key)
	}
	for _, p := range []string{"b-first", "b-second"} {
		t.Logf("processed again at %s: %d", p, c.count.reprocessed(p))
	}
}

func restoresLong(t *testing.T, c *cluster, g *gate, place string, n int32) {
	g.close()
	c.fail.next(place)
	c.until("the failure", func() bool { return c.heard.Load() > n && g.waiting.Load() > 0 })
	c.flows["b"].reset()
	a, begun := c.flows["a"].total(), time.Now()
	const long = 15 * interval
	at := c.sent.Load()
	c.until("output of region b while a restores", func() bool { return time.Since(begun) > long && c.flows["b"].total() >= at })
	gap := c.flows["b"].longest()
	t.Logf("while region a restored for %v: longest gap in the output of region b %v, output of a: %d", time.Since(begun).Round(time.Millisecond), gap, c.flows["a"].total()-a)
	require.Positive(t, g.waiting.Load(), "nothing restored any more")
	require.Less(t, gap, long/2)
	for _, app := range c.apps {
		require.Equal(t, tidegate.Running, app.Health().State, "others of the instance run")
	}
	g.open()
	c.until("region a goes on", c.running)
}
