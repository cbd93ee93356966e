package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/internal/restart"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/runtime"
)

// RestartStrategy says whether and when tasks start again after a failure; see
// WithRestartStrategy.
type RestartStrategy = restart.Strategy

// ExponentialDelayOptions are the settings of ExponentialDelay; zero fields take
// their defaults: Initial 50 ms, Max 30 s, Multiplier 2, ResetAfter 1 min (a run
// without failure that long begins with Initial again), Attempts 20 in a row
// without a completed checkpoint or commit in between (below zero: no limit).
type ExponentialDelayOptions = restart.Exponential

// NoRestart ends the application with the first failure (Flink's none).
func NoRestart() RestartStrategy { return restart.None() }

// FixedDelay starts failed tasks again after delay, at most attempts times in a
// row; below zero without limit. A completed checkpoint, in Changelog mode a
// commit, begins a new row (Flink's fixed-delay counts over the whole life of a
// job).
func FixedDelay(attempts int, delay time.Duration) RestartStrategy {
	return restart.FixedDelay(attempts, delay)
}

// ExponentialDelay starts failed tasks again after waits that become longer and
// longer, until they ran without failure for a while. The default (Flink's
// exponential-delay, which is its default too, from 1 s to 1 min by 1.5, reset
// after 1 h, without limit).
func ExponentialDelay(o ExponentialDelayOptions) RestartStrategy {
	return restart.ExponentialDelay(o)
}

// FailureRate starts failed tasks again after delay, and gives up with more than
// failures within a time (Flink's failure-rate gives up with that many).
func FailureRate(failures int, within, delay time.Duration) RestartStrategy {
	return restart.FailureRate(failures, within, delay)
}

// Failure is what a failure listener hears, and Health.LastFailure: Time, Tasks,
// Err, Cause, and what follows: Restart after Delay, as the Attempt-th in a row,
// or the end of the application.
type Failure = runtime.Failure

// Cause says whose fault a failure is.
type Cause = runtime.Cause

const (
	// Infrastructure: a broker, the checkpoint store, a disk, a schema registry.
	// The restart strategy decides.
	Infrastructure = runtime.Infrastructure
	// UserCode: a record could not be decoded or encoded, or a user function
	// returned an error or panicked. The application ends, unless the failure
	// handler says Skip or Retry.
	UserCode = runtime.UserCode
	// Setup: a missing right, a full disk, a damaged checkpoint, deleted input.
	// The application ends.
	Setup = runtime.Setup
)

// RecordError is in the chain of errors for which a record or a function of the
// user is to blame: it names the step, its line in the program, and topic,
// partition and offset of the record; Unwrap gives the function's own error.
type RecordError = operators.RecordError
