package tasks

import (
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
)

// Halt lets tasks of an incarnation stop behind the barrier of checkpoint n, as
// the Trigger that follows begins it: they are about to go on elsewhere (R25).
func (w *Worker) Halt(inc ids.Incarnation, n ids.CheckpointID, list []ids.TaskID) {
	w.command(func() {
		for _, t := range w.tasks {
			if t.spec.Incarnation == inc && slices.Contains(list, t.spec.ID) {
				t.stopAt = n
			}
		}
	})
}

// GoOn lets tasks go on that halted behind the barrier of n: they were not moved
// after all.
func (w *Worker) GoOn(n ids.CheckpointID, list []ids.TaskID) {
	w.command(func() {
		for _, t := range w.tasks {
			if t.stopAt == n && slices.Contains(list, t.spec.ID) {
				t.stopAt, t.parked = ids.NoCheckpoint, false
			}
		}
	})
}

// Drop closes tasks of an incarnation; the channel is closed when the worker did
// so. Their contexts end at once.
func (w *Worker) Drop(inc ids.Incarnation, list []ids.TaskID) <-chan struct{} {
	return w.remove(func(i ids.Incarnation, t ids.TaskID) bool { return i == inc && slices.Contains(list, t) })
}

// SetLineages tells the tasks which incarnations of their upstream tasks count
// from now on. It comes before the SetLog that moves the position past the
// record which says so (R6). What the incarnations before them said of how far
// they are counts no more (R13).
func (w *Worker) SetLineages(l barrier.Lineages) {
	w.command(func() {
		for _, t := range w.tasks {
			t.SetLineages(l)
		}
	})
}

// SetLineages is Worker.SetLineages for a task that is not adopted yet.
func (t *Task) SetLineages(l barrier.Lineages) {
	if t.aligner != nil {
		t.aligner.SetLineages(l)
		t.times.SetLineages(l, t.restored.cut())
	}
}
