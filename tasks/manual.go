package tasks

import (
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

// Manual is a worker without a goroutine, for a harness that runs tasks
// synchronously under a clock of its own. What it does is what a Worker does,
// when it is told to: it has the same mailbox, and its tasks are the same tasks.
//
// All calls, and those of the Fetcher's sinks, are made by one goroutine.
type Manual struct{ w *Worker }

// NewManual makes a worker that Step drives. clock is the wall clock of its
// tasks.
func NewManual(f Fetcher, clock func() time.Time) *Manual {
	return &Manual{w: newWorker(f, clock)}
}

// Adopt takes a task and subscribes its inputs.
func (m *Manual) Adopt(t *Task) {
	m.w.Adopt(t, func() {})
	m.w.drain()
}

// Step takes in what was delivered and lets the task take what it may, until
// that is nothing. Then it hands over everything written, and tells all readers
// of the task's repartition topics its stream time. It reports whether something
// is left that the task may not take yet.
func (m *Manual) Step(t *Task) (left bool) {
	m.w.drain()
	t.now = m.w.clock()
	for t.step(budget) {
	}
	if t.failed || t.closed {
		return true
	}
	if !t.parked {
		t.announceAlone(0)
	}
	t.flushOpen(t.now)
	for _, in := range t.inputs {
		if !in.empty() || len(in.held) > 0 {
			return true
		}
	}
	return false
}

// Trigger begins checkpoint n, as Worker.Trigger; the control log is read past
// n then.
func (m *Manual) Trigger(inc ids.Incarnation, n ids.CheckpointID, stop bool) {
	m.w.Trigger(inc, n, stop)
	m.w.SetLog(int64(n) + 1)
	m.w.drain()
}

// Decided tells the tasks how checkpoint n ended, as Worker.Decided.
func (m *Manual) Decided(n ids.CheckpointID, completed bool) {
	m.w.Decided(n, completed)
	m.w.drain()
}

// Close closes all tasks.
func (m *Manual) Close() {
	m.w.Revoke(0)
	m.w.drain()
}

// StreamTime returns the task's stream time, −1 before the first record.
func (m *Manual) StreamTime(t *Task) int64 { return streamTime(t.times.StreamTime()) }

// Observe moves the time of the task's external inputs, as if each had a record
// with that timestamp which no operator sees. What is due fires with Step.
func (m *Manual) Observe(t *Task, timestamp int64) {
	for _, in := range t.inputs {
		if !in.spec.Internal {
			t.times.Record(in.index, ids.TaskID{}, timestamp)
			in.partTime = max(in.partTime, timestamp)
		}
	}
}

// Flush writes the task's cached state to its engine, for who looks into it.
func (m *Manual) Flush(t *Task) error { return t.flushCaches() }
