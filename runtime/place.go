package runtime

import (
	"slices"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/rebalance"
)

// Below takeoverWorth bytes a task of a lost instance goes where the plan says,
// though another has its state: the download takes less than the move after it.
// probeAfter is when the leader asks for that move.
const (
	takeoverWorth = 8 << 20
	probeAfter    = 10 * time.Second
)

// place plans tasks and copies of their state; on the group's goroutine of the
// leader.
func (g *groupShell) place(members []rebalance.Member) ([]rebalance.Placement, [][]ids.TaskID, error) {
	var work []rebalance.Task
	var stateful []ids.TaskID
	for _, t := range g.i.plan.Tasks() {
		has := len(g.i.plan.Subtopologies()[t.Sub].Stores) > 0
		work = append(work, rebalance.Task{ID: t, Stateful: has})
		if has {
			stateful = append(stateful, t)
		}
	}
	placed, err := rebalance.Plan(members, work)
	if err != nil {
		return nil, nil, err
	}
	placed, beyond := rebalance.TakeOver(members, placed, work, takeoverWorth)
	if beyond {
		g.probeLater()
	}
	return placed, rebalance.PlanStandbys(members, placed, stateful, g.i.cfg.Standbys), nil
}

// probeLater asks for another plan when tasks went to instances beyond their
// share.
func (g *groupShell) probeLater() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.probe != nil {
		g.probe.Stop()
	}
	g.probe = time.AfterFunc(probeAfter, func() {
		g.i.loop.post(func() {
			if g.group != nil && !g.i.ending {
				g.group.Rejoin()
			}
		})
	})
}

// wanted reports whether copies of a task's files are of use here: it runs here,
// shall run here, or is followed.
func (g *groupShell) wanted() func(ids.TaskID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.Concat(g.owned, g.assigned, g.standbys)
	slices.SortFunc(all, ids.TaskID.Compare)
	return func(t ids.TaskID) bool {
		_, found := slices.BinarySearchFunc(all, t, ids.TaskID.Compare)
		return found
	}
}

// fetches says who fetches a task's files ahead: what shall run here is waited for,
// what is only followed must not take much.
func (g *groupShell) fetches(now, follow *checkpoint.Restorer) func(ids.TaskID) *checkpoint.Restorer {
	g.mu.Lock()
	defer g.mu.Unlock()
	soon := slices.Clone(g.assigned)
	return func(t ids.TaskID) *checkpoint.Restorer {
		if slices.Contains(soon, t) {
			return now
		}
		return follow
	}
}
