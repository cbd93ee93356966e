package runtime

import (
	"os"
	"path/filepath"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/transactions"
)

// moveTasks carries out a handover (R25): what went away is closed, what came
// starts from the handover's checkpoint beside what runs on.
func (i *instance) moveTasks(e barrier.DoMoveTasks) {
	if len(e.Gone)+len(e.Come) > 0 {
		i.phase("moved")
	}
	for _, r := range append([]*run(nil), i.runs...) {
		i.dropTasks(r, r.tasksIn(e.Gone))
	}
	if i.cfg.Guarantee == ExactlyOnce {
		i.txns.step(transactions.Moved{N: e.From.N, Gone: e.Gone, Come: i.startList(e.Come)})
	}
	i.setLineages(e.Lineages)
	i.owns(e.Tasks)
	i.group.moved(e.Owners)
	if len(e.Gone) > 0 {
		i.owed = i.owed.Minus(e.Gone)
		i.log.Info("tasks moved to other instances", "tasks", taskNames(e.Gone), "checkpoint", int64(e.From.N))
	}
	if len(e.Come) > 0 {
		i.startRun(barrier.DoStartTasks{
			Life: e.Life, Incarnation: e.Incarnation, Tasks: e.Come, From: e.From, Lineages: e.Lineages, Owners: e.Owners,
		})
	}
}

// warnOfOwed says that a clean stop ends without what it waited for: another
// instance was lost meanwhile, or the deadline is over.
func (i *instance) warnOfOwed() {
	if len(i.owed) > 0 {
		i.log.Warn("stopped without a last checkpoint: these tasks go back to the one before", "tasks", taskNames(i.owed))
	}
}

// setLineages tells all tasks, also those that are being restored, which
// incarnations count, before they hear of the log's new end (R6).
func (i *instance) setLineages(l barrier.Lineages) {
	i.lineages = l
	for _, w := range i.workers {
		w.SetLineages(l)
	}
}

// dropTasks closes some tasks of a run, and the run with its last one.
func (i *instance) dropTasks(r *run, list barrier.TaskSet) {
	if len(list) == 0 {
		return
	}
	r.left = r.left.Minus(list)
	r.mu.Lock()
	r.gone = r.gone.Union(list)
	r.mu.Unlock()
	if len(r.left) == 0 {
		i.dropRun(r)
		return
	}
	done := make([]<-chan struct{}, 0, len(i.workers))
	for _, w := range i.workers {
		done = append(done, w.Drop(r.inc, list))
	}
	i.wg.Add(1)
	go func() { // the folders go when the tasks let go of them
		defer i.wg.Done()
		for _, d := range done {
			<-d
		}
		for _, t := range list {
			_ = os.RemoveAll(filepath.Join(r.dir, t.String()))
		}
	}()
}

// tasksIn returns the tasks of the run that are in the list.
func (r *run) tasksIn(list []ids.TaskID) barrier.TaskSet {
	return r.left.Intersect(barrier.NewTaskSet(list...))
}

// startList is what the transaction pool has to know of tasks.
func (i *instance) startList(list barrier.TaskSet) []transactions.StartTask {
	var out []transactions.StartTask
	for _, t := range list {
		external, _ := i.plan.TaskInputs(t)
		out = append(out, transactions.StartTask{Task: t, Inputs: len(external) > 0, Group: t.Sub})
	}
	return out
}

// failEach reports tasks as failed, each to the run it belongs to.
func (i *instance) failEach(list []ids.TaskID, err error) {
	for _, r := range append([]*run(nil), i.runs...) {
		if own := r.tasksIn(list); len(own) > 0 {
			i.failTasks(r, own, err)
		}
	}
}
