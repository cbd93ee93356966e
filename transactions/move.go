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
	p.start++
	p.removeTasks(ev.Gone)
	for _, t := range ev.Come {
		// Nobody of the group wrote behind a later barrier: they are no joiners.
		p.add(t, ev.N, p.groupOf(t.Group).start)
	}
	for _, g := range p.groups {
		g.note(ev.N)
		i, _ := slices.BinarySearch(g.keys, ev.N)
		g.keys = slices.Delete(g.keys, 0, i)
	}
}
