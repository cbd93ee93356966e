package barrier

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

const forever = int64(math.MaxInt64)

func wantAhead(t *testing.T, what string, c *Times, now, want int64) {
	t.Helper()
	if got := c.GoAhead(0, now); got != want {
		t.Errorf("%s: others may go ahead to %d, want %d", what, got, want)
	}
}

func current(task ids.TaskID, ts int64) ChannelTime {
	return ChannelTime{Channel: Channel{Task: task}, Time: ts, Current: true}
}

// T4: others go ahead to the smallest time of the channels that may still send.
func TestTimesGoAhead(t *testing.T) {
	u0, u1 := tid(0, 0), tid(0, 1)
	c := NewTimes([]TimeInput{repartitionInput(0, u0, u1)}, nil, 5000, 1000)
	wantAhead(t, "nothing is known", c, 1000, NoTime)
	c.Record(0, u0, 300)
	wantAhead(t, "one channel is unknown", c, 1000, NoTime)
	c.Announce(0, said(u1, 100, false), true)
	wantAhead(t, "both known", c, 1000, 100)
	c.Announce(0, current(u1, 100), true)
	wantAhead(t, "the slower has no more", c, 1000, 300)
	wantTime(t, "which raises no time", c.StreamTime(), 100)
	c.Record(0, u1, 120)
	wantAhead(t, "a record of it says nothing else", c, 1000, 300)
	c.Announce(0, said(u0, 300, true), true)
	wantAhead(t, "the other is idle", c, 1000, forever)
	c.Announce(0, said(u1, 130, false), true)
	wantAhead(t, "it has more", c, 1000, 130)
}

// A channel that never said anything is waited for until the idle timeout.
func TestTimesGoAheadOfSilence(t *testing.T) {
	u0, u1 := tid(0, 0), tid(0, 1)
	c := NewTimes([]TimeInput{repartitionInput(0, u0, u1)}, nil, 5000, 1000)
	c.Announce(0, said(u0, 70, false), true)
	wantAhead(t, "before", c, 5999, NoTime)
	wantAhead(t, "after", c, 6000, 70)
}

// Whom nobody waits for, and what has no forward channels, holds nothing back.
func TestTimesGoAheadWithoutChannels(t *testing.T) {
	cycle := TimeInput{Cycle: NewTaskSet(tid(1, 0))}
	seen := repartitionInput(0, tid(0, 0))
	seen.MaxSeen = true
	for i, in := range []TimeInput{cycle, seen, sourceInput(0)} {
		c := NewTimes([]TimeInput{in}, nil, 5000, 0)
		if got := c.GoAhead(0, 0); got != forever {
			t.Errorf("input %d: %d", i, got)
		}
	}
}

// Flags of a checkpoint excuse nobody whose writer starts anew, until it spoke.
func TestTimesRestartedChannelIsWaitedFor(t *testing.T) {
	u0, u1 := tid(0, 0), tid(0, 1)
	in := repartitionInput(0, u0, u1)
	c := NewTimes([]TimeInput{in}, nil, 5000, 0)
	c.Announce(0, current(u0, 100), true)
	c.Announce(0, said(u1, 90, true), true)
	wantAhead(t, "before", c, 0, forever)
	stored := c.State()
	c = NewTimes([]TimeInput{in}, &stored, 5000, 0)
	wantAhead(t, "the writers did not start anew", c, 0, forever)

	in.Restarted = NewTaskSet(u0, u1)
	c = NewTimes([]TimeInput{in}, &stored, 5000, 0)
	wantAhead(t, "restored", c, 0, 90)
	if c.InputIdle(0, 0) {
		t.Error("idle, though nobody said so yet")
	}
	c.Announce(0, said(u1, 95, true), false)
	wantAhead(t, "an earlier run's word", c, 4999, 95)
	c.Announce(0, said(u1, 95, true), true)
	wantAhead(t, "the other is not heard of", c, 4999, 100)
	wantAhead(t, "it may not have started anew", c, 5000, forever)
}

