package restart

import (
	"strings"
	"testing"
	"time"
)

// step is one call: a failure at a time, or progress.
type step struct {
	at       time.Duration
	progress bool
	wait     time.Duration
	giveUp   string // part of Why
}

const ms, s = time.Millisecond, time.Second

func TestPolicies(t *testing.T) {
	fail := func(at, wait time.Duration) step { return step{at: at, wait: wait} }
	end := func(at time.Duration, why string) step { return step{at: at, giveUp: why} }
	progress := step{progress: true}
	for name, c := range map[string]struct {
		s     Strategy
		steps []step
	}{
		"none": {None(), []step{end(1*s, "NoRestart")}},
		"fixed": {FixedDelay(2, 3*s), []step{
			fail(1*s, 3*s), fail(5*s, 3*s), end(9*s, "2 restarts in a row"),
		}},
		"fixed, progress begins anew": {FixedDelay(2, 3*s), []step{
			fail(1*s, 3*s), fail(5*s, 3*s), progress, fail(9*s, 3*s), fail(13*s, 3*s), end(17*s, "2 restarts in a row"),
		}},
		"fixed, no limit": {FixedDelay(-1, 0), []step{fail(0, 0), fail(0, 0), fail(0, 0)}},
		"exponential": {ExponentialDelay(Exponential{Initial: 1 * s, Max: 5 * s, Attempts: 5}), []step{
			fail(0, 1*s), fail(2*s, 2*s), fail(5*s, 4*s), fail(10*s, 5*s), fail(16*s, 5*s), end(22*s, "5 restarts in a row"),
		}},
		"exponential, a quiet time begins anew": {ExponentialDelay(Exponential{Initial: 1 * s, Max: 9 * s, ResetAfter: 10 * s}), []step{
			fail(0, 1*s), fail(2*s, 2*s), fail(4*s+10*s-1, 4*s), fail(4*s+10*s-1+4*s+10*s, 1*s), fail(30*s, 2*s),
		}},
		"exponential, progress alone does not": {ExponentialDelay(Exponential{Initial: 1 * s, Max: 9 * s, Attempts: 1}), []step{
			fail(0, 1*s), progress, fail(2*s, 2*s), progress, fail(5*s, 4*s), end(10*s, "1 restarts in a row"),
		}},
		"exponential, by another factor": {ExponentialDelay(Exponential{Initial: 100 * ms, Max: 1 * s, Multiplier: 1.5}), []step{
			fail(0, 100*ms), fail(s, 150*ms), fail(2*s, 225*ms), fail(3*s, 337500*time.Microsecond),
		}},
		"rate": {FailureRate(2, 10*s, 1*s), []step{
			fail(0, 1*s), fail(5*s, 1*s), fail(10*s, 1*s), fail(15*s, 1*s), end(19*s, "3 failures within 10s"),
		}},
		"rate, progress counts for nothing": {FailureRate(1, 10*s, 0), []step{fail(0, 0), progress, end(1*s, "2 failures within 10s")}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.s.Check(); err != nil {
				t.Fatal(err)
			}
			p, row := NewPolicy(c.s), 0
			for n, step := range c.steps {
				if step.progress {
					p.Progress()
					row = 0
					continue
				}
				row++
				v := p.Failed(step.at)
				if v.Attempt != row || v.Wait != step.wait || v.GiveUp != (step.giveUp != "") || !strings.Contains(v.Why, step.giveUp) {
					t.Fatalf("step %d: %+v, want attempt %d and %+v", n, v, row, step)
				}
			}
		})
	}
}

// The default bears an outage of some minutes, begins at once, and ends.
func TestDefault(t *testing.T) {
	p, now := NewPolicy(Strategy{}), time.Duration(0)
	for n := 1; ; n++ {
		v := p.Failed(now)
		if v.GiveUp {
			if n != 21 || now < 4*time.Minute || now > 10*time.Minute {
				t.Errorf("gave up at failure %d after %v", n, now)
			}
			return
		}
		if n == 1 && v.Wait > 50*ms || v.Wait > 30*s {
			t.Errorf("failure %d waits %v", n, v.Wait)
		}
		now += v.Wait + 10*ms
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		s    Strategy
		want string
	}{
		{FixedDelay(0, 1*s), "NoRestart"},
		{FixedDelay(1, -1), "delay"},
		{FailureRate(0, 1*s, 0), "1 failure or more"},
		{FailureRate(1, 0, 0), "within"},
		{ExponentialDelay(Exponential{Initial: 2 * s, Max: 1 * s}), "Max not below Initial"},
		{ExponentialDelay(Exponential{Multiplier: 0.5}), "Multiplier"},
		{ExponentialDelay(Exponential{ResetAfter: -1}), "ResetAfter"},
	} {
		if err := c.s.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.s, err, c.want)
		}
	}
	for want, s := range map[string]Strategy{
		"no restart": None(), "after 1s, at most 3 times in a row": FixedDelay(3, 1*s), "without limit": FixedDelay(-1, 1*s),
		"at most 3 times within 1m0s": FailureRate(3, time.Minute, 1*s), "after 50ms to 30s, at most 20": {},
	} {
		if got := s.String(); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
