package rebalance

import (
	"cmp"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// nearCold is the coldness up to which a copy in barrier mode lacks little: it
// was written to within the last thousand records of the control log, which are
// some dozens of checkpoints.
const nearCold = 10

// HoldBack takes moves out of a plan that would have members fetch the state of
// more than most tasks at a time; those tasks stay with the member that runs them,
// for a later plan. What is smaller than worth, or of which the member of the plan
// has a fresh copy, does not count, and neither does what has nobody to stay with.
// The moves that a member has begun to fetch go first. It reports how many it held
// back. As the rest are moves of one of the plans that move the fewest, plans come
// to an end.
func HoldBack(members []Member, plan []Placement, tasks []Task, most int, worth int64) ([]Placement, int) {
	p := newPlanner(members, tasks)
	owner := owners(p.all)
	slot := map[ids.InstanceID]int{}
	for i, pl := range plan {
		slot[pl.Instance] = i
	}
	stateful := map[ids.TaskID]Task{}
	for _, list := range p.tasks {
		for _, t := range list {
			if t.Stateful && t.Weight >= worth {
				stateful[t.ID] = t
			}
		}
	}
	type move struct {
		task     Task
		from, to int // in the plan
		cold     int
	}
	var moves []move
	for to, pl := range plan {
		for _, id := range pl.Tasks {
			t, counts := stateful[id]
			o, owned := owner[id]
			if !counts || !owned || p.all[o].Leaving || p.all[o].Instance == pl.Instance {
				continue
			}
			from, stays := slot[p.all[o].Instance]
			cold := p.coldAt(id, pl.Instance)
			if stays && cold > nearCold {
				moves = append(moves, move{t, from, to, cold})
			}
		}
	}
	if len(moves) <= most {
		return plan, 0
	}
	slices.SortFunc(moves, func(a, b move) int {
		return cmp.Or(cmp.Compare(a.cold, b.cold), cmp.Compare(a.task.Weight, b.task.Weight), a.task.ID.Compare(b.task.ID))
	})
	out := slices.Clone(plan)
	for _, m := range moves[most:] {
		out[m.to].Tasks = slices.DeleteFunc(slices.Clone(out[m.to].Tasks), func(t ids.TaskID) bool { return t == m.task.ID })
		out[m.from].Tasks = append(slices.Clone(out[m.from].Tasks), m.task.ID)
		slices.SortFunc(out[m.from].Tasks, ids.TaskID.Compare)
	}
	return out, len(moves) - most
}

// coldAt is how cold a member's copy of a task's state is; unknownCold when it
// has none.
func (p *planner) coldAt(t ids.TaskID, at ids.InstanceID) int {
	for _, h := range p.holds.holders[t] {
		if p.all[p.active[h.a]].Instance == at {
			return h.cold
		}
	}
	return unknownCold
}
