package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/internal/restart"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// Cause says whose fault a failure of tasks is, and with that what follows.
type Cause int

const (
	// Infrastructure: a broker, the checkpoint store, a disk or a schema registry
	// did not do what was asked, in a way that another attempt may mend. The
	// restart strategy decides.
	Infrastructure Cause = iota
	// UserCode: a record could not be decoded or encoded, or a user function
	// returned an error or panicked. It would again; the application ends, unless
	// the failure handler says Skip or Retry. With Retry the restart strategy
	// decides.
	UserCode
	// Setup: what only the operator can mend, as a right that is missing, a full
	// disk, a damaged checkpoint, input that was deleted. The application ends.
	Setup
)

// String returns the cause's name.
func (c Cause) String() string {
	switch c {
	case UserCode:
		return "user code"
	case Setup:
		return "set-up"
	}
	return "infrastructure"
}

// Failure is a failure of tasks, as a failure listener hears of it.
type Failure struct {
	// Time is when it was noticed.
	Time time.Time
	// Tasks are the ids of those that failed; empty in changelog mode, where the
	// tasks of an instance fail together.
	Tasks []string
	// Err is the error; for UserCode, *RecordError is in its chain if a record
	// was being processed.
	Err   error
	Cause Cause
	// Attempt counts failures in a row, this one included, without a completed
	// checkpoint (in changelog mode a commit) in between; 0 if the strategy was
	// not asked.
	Attempt int
	// Restart says that the tasks start again after Delay. Otherwise Run returns
	// an error that wraps Err.
	Restart bool
	Delay   time.Duration
}

// causeOf tells errors apart. retry says that a restart from the last checkpoint
// may mend it, or that the user wants one.
func causeOf(err error) (cause Cause, retry bool) {
	var rec *operators.RecordError
	var out *kafka.OffsetOutOfRangeError
	switch {
	case errors.Is(err, serde.ErrUnavailable):
		return Infrastructure, true // a schema registry, not the record
	case errors.As(err, &rec):
		return UserCode, rec.Retry
	case errors.Is(err, operators.ErrPanicked), errors.Is(err, operators.ErrBufferFull):
		return UserCode, false
	case errors.As(err, &out), errors.Is(err, state.ErrDiskFull), errors.Is(err, state.ErrOtherEngine), errors.Is(err, checkpoint.ErrCorrupted), errors.Is(err, checkpoint.ErrDenied), permanent(err):
		return Setup, false
	}
	return Infrastructure, true
}

// setbacks keeps count of the process' failures: of its instances, one after
// the other. It may be used from any goroutine.
type setbacks struct {
	begun    time.Time
	status   *status
	listener func(Failure)

	mu     sync.Mutex
	policy *restart.Policy
	again  map[ids.TaskID]time.Time // when failed tasks may start
}

func newSetbacks(cfg Config, st *status) *setbacks {
	return &setbacks{begun: time.Now(), status: st, listener: cfg.FailureListener, policy: restart.NewPolicy(cfg.Restart), again: map[ids.TaskID]time.Time{}}
}

// progress hears of a completed checkpoint.
func (s *setbacks) progress() {
	s.mu.Lock()
	s.policy.Progress()
	s.mu.Unlock()
}

// failed judges a failure of tasks in barrier mode. The error is nil when they
// start again after the wait, else what the application ends with.
func (s *setbacks) failed(list []ids.TaskID, err error) (wait time.Duration, end error) {
	f := Failure{Time: time.Now(), Tasks: taskNames(list), Err: err}
	var retry bool
	if f.Cause, retry = causeOf(err); !retry {
		s.report(f)
		return 0, err
	}
	s.mu.Lock()
	v := s.policy.Failed(time.Since(s.begun))
	for _, t := range list {
		s.again[t] = f.Time.Add(v.Wait)
	}
	s.mu.Unlock()
	f.Attempt, f.Restart, f.Delay = v.Attempt, !v.GiveUp, v.Wait
	s.report(f)
	if v.GiveUp {
		return 0, gaveUp(v.Why, "state and checkpoints", err)
	}
	return v.Wait, nil
}

// wait returns when tasks that failed may start again, whatever stopped them: a wait
// can be longer than it takes until checkpoints that lack them roll everything back.
func (s *setbacks) wait(ctx context.Context, list []ids.TaskID) {
	s.mu.Lock()
	var at time.Time
	for _, t := range list {
		if again := s.again[t]; again.After(at) {
			at = again
		}
	}
	s.mu.Unlock()
	if rest := time.Until(at); rest > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// gaveUp is the error with which an application ends that the restart strategy
// does not start again.
func gaveUp(why, intact string, err error) error {
	return fmt.Errorf("gave up restarting failed tasks: %s; %s are intact; the last failure: %w", why, intact, err)
}

// report counts a failure and tells the listener.
func (s *setbacks) report(f Failure) {
	s.status.update(func(h *Health) { h.Failures, h.LastFailure = h.Failures+1, f })
	if s.listener != nil {
		s.listener(f)
	}
}

// guardFailures keeps a listener's panic from the goroutines that report to it.
func guardFailures(f func(Failure), log *slog.Logger) func(Failure) {
	if f == nil {
		return nil
	}
	return func(failure Failure) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("the failure listener panicked", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		f(failure)
	}
}

// answerOf asks the user what becomes of a record that failed: true skips it.
func (d *deployment) answerOf(err error) (skip bool) {
	switch d.cfg.OnFailure(err) {
	case Skip:
		return true
	case Retry:
		var rec *operators.RecordError
		if errors.As(err, &rec) {
			rec.Retry = true // read when the task's failure arrives
		}
	}
	return false
}
