package partial

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
)

// RunKilled cuts one of two instances off from the brokers for good, which is what
// a kill is to the other, and checks that the tasks of the other that read the
// input go on: they process no record twice, and do not stand still until the loss
// is noticed, nor while what was lost starts again (R26). Output becomes visible
// with the first checkpoint behind that.
func RunKilled(t *testing.T, brokers []string, app string) {
	c := start(t, brokers, app)
	c.until("both instances run", c.running)
	before := c.flows["b"].total()
	c.until("output before the kill", func() bool { return c.flows["b"].total() > before+200 })
	killed, other := c.apps[0], c.apps[1]
	kept := map[string][]int{} // partitions of the other, per place
	for _, task := range other.Health().Tasks {
		// Subtopologies 0 and 2 read the input, 1 and 3 what those write.
		var sub, partition int
		_, err := fmt.Sscanf(task, "%d_%d", &sub, &partition)
		require.NoError(t, err)
		if place, ok := map[int]string{0: "a-first", 2: "b-first"}[sub]; ok {
			kept[place] = append(kept[place], partition)
			c.count.of(place, partition)
		}
	}
	require.NotEmpty(t, kept, "tasks of the other: %v", other.Health().Tasks)
	lost := len(killed.Health().Tasks)
	require.NotZero(t, lost)
	t.Cleanup(c.nets[0].Mend) // so that it ends in time
	c.nets[0].Cut()
	begun := time.Now()
	for _, f := range c.flows {
		f.reset()
	}
	c.until("the other takes over", func() bool {
		h := other.Health()
		return len(h.Tasks) == 4*partitions && h.State == tidegate.Running
	})
	took := time.Since(begun)
	at := c.sent.Load()
	c.until("output behind it", func() bool { return c.flows["a"].total() >= at && c.flows["b"].total() >= at })
	var longest time.Duration
	for place, list := range kept {
		for _, p := range list {
			got := c.count.of(place, p)
			longest = max(longest, got.gap)
			if got.again > 0 {
				t.Errorf("%s, partition %d: %d records were processed again by an instance that lives", place, p, got.again)
			}
		}
	}
	t.Logf("%d tasks lost; running again after %v (session timeout %v); tasks that stayed (%v) stood still for %v at most; gaps in the output of a %v, of b %v",
		lost, took.Round(time.Millisecond), session, kept, longest.Round(time.Millisecond),
		c.flows["a"].longest().Round(time.Millisecond), c.flows["b"].longest().Round(time.Millisecond))
	require.Less(t, longest, session/2)
	all := c.sent.Load()
	require.Eventually(t, func() bool { return c.flows["a"].total() == all && c.flows["b"].total() == all }, time.Minute, time.Millisecond)
	for key, n := range c.flows["a"].counts {
		require.Equal(t, c.flows["b"].counts[key], n, key)
	}
}
