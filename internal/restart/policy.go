package restart

import (
	"fmt"
	"slices"
	"time"
)

// Policy is a Strategy and what it knows of one process' failures.
//
//	running ── Failed ──▶ waiting ── the wait is over ──▶ running
//	   ▲ │                   │ too many
//	   └─┘ Progress          ▼
//	                      given up
type Policy struct {
	s     Strategy
	inRow int             // failures since the last Progress
	wait  time.Duration   // the last one of ExponentialDelay; -1: none
	again time.Duration   // when the tasks started again
	times []time.Duration // of failures, for FailureRate; ascending
}

// NewPolicy returns the policy of a process that has not failed yet.
func NewPolicy(s Strategy) *Policy { return &Policy{s: s.withDefaults(), wait: -1} }

// Verdict is what a Policy says of a failure.
type Verdict struct {
	// Attempt counts failures in a row, this one included, since the last
	// progress.
	Attempt int
	// Wait is how long to wait before the tasks start again.
	Wait time.Duration
	// GiveUp says that they do not; Why says why not, to be followed by the last
	// failure.
	GiveUp bool
	Why    string
}

// Failed judges a failure at time now, which never falls.
func (p *Policy) Failed(now time.Duration) Verdict {
	p.inRow++
	v := Verdict{Attempt: p.inRow}
	switch p.s.kind {
	case none:
		return v.giveUp("the restart strategy is NoRestart")
	case fixed:
		v.Wait = p.s.delay
	case rate:
		v.Wait = p.s.delay
		p.times = slices.DeleteFunc(append(p.times, now), func(t time.Duration) bool { return now-t >= p.s.within })
		if len(p.times) > p.s.attempts {
			return v.giveUp(fmt.Sprintf("%d failures within %v", len(p.times), p.s.within))
		}
		return v
	default:
		v.Wait = p.longer(now)
	}
	if n := p.s.attempts; n >= 0 && p.inRow > n {
		return v.giveUp(fmt.Sprintf("%d restarts in a row without a completed checkpoint or commit in between", n))
	}
	p.again = now + v.Wait
	return v
}

func (v Verdict) giveUp(why string) Verdict {
	v.GiveUp, v.Why, v.Wait = true, why, 0
	return v
}

// longer returns the next wait of ExponentialDelay.
func (p *Policy) longer(now time.Duration) time.Duration {
	e := &p.s.exp
	if p.wait < 0 || now-p.again >= e.ResetAfter {
		p.wait = e.Initial
		return p.wait
	}
	if next := float64(p.wait) * e.Multiplier; next < float64(e.Max) {
		p.wait = time.Duration(next)
	} else {
		p.wait = e.Max
	}
	return p.wait
}

// Progress says that a checkpoint completed, or a commit was made: what failed
// before is not in a row with what fails next.
func (p *Policy) Progress() { p.inRow = 0 }
