package elastic

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
)

// long is a session timeout that no test waits for.
const long = time.Minute

// A static member that stops and comes back has the tasks that it had, downloads
// nothing, and nobody waits for the session timeout.
func TestStaticMemberComesBack(t *testing.T) {
	for name, mode := range map[string]tidegate.Mode{"barrier": tidegate.Barrier, "changelog": tidegate.Changelog} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			opts := []tidegate.Option{
				tidegate.WithStaticMembership(), tidegate.WithSessionTimeout(long), tidegate.WithMode(mode),
				tidegate.WithCommitInterval(50 * time.Millisecond),
			}
			a, b := c.start("a", opts...), c.start("b", opts...)
			c.running(a, b)
			for range 3 {
				c.produce(1000, 300)
				c.settled(a, b)
			}
			c.balanced(a, b)
			had, others := a.Health().Tasks, b.Health().Tasks
			for n := range 3 {
				begun := time.Now()
				a.end()
				c.produce(1000, 300)
				a = c.start("a", opts...)
				c.settled(a, b)
				if took := time.Since(begun); took > long/2 {
					t.Errorf("restart %d took %v", n, took)
				}
				if now := a.Health().Tasks; !slices.Equal(now, had) {
					t.Errorf("restart %d: tasks %v, had %v", n, now, had)
				}
				if now := b.Health().Tasks; !slices.Equal(now, others) {
					t.Errorf("restart %d: the other one has %v, had %v", n, now, others)
				}
				if d := a.Health().DownloadedBytes + b.Health().DownloadedBytes; mode == tidegate.Barrier && n > 0 && d != 0 {
					t.Errorf("restart %d: %d bytes downloaded", n, d)
				}
			}
		})
	}
}

// balanced waits until both have their halves of the tasks.
func (c *cluster) balanced(apps ...*running) {
	c.t.Helper()
	c.eventually("halves", func() bool {
		for _, a := range apps {
			if len(a.Health().Tasks) != 2*partitions/len(apps) {
				return false
			}
		}
		return true
	})
}

// A static member that does not come back is missed after the session timeout.
func TestStaticMemberStaysAway(t *testing.T) {
	c := newCluster(t)
	a, b := c.start("a", tidegate.WithStaticMembership()), c.start("b", tidegate.WithStaticMembership())
	c.running(a, b)
	c.produce(1000, 300)
	c.settled(a, b)
	c.balanced(a, b)
	a.end()
	c.produce(1000, 300)
	c.settled(b)
	if n := len(b.Health().Tasks); n != 2*partitions {
		t.Errorf("%d tasks", n)
	}
}

// Two processes with one name displace each other; one ends with an error that
// names both, the other goes on.
func TestTwoOfOneName(t *testing.T) {
	for name, opts := range map[string][]tidegate.Option{"dynamic": nil, "static": {tidegate.WithStaticMembership()}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			opts := append([]tidegate.Option{tidegate.WithInstanceName("same")}, opts...)
			one := c.start("one", opts...)
			c.running(one)
			c.produce(1000, 300)
			c.settled(one)
			first := one.Health().Instance
			two := c.start("two", opts...)
			c.eventually("one of them ends", func() bool { return one.State() == tidegate.Failed || two.State() == tidegate.Failed })
			ended, stays := one, two
			if two.State() == tidegate.Failed {
				ended, stays = two, one
			}
			err := <-ended.done
			close(ended.done)
			if err == nil || !strings.Contains(err.Error(), "two processes share one instance name") || strings.Count(err.Error(), "same/") != 2 {
				t.Errorf("first %s: %v", first, err)
			}
			c.produce(1000, 300)
			c.settled(stays)
		})
	}
}
