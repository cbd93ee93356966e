package runtime

import (
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/topology"
	"github.com/tidegate/tidegate/transactions"
)

// graphOf tells the machines what a failure affects (R26). Outside of
// transactions nothing is aborted, so nothing is shared.
func graphOf(plan *topology.Resolved, g Guarantee) barrier.Graph {
	out := barrier.Graph{Subs: make([]barrier.SubGraph, len(plan.Subtopologies()))}
	for n, s := range plan.Subtopologies() {
		sub := &out.Subs[n]
		for _, topic := range plan.TaskOutputs(s.Number) {
			if r, ok := plan.Reader(topic); ok && !slices.Contains(sub.Readers, r) {
				sub.Readers = append(sub.Readers, r)
			}
		}
		if g == ExactlyOnce {
			sub.Transacts = len(s.Topics) > 0 || slices.ContainsFunc(s.Nodes, func(n *topology.Node) bool { return n.Kind == topology.Sink })
		}
	}
	return out
}

// transacting counts the subtopologies with transactions of their own (R18).
func transacting(g barrier.Graph) int {
	n := 0
	for _, s := range g.Subs {
		if s.Transacts {
			n++
		}
	}
	return max(n, 1)
}

// stopTasks stops tasks for a rollback: what they have in transactions that no
// completed checkpoint lists is aborted. The others go on (R26).
func (i *instance) stopTasks(e barrier.DoStopTasks) {
	if e.All {
		if !i.stopping && len(i.tasks) > 0 {
			i.log.Info("all tasks stopped for a rollback", "tasks", taskNames(i.tasks))
		}
		i.stopRuns()
		return
	}
	for _, r := range append([]*run(nil), i.runs...) {
		if list := r.tasksIn(e.Tasks); len(list) > 0 {
			i.dropTasks(r, list)
			r.failed, r.failedWait = false, 0
		}
	}
	i.txns.step(transactions.RolledBack{Tasks: e.Tasks})
	i.owns(i.tasks.Minus(e.Tasks))
	i.log.Info("tasks stopped for a rollback; the others go on", "tasks", taskNames(e.Tasks), "others", len(i.tasks))
}

// has reports whether the run still has a task: neither moved away nor stopped.
// What a task of which this is no more true hands over counts for nothing; the
// same task may run here again, in another run. On the loop.
func (r *run) has(t ids.TaskID) bool { return !r.revoked.Load() && r.left.Contains(t) }

// stopped reports the same to a restore, which runs in the background.
func (r *run) stopped(t ids.TaskID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone.Contains(t)
}
