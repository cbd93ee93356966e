package rebalance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

func standbyGroup(n, tasks int, tags func(i int) map[string]string) ([]Member, []Task, []ids.TaskID) {
	members := make([]Member, n)
	for i := range members {
		members[i] = Member{Instance: ids.InstanceID{Name: fmt.Sprintf("m%03d", i)}}
		if tags != nil {
			members[i].Tags = tags(i)
		}
	}
	var work []Task
	var stateful []ids.TaskID
	for p := range int32(tasks) {
		work = append(work, Task{ID: ids.TaskID{Sub: 1, Partition: p}})
		stateful = append(stateful, ids.TaskID{Sub: 1, Partition: p})
	}
	return members, work, stateful
}

// carriedOut is what members hold after a plan was carried out.
func carriedOut(members []Member, plan []Placement, standbys [][]ids.TaskID) []Member {
	var out []Member
	for _, m := range members {
		i := slices.IndexFunc(plan, func(p Placement) bool { return p.Instance == m.Instance })
		if i < 0 {
			out = append(out, m)
			continue
		}
		m.Owned, m.Held = plan[i].Tasks, nil
		for _, t := range slices.Concat(plan[i].Tasks, standbys[i]) {
			m.Held = append(m.Held, Held{Task: t, Position: 7, Size: 1024})
		}
		out = append(out, m)
	}
	return out
}

func checkStandbys(t *testing.T, plan []Placement, standbys [][]ids.TaskID, tasks, n int) {
	t.Helper()
	copies := map[ids.TaskID]int{}
	for i, list := range standbys {
		require.True(t, slices.IsSortedFunc(list, ids.TaskID.Compare))
		for _, task := range list {
			copies[task]++
			require.NotContains(t, plan[i].Tasks, task, "a copy beside its owner")
		}
	}
	for p := range int32(tasks) {
		require.Equal(t, n, copies[ids.TaskID{Sub: 1, Partition: p}])
	}
}

// Copies are spread evenly, stay where they are, and follow a loss only as far
// as the lost member's own go.
func TestStandbysAreBalancedAndSticky(t *testing.T) {
	members, work, stateful := standbyGroup(7, 100, nil)
	plan, err := Plan(members, work)
	require.NoError(t, err)
	first := PlanStandbys(members, plan, stateful, 2)
	checkStandbys(t, plan, first, 100, 2)
	for _, list := range first {
		require.InDelta(t, 200/7, len(list), 2)
	}
	members = carriedOut(members, plan, first)
	plan, err = Plan(members, work)
	require.NoError(t, err)
	require.Equal(t, first, PlanStandbys(members, plan, stateful, 2), "nothing changed")

	lost := members[3]
	members = slices.Delete(slices.Clone(members), 3, 4)
	plan, err = Plan(members, work)
	require.NoError(t, err)
	cold := 0
	for i, p := range plan {
		for _, task := range p.Tasks {
			if !slices.ContainsFunc(members[i].Held, func(h Held) bool { return h.Task == task }) {
				cold++
			}
		}
	}
	require.Zero(t, cold, "tasks of the lost member go to members with a copy")
	after := PlanStandbys(members, plan, stateful, 2)
	checkStandbys(t, plan, after, 100, 2)
	fresh := 0
	for i, list := range after {
		for _, task := range list {
			if !slices.ContainsFunc(members[i].Held, func(h Held) bool { return h.Task == task }) {
				fresh++
			}
		}
	}
	require.LessOrEqual(t, fresh, len(lost.Held), "copies that must be made anew")
}

func TestStandbysRespectTags(t *testing.T) {
	zones := func(i int) map[string]string {
		return map[string]string{"zone": string(rune('a' + i%3)), "rack": fmt.Sprint(i % 6)}
	}
	members, work, stateful := standbyGroup(12, 120, zones)
	plan, err := Plan(members, work)
	require.NoError(t, err)
	standbys := PlanStandbys(members, plan, stateful, 2)
	checkStandbys(t, plan, standbys, 120, 2)
	at := map[ids.TaskID][]string{}
	for i, p := range plan {
		for _, task := range slices.Concat(p.Tasks, standbys[i]) {
			at[task] = append(at[task], members[i].Tags["zone"])
		}
	}
	for task, list := range at {
		slices.Sort(list)
		require.Equal(t, []string{"a", "b", "c"}, list, "zones of task %s", task)
	}
	// More copies than zones: the rest goes wherever there is room.
	checkStandbys(t, plan, PlanStandbys(members, plan, stateful, 4), 120, 4)
	// A copy in the owner's zone, from before there were tags, does not stay.
	members = carriedOut(members, plan, standbys)
	members[0].Held = append(members[0].Held, Held{Task: plan[3].Tasks[0], Position: 9})
	again := PlanStandbys(members, plan, stateful, 2)
	require.NotContains(t, again[0], plan[3].Tasks[0])
}

