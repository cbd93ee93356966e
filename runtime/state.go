package runtime

import (
	"sync"
	"time"
)

// State is where an application stands. Kafka Streams' counterpart is
// KafkaStreams.State.
//
//	Created ─► Joining ─► Restoring ─► Running ─► Stopping ─► Stopped
//	              ▲            │           │           │
//	              └────────────┴───────────┘           ▼
//	              (rollback, new assignment)        Failed (from any state)
type State int32

const (
	// Created: New returned, Run was not called.
	Created State = iota
	// Joining: connecting, reading the control log, waiting for an assignment.
	Joining
	// Restoring: this instance's tasks fetch their state.
	Restoring
	// Running: all tasks of this instance process records, or did and some go on
	// while Health.Restoring lists the others.
	Running
	// Stopping: a last checkpoint is taken before the instance leaves.
	Stopping
	// Stopped: Run returned nil.
	Stopped
	// Failed: Run returned an error.
	Failed
)

var stateNames = [...]string{"Created", "Joining", "Restoring", "Running", "Stopping", "Stopped", "Failed"}

// String returns the state's name.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return "State(?)"
	}
	return stateNames[s]
}

// terminal reports whether no other state follows.
func (s State) terminal() bool { return s == Stopped || s == Failed }

// Health is a snapshot of an application's condition.
type Health struct {
	State State
	// Since is when State was entered.
	Since time.Time
	// Instance is this run's identity: the stable name and a random number.
	Instance string
	// Tasks are the ids ("subtopology_partition") this instance owns.
	Tasks []string
	// Restoring are those of them that fetch their state: all of them in the state
	// Restoring, some after a partial rollback or while tasks move here.
	Restoring []string
	// LastCheckpoint is the id of the last completed checkpoint, -1 before
	// the first.
	LastCheckpoint int64
	// LastCheckpointAt is when this instance read its completion.
	LastCheckpointAt time.Time
	// LastCommitAt is when this instance last committed in changelog mode.
	LastCommitAt time.Time
	// Records counts records processed by this instance since it started.
	Records int64
	// Skipped counts records the failure handler skipped.
	Skipped int64
	// Late counts records dropped because their window was closed.
	Late int64
	// NullDropped counts records dropped because a step cannot use a null key
	// or value; a record that several steps drop counts for each.
	NullDropped int64
	// TimestampDropped counts records dropped because they had no valid event
	// time (InvalidSkipped).
	TimestampDropped int64
	// DownloadedBytes of state were fetched by restores since the start; what was
	// on this machine already, by standbys too, does not count. Barrier mode.
	DownloadedBytes int64
	// Failures counts failures of tasks of this process; LastFailure is the last
	// of them, the zero value before the first.
	Failures    int64
	LastFailure Failure
	// Err is the error with which the application failed.
	Err error
}

// status holds the mutable part of Health and tells the listener of changes.
type status struct {
	mu       sync.Mutex
	h        Health
	listener func(from, to State)
}

func newStatus(listener func(from, to State)) *status {
	return &status{h: Health{State: Created, Since: time.Now(), LastCheckpoint: -1}, listener: listener}
}

// set moves to a state; terminal states are never left.
func (s *status) set(to State, err error) {
	s.mu.Lock()
	from := s.h.State
	if from == to || from.terminal() {
		s.mu.Unlock()
		return
	}
	s.h.State, s.h.Since = to, time.Now()
	if err != nil {
		s.h.Err = err
	}
	s.mu.Unlock()
	if s.listener != nil {
		s.listener(from, to)
	}
}

func (s *status) get() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.h
	h.Tasks = append([]string(nil), s.h.Tasks...)
	h.Restoring = append([]string(nil), s.h.Restoring...)
	return h
}

func (s *status) update(f func(h *Health)) {
	s.mu.Lock()
	f(&s.h)
	s.mu.Unlock()
}