// T6: where lineages tell, flags of a checkpoint excuse nobody who began behind
// it, whether with the task, before it (a handover, and then the task alone
// starts anew) or while it runs (a handover of another task).
func TestTimesOfNewIncarnationsAreWaitedFor(t *testing.T) {
	u0, u1 := tid(0, 0), tid(0, 1)
	in := repartitionInput(0, u0, u1)
	in.RestartKnown = true
	word := func(task ids.TaskID, inc ids.Incarnation) ChannelTime {
		return ChannelTime{Channel: Channel{Task: task, Inc: inc}, Time: 100, Current: true}
	}
	first := Lineages{}.Restart(in.Forward, 0, 3)
	c := NewTimes([]TimeInput{in}, nil, 5000, 0)
	c.SetLineages(first, 0)
	c.Announce(0, word(u0, 3), true)
	wantAhead(t, "one spoke", c, 1<<40, NoTime)
	c.Announce(0, word(u1, 3), true)
	wantAhead(t, "both spoke", c, 0, forever)
	stored := c.State()

	// u0 goes on elsewhere as 12 behind checkpoint 10.
	moved := first.Restart(NewTaskSet(u0), 10, 12)
	restarted := func(l Lineages) *Times {
		c := NewTimes([]TimeInput{in}, &stored, 5000, 0)
		c.SetLineages(l, 10)
		return c
	}
	wantAhead(t, "the task starts alone", restarted(first.Restart(NewTaskSet(tid(1, 0)), 10, 20)), 0, forever)
	again := restarted(moved)
	for what, c := range map[string]*Times{
		"while it runs": c, "and it starts behind that": again, "it starts with it": restarted(moved.Restart(NewTaskSet(u0), 10, 20)),
	} {
		c.SetLineages(moved, 10)
		wantAhead(t, what, c, 1<<40, 100)
		c.Announce(0, word(u1, 3), true)
		c.Announce(0, word(u0, 3), true)
		wantAhead(t, what+": the former owner's word", c, 1<<40, 100)
		c.Announce(0, word(u0, 20), true)
		wantAhead(t, what+": the new one's", c, 1<<40, forever)
		c.SetLineages(moved, 10)
		wantAhead(t, what+": lineages that were known", c, 1<<40, forever)
	}
	c.SetLineages(moved.Restart(NewTaskSet(u0, u1), 30, 32), 0)
	if c.InputIdle(0, 1<<40) {
		t.Error("idle, though nobody said so yet")
	}
	wantAhead(t, "both move", c, 1<<40, 100)
}

// The tree against the plain minimum.
func TestTimesGoAheadModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		n := 1 + rnd.IntN(9)
		var tasks []ids.TaskID
		for i := range n {
			tasks = append(tasks, tid(0, int32(i)))
		}
		c := NewTimes([]TimeInput{repartitionInput(0, tasks...)}, nil, 0, 0)
		times, free := make([]int64, n), make([]bool, n)
		for i := range times {
			times[i] = NoTime
		}
		for range 200 {
			i, ts := rnd.IntN(n), rnd.Int64N(1000)
			times[i] = max(times[i], ts)
			a := said(tasks[i], ts, rnd.IntN(5) == 0)
			a.Current = rnd.IntN(2) == 0
			free[i] = a.Idle || a.Current
			c.Announce(0, a, true)
			want := forever
			for k := range times {
				if !free[k] {
					want = min(want, times[k])
				}
			}
			if got := c.GoAhead(0, 0); got != want {
				t.Fatalf("seed %d: %d, want %d", seed, got, want)
			}
		}
	}
}

// T5: another input does not carry stream time past a channel that has more.
func TestTimesOfMergedInputsWaitForSlowChannels(t *testing.T) {
	u0, u1 := tid(0, 0), tid(0, 1)
	in := repartitionInput(0, u0, u1)
	in.Merged = true
	c := NewTimes([]TimeInput{in, sourceInput(0)}, nil, 5000, 0)
	wantTime(t, "nobody spoke", c.Record(1, ids.TaskID{}, 400), NoTime)
	c.Record(0, u0, 500)
	wantTime(t, "one is behind", c.Record(0, u1, 20), 20)
	wantTime(t, "the source goes on", c.Record(1, ids.TaskID{}, 450), 20)
	wantTime(t, "it comes on", c.Record(0, u1, 60), 60)
	wantTime(t, "and has no more", c.Announce(0, current(u1, 60), true), 450)
	wantTime(t, "nor has the other", c.Announce(0, current(u0, 500), true), 450)
	wantTime(t, "so a record on one side moves time", c.Record(1, ids.TaskID{}, 900), 900)
}
