package tasks

import (
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/state"
)

// Protocol is the seam between tasks and the way they are made fault tolerant.
// Its methods are called on workers' goroutines and must not block.
type Protocol interface {
	// NewBatch returns an empty builder for a destination partition.
	NewBatch(tp ids.TopicPartition) *kafka.Builder
	// Send takes over a finished batch of the task.
	Send(t *Task, out Outgoing)
	// Passed takes over a task's snapshot at a barrier.
	Passed(t *Task, s *Snapshot)
	// Failed says that a task cannot go on; it is parked until Revoke.
	Failed(t *Task, err error)
	// Skipped counts a record that the failure handler chose to skip; it
	// returns false when the handler chose to fail.
	Skipped(t *Task, err error) bool
	// Closed reports an error of closing the task's processors.
	Closed(t *Task, err error)
	// Processed counts records.
	Processed(t *Task, records int)
	// InputLost reports a fetch that cannot go on: offset out of range,
	// authorization, a deleted topic.
	InputLost(t *Task, tp ids.TopicPartition, err error)
}

// Outgoing is a finished batch with what the protocol needs to place it.
type Outgoing struct {
	Batch *kafka.Builder
	// Internal: the destination is a repartition topic.
	Internal bool
	// LastBarrier is the last barrier the task passed when the batch was
	// written.
	LastBarrier ids.CheckpointID
	// FirstTime and LastTime are the smallest and largest timestamp in it.
	FirstTime, LastTime int64
}

// Snapshot is what a task fixed at barrier N.
type Snapshot struct {
	N           ids.CheckpointID
	Task        ids.TaskID
	Incarnation ids.Incarnation
	State       state.Snapshot // empty Dir when the task has no stores
	Positions   []barrier.PartitionPosition
	Times       barrier.TimesState
	Timers      []byte
	External    map[ids.TopicPartition]int64
	// Pause is how long the task stood still for the snapshot.
	Pause time.Duration
}

// Restored is what a task starts from.
type Restored struct {
	// Engine holds the state; nil when the subtopology has no stores.
	Engine    state.Engine
	Positions []barrier.PartitionPosition
	Times     *barrier.TimesState
	Timers    []byte
	External  map[ids.TopicPartition]int64
	// LastBarrier is the checkpoint that the task starts from.
	LastBarrier ids.CheckpointID
	// Cut is an earlier one, as of which LastBarrier holds the task (R26); 0: none.
	Cut ids.CheckpointID
}

// cut is the checkpoint whose barriers the task has behind it.
func (r *Restored) cut() ids.CheckpointID {
	if r.Cut > 0 {
		return r.Cut
	}
	return r.LastBarrier
}
