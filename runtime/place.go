package runtime

import (
	"slices"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/rebalance"
)

// Below takeoverWorth bytes a task of a lost instance goes where the plan says,
// though another has its state: the download takes less than the move after it.
// Nor is a task with less state a warm-up that WithMaxWarmups counts. probeAfter is
// when the leader asks for that move.
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
	placed, heldBack := rebalance.HoldBack(members, placed, work, g.i.cfg.MaxWarmups, takeoverWorth)
	switch {
	case heldBack > 0:
		g.i.log.Info("tasks with much state move later, as their next owners fetch it", "at once", g.i.cfg.MaxWarmups, "later", heldBack)
		g.planned(placed)
		g.probeLater(g.i.cfg.ProbingInterval)
	case beyond:
		g.planned(nil)
		g.probeLater(probeAfter)
	default:
		g.planned(nil)
	}
	return placed, rebalance.PlanStandbys(members, placed, stateful, g.i.cfg.Standbys), nil
}

// planned remembers a plan behind which there is another one.
func (g *groupShell) planned(plan []rebalance.Placement) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = nil
	for _, p := range plan {
		for _, t := range p.Tasks {
			if g.next == nil {
				g.next = map[ids.TaskID]ids.InstanceID{}
			}
			g.next[t] = p.Instance
		}
	}
}

// moved asks for the next plan when the last one, which held tasks back, was
// carried out; on the loop.
func (g *groupShell) moved(owners []barrier.Owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil {
		return
	}
	for _, o := range owners {
		for _, t := range o.Tasks {
			if g.next[t] != o.Instance {
				return
			}
		}
	}
	g.next = nil
	if g.group != nil {
		g.group.Rejoin()
	}
}

// probeLater asks for another plan after a while: when tasks went to instances
// beyond their share, or when the end of the moves is not seen here.
func (g *groupShell) probeLater(after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.probe != nil {
		g.probe.Stop()
	}
	g.probe = time.AfterFunc(after, func() {
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
