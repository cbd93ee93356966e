package replay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
)

// In event time: records come every 10 ms, an auction 5 s behind its person, so
// history of 100,000 of them spans 1000 s; what is late by more than 2 s is lost.
const (
	first  = int64(1_000_000)
	each   = 10
	window = 10 * time.Second
	grace  = 2 * time.Second
)

// history is persons and auctions from one index to another. Auctions are
// large, so that they take longer to read than persons.
func (c *cluster) history(from, to int) {
	pad := strings.Repeat("x", 300)
	var persons, auctions []testkit.Message
	for i := from; i < to; i++ {
		persons, auctions = append(persons, person(i)), append(auctions, auction(i, pad))
	}
	c.produce("persons", persons)
	c.produce("auctions", auctions)
}

// exactlyOnce checks that each auction below n has one result.
func (r *results) exactlyOnce(n int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	lost, twice := 0, 0
	for i := range n {
		switch got := r.seen[fmt.Sprint("p", i)]; {
		case got == 0:
			lost++
		case got > 1:
			twice++
		}
	}
	if lost+twice > 0 || len(r.seen) != n {
		r.t.Errorf("of %d rows %d are lost and %d doubled; %d seen", n, lost, twice, len(r.seen))
	}
}

// History that was there before the start, read in small answers.
func TestReplayLosesNothing(t *testing.T) {
	const n = 100_000
	bothModes(t, func(t *testing.T, c *cluster) {
		out := c.follow()
		c.history(0, n)
		app := c.app("a", nil, small)
		stop := start(t, app)
		out.await(n, app)
		stop()
		out.exactlyOnce(n)
	})
}

var small = tidegate.WithBufferBytes(1<<20, 1<<20)

// The same, stopped and started in the middle of it, by an instance without local
// state and by the one before.
func TestReplayOverRestarts(t *testing.T) {
	const n = 60_000
	bothModes(t, func(t *testing.T, c *cluster) {
		out := c.follow()
		c.history(0, n)
		for i, name := range []string{"a", "a", "b", "a"} {
			app := c.app(name, nil, small)
			stop := start(t, app)
			out.await(n/4*(i+1), app)
			stop()
		}
		out.exactlyOnce(n)
	})
}

// While the application is away, both topics grow. It stopped with everything
// read, and what it knew then of its own tasks must not mislead it.
func TestReplayAfterAnAbsence(t *testing.T) {
	const n = 60_000
	for _, idle := range []time.Duration{time.Hour, time.Millisecond} {
		t.Run(fmt.Sprint("idle after ", idle), func(t *testing.T) {
			bothModes(t, func(t *testing.T, c *cluster) {
				if c.mode == tidegate.Changelog && idle < time.Second {
					// Without a control log nobody knows which words are of the run
					// before; the wait for newer ones ends with the idle timeout.
					return
				}
				out := c.follow()
				for i := range 3 {
					c.history(n/3*i, n/3*(i+1))
					app := c.app("a", nil, small, tidegate.WithIdleTimeout(idle))
					stop := start(t, app)
					out.await(n/3*(i+1), app)
					stop()
				}
				out.exactlyOnce(n)
			})
		})
	}
}

// A second instance comes in the middle, and the first one leaves.
func TestReplayWhileTasksMove(t *testing.T) {
	const n = 60_000
	bothModes(t, func(t *testing.T, c *cluster) {
		out := c.follow()
		c.history(0, n)
		a, b := c.app("a", nil, small), c.app("b", nil, small)
		stop := start(t, a)
		out.await(n/4, a)
		stopB := start(t, b)
		out.await(n/2, a, b)
		stop()
		out.await(n, b)
		stopB()
		out.exactlyOnce(n)
	})
}
