// Package restart decides whether and when tasks start again after a failure.
//
// A Strategy is a value that the user chooses; a Policy is what one process
// knows of its failures so far. Both are pure: the time is an argument.
//
// Invariants:
//
//  1. A Policy answers the same calls in the same way; it has no clock and no
//     randomness.
//  2. Waits of ExponentialDelay never shrink but by a reset.
//  3. Progress alone never shortens a wait: tasks that fail shortly after every
//     checkpoint still wait longer and longer.
//
// It does not know what failed, or whether a restart could mend it: package
// runtime asks only for failures that one may mend.
package restart

import (
	"errors"
	"fmt"
	"time"
)

type kind uint8

const (
	byDefault kind = iota
	none
	fixed
	exponential
	rate
)

// Strategy says whether and when tasks start again after a failure. The zero
// value is ExponentialDelay with its defaults.
type Strategy struct {
	kind     kind
	attempts int           // fixed, exponential, rate: how many are borne; < 0: any number
	delay    time.Duration // fixed, rate
	within   time.Duration // rate
	exp      Exponential
}

// Exponential holds the settings of ExponentialDelay. A field that is zero takes
// its default.
type Exponential struct {
	// Initial is the wait after the first failure: 50 ms.
	Initial time.Duration
	// Max is the longest wait: 30 s.
	Max time.Duration
	// Multiplier is by how much a wait is longer than the one before: 2.
	Multiplier float64
	// ResetAfter is how long tasks must run without a failure before the next
	// one waits Initial again: 1 min.
	ResetAfter time.Duration
	// Attempts is how many failures in a row, without a completed checkpoint (in
	// changelog mode a commit) in between, are answered with a restart: 20, with
	// the defaults above some five minutes. Below zero there is no limit.
	Attempts int
}

// None lets the first failure end the application.
func None() Strategy { return Strategy{kind: none} }

// FixedDelay restarts after the same delay each time, at most attempts times in
// a row without a completed checkpoint (in changelog mode a commit) in between;
// below zero without limit.
func FixedDelay(attempts int, delay time.Duration) Strategy {
	return Strategy{kind: fixed, attempts: attempts, delay: delay}
}

// ExponentialDelay restarts after waits that become longer and longer.
func ExponentialDelay(o Exponential) Strategy { return Strategy{kind: exponential, exp: o} }

// FailureRate restarts after delay, unless there were more than failures within
// that time.
func FailureRate(failures int, within, delay time.Duration) Strategy {
	return Strategy{kind: rate, attempts: failures, within: within, delay: delay}
}

// withDefaults fills in what is zero.
func (s Strategy) withDefaults() Strategy {
	if s.kind == byDefault {
		s.kind = exponential
	}
	if s.kind != exponential {
		return s
	}
	e := &s.exp
	for _, f := range []struct {
		field *time.Duration
		def   time.Duration
	}{{&e.Initial, 50 * time.Millisecond}, {&e.Max, 30 * time.Second}, {&e.ResetAfter, time.Minute}} {
		if *f.field == 0 {
			*f.field = f.def
		}
	}
	if e.Multiplier == 0 {
		e.Multiplier = 2
	}
	if e.Attempts == 0 {
		e.Attempts = 20
	}
	s.attempts = e.Attempts
	return s
}

// Check refuses settings that make no sense.
func (s Strategy) Check() error {
	s = s.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch s.kind {
	case fixed:
		if s.delay < 0 {
			bad("FixedDelay(%d, %v): want a delay of 0 or more", s.attempts, s.delay)
		}
		if s.attempts == 0 {
			bad("FixedDelay(0, %v): want 1 attempt or more, or -1 for any number; without restarts use NoRestart", s.delay)
		}
	case rate:
		if s.attempts < 1 || s.within <= 0 || s.delay < 0 {
			bad("FailureRate(%d, %v, %v): want 1 failure or more, within more than 0, and a delay of 0 or more", s.attempts, s.within, s.delay)
		}
	case exponential:
		e := s.exp
		if e.Initial < 0 || e.Max < e.Initial || e.ResetAfter < 0 {
			bad("ExponentialDelay: Initial %v, Max %v, ResetAfter %v: want 0 or more, and Max not below Initial", e.Initial, e.Max, e.ResetAfter)
		}
		if !(e.Multiplier >= 1 && e.Multiplier <= 1000) {
			bad("ExponentialDelay: Multiplier %v: want 1 to 1000", e.Multiplier)
		}
	}
	return errors.Join(errs...)
}

// String describes the strategy, for the log.
func (s Strategy) String() string {
	s = s.withDefaults()
	limit := func(n int) string {
		if n < 0 {
			return "without limit"
		}
		return fmt.Sprintf("at most %d times in a row", n)
	}
	switch s.kind {
	case none:
		return "no restart"
	case fixed:
		return fmt.Sprintf("restart after %v, %s", s.delay, limit(s.attempts))
	case rate:
		return fmt.Sprintf("restart after %v, at most %d times within %v", s.delay, s.attempts, s.within)
	}
	return fmt.Sprintf("restart after %v to %v, %s", s.exp.Initial, s.exp.Max, limit(s.attempts))
}
