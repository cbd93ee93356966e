package barrier

import (
	"math"

	"github.com/tidegate/tidegate/internal/ids"
)

// NoTime is the stream time before anything was seen.
const NoTime = math.MinInt64

// DefaultIdleTimeout is how long an input without records, or a channel that
// never announced a time, holds time back, in milliseconds.
const DefaultIdleTimeout = 5000

// TimeInput is one input partition of a task: a source partition has no
// channels.
type TimeInput struct {
	Partition ids.TopicPartition
	Source    bool
	Forward   TaskSet
	Cycle     TaskSet
}

// InputTime is the time of one input as a checkpoint stores it.
type InputTime struct {
	Partition ids.TopicPartition  `json:"partition"`
	Time      int64               `json:"time"`
	Channels  []StoredChannelTime `json:"channels,omitempty"`
}

// StoredChannelTime is the time of one channel as a checkpoint stores it.
type StoredChannelTime struct {
	Task ids.TaskID `json:"task"`
	Time int64      `json:"time"`
	Idle bool       `json:"idle,omitempty"`
}

// TimesState is all times of a task, for its snapshot.
type TimesState struct {
	Stream int64       `json:"stream"`
	Inputs []InputTime `json:"inputs"`
}

// Times is a task's clock (R13).
type Times struct{ stream int64 }

// NewTimes starts the clock at the monotonic time now (ms). stored may be nil.
func NewTimes(inputs []TimeInput, stored *TimesState, idleTimeout, now int64) *Times {
	return &Times{stream: NoTime}
}

// Record says that a record of the input was taken. Channel is ignored for
// sources. It returns the task's stream time behind it.
func (t *Times) Record(input int, task ids.TaskID, ts int64) int64 { return t.stream }

// Announce applies a time record's entry.
func (t *Times) Announce(input int, task ids.TaskID, ts int64, idle bool) int64 { return t.stream }

// CaughtUp says whether a source input is read to its end (from a fetch that
// was answered after the wait began) and has nothing queued.
func (t *Times) CaughtUp(input int, caughtUp bool, now int64) {}

// StreamTime returns the task's stream time, or NoTime.
func (t *Times) StreamTime() int64 { return t.stream }

// InputIdle reports whether an input is idle at now.
func (t *Times) InputIdle(input int, now int64) bool { return false }

// Idle reports whether all inputs are idle: the task announces it (R13).
func (t *Times) Idle(now int64) bool { return false }

// Advance lets time pass: channels that never announced a time turn idle. It
// returns the stream time.
func (t *Times) Advance(now int64) int64 { return t.stream }

// State returns what a snapshot stores.
func (t *Times) State() TimesState { return TimesState{} }