func TestStandbysWithFewMembers(t *testing.T) {
	members, work, stateful := standbyGroup(2, 5, nil)
	members[1].Leaving = true
	plan, err := Plan(members, work)
	require.NoError(t, err)
	for _, list := range PlanStandbys(members, plan, stateful, 3) {
		require.Empty(t, list)
	}
	members[1].Leaving = false
	plan, err = Plan(members, work)
	require.NoError(t, err)
	checkStandbys(t, plan, PlanStandbys(members, plan, stateful, 3), 5, 1)
}

// A group that was restarted as a whole gives every task to a holder of its
// newest state, and to the same one where only one has it.
func TestPlanAfterRestart(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		members, work, stateful := standbyGroup(2+r.IntN(7), 10+r.IntN(50), nil)
		n := r.IntN(3)
		plan, err := Plan(members, work)
		require.NoError(t, err)
		members = carriedOut(members, plan, PlanStandbys(members, plan, stateful, n))
		for i := range members {
			members[i].Owned = nil
			members[i].Instance.Rand = r.Uint64()
		}
		again, err := Plan(members, work)
		require.NoError(t, err)
		for i, p := range again {
			for _, task := range p.Tasks {
				require.True(t, slices.ContainsFunc(members[i].Held, func(h Held) bool { return h.Task == task }), "seed %d: %s on %s", seed, task, p.Instance)
			}
			if n == 0 {
				require.Equal(t, plan[i].Tasks, p.Tasks)
			}
		}
	}
}

// The survivor of two takes all over, though a third without state is there; the
// next plan shares.
func TestTakeOver(t *testing.T) {
	members, work, stateful := standbyGroup(2, 4, nil)
	for i := range work {
		work[i].Stateful = true
	}
	plan, err := Plan(members, work)
	require.NoError(t, err)
	members = carriedOut(members, plan, PlanStandbys(members, plan, stateful, 1))
	members[1] = Member{Instance: ids.InstanceID{Name: "new"}}
	plan, err = Plan(members, work)
	require.NoError(t, err)
	require.Len(t, plan[1].Tasks, 2)
	same, changed := TakeOver(members, plan, work, 1<<20)
	require.False(t, changed, "little state is fetched at once")
	require.Equal(t, plan, same)
	taken, changed := TakeOver(members, plan, work, 1)
	require.True(t, changed)
	require.Equal(t, stateful, taken[0].Tasks)
	require.Empty(t, taken[1].Tasks)
	members = carriedOut(members, taken, make([][]ids.TaskID, 2))
	next, err := Plan(members, work)
	require.NoError(t, err)
	require.Len(t, next[1].Tasks, 2)
	after, changed := TakeOver(members, next, work, 1)
	require.False(t, changed, "a task that somebody runs is moved as planned")
	require.Equal(t, next, after)
}

// A member that comes back gets, of what must move to it, what it still has.
func TestPlanGivesBackWhatAReturningMemberHolds(t *testing.T) {
	members, work, stateful := standbyGroup(4, 40, nil)
	plan, err := Plan(members, work)
	require.NoError(t, err)
	members = carriedOut(members, plan, PlanStandbys(members, plan, stateful, 0))
	gone := members[2]
	rest := slices.Delete(slices.Clone(members), 2, 3)
	for i := range rest {
		for j := range rest[i].Held {
			rest[i].Held[j].Position = 20
		}
	}
	without, err := Plan(rest, work)
	require.NoError(t, err)
	for i, p := range without {
		rest[i].Owned = p.Tasks
	}
	gone.Owned, gone.Instance.Rand = nil, 5
	back, err := Plan(append(rest, gone), work)
	require.NoError(t, err)
	require.Equal(t, 10, Moves(append(rest, gone), back))
	require.Equal(t, plan[2].Tasks, back[2].Tasks)
}
