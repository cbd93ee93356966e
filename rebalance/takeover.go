package rebalance

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// TakeOver changes a plan for tasks that nobody runs any more: where the plan's
// member has nothing of the state and another one has, that one gets the task,
// beyond its share, and output goes on at once. The next plan moves it on, by a
// handover that fetches the state before. It reports whether it changed anything,
// so that there is a next plan. States of less than worth bytes are fetched
// faster than a second move is worth.
func TakeOver(members []Member, plan []Placement, tasks []Task, worth int64) ([]Placement, bool) {
	p := newPlanner(members, tasks)
	owner := owners(p.all)
	at := map[ids.TaskID]int{} // index into plan
	slot := map[ids.InstanceID]int{}
	for i, pl := range plan {
		slot[pl.Instance] = i
		for _, t := range pl.Tasks {
			at[t] = i
		}
	}
	out := slices.Clone(plan)
	changed := false
	for _, list := range p.tasks {
		for _, t := range list {
			_, owned := owner[t.ID]
			holders := p.holds.holders[t.ID]
			now, planned := at[t.ID]
			if owned || !planned || !t.Stateful || t.Weight < worth || len(holders) == 0 {
				continue
			}
			to := p.nearest(holders, out, slot, now)
			if to == now {
				continue
			}
			changed = true
			out[now].Tasks = slices.DeleteFunc(slices.Clone(out[now].Tasks), func(o ids.TaskID) bool { return o == t.ID })
			out[to].Tasks = append(slices.Clone(out[to].Tasks), t.ID)
			slices.SortFunc(out[to].Tasks, ids.TaskID.Compare)
		}
	}
	return out, changed
}

// nearest returns the place of the holder with the newest copy: the present one
// if it has one at all, else that with the fewest tasks.
func (p *planner) nearest(holders []holder, plan []Placement, slot map[ids.InstanceID]int, now int) int {
	best := -1
	for _, h := range holders {
		i := slot[p.all[p.active[h.a]].Instance]
		if i == now {
			return now
		}
		if h.cold == holders[0].cold && (best < 0 || len(plan[i].Tasks) < len(plan[best].Tasks)) {
			best = i
		}
	}
	return best
}
