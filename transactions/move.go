package transactions

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Moved says that checkpoint N, which has just completed, handed tasks over: the
// tasks in Gone wrote their last before barrier N, those in Come start from it.
// All tasks of this instance passed N, and none a later barrier. The
// transactions of N stay what they are: this instance commits them.
type Moved struct {
	N    ids.CheckpointID
	Gone []ids.TaskID
	Come []StartTask
}

func (Moved) event() {}

// moved changes the tasks that write and pass barriers here.
func (p *Pool) moved(ev Moved) {
	p.tasks = slices.DeleteFunc(p.tasks, func(t *poolTask) bool { return slices.Contains(ev.Gone, t.id) })
	for _, id := range ev.Gone {
		delete(p.byID, id)
	}
	for _, t := range ev.Come {
		pt := &poolTask{id: t.Task, inputs: t.Inputs, passed: ev.N}
		p.tasks = append(p.tasks, pt)
		p.byID[t.Task] = pt
	}
	slices.SortFunc(p.tasks, func(a, b *poolTask) int { return a.id.Compare(b.id) })
	// An instance that had no task knows no barrier since its Start.
	i, found := slices.BinarySearch(p.keys, ev.N)
	if !found {
		p.keys = slices.Insert(p.keys, i, ev.N)
	}
	p.keys = slices.Delete(p.keys, 0, i)
}
