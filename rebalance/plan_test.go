package rebalance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

// TestPlanStories tells what happens to a group: each plan becomes what the
// members own in the next one.
func TestPlanStories(t *testing.T) {
	datadriven.Walk(t, "testdata/plan", func(t *testing.T, path string) {
		var tasks []Task
		owned := map[string][]ids.TaskID{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "tasks":
				tasks = nil
				for _, a := range d.CmdArgs { // sub=partitions
					var sub, parts int
					_, err := fmt.Sscanf(a.Key+" "+a.Vals[0], "%d %d", &sub, &parts)
					require.NoError(t, err)
					for p := range parts {
						tasks = append(tasks, Task{ID: ids.TaskID{Sub: int32(sub), Partition: int32(p)}})
					}
				}
				return "ok\n"
			case "weigh":
				for _, a := range d.CmdArgs {
					id, err := ids.ParseTaskID(a.Key)
					require.NoError(t, err)
					i := slices.IndexFunc(tasks, func(t Task) bool { return t.ID == id })
					_, err = fmt.Sscan(a.Vals[0], &tasks[i].Weight)
					require.NoError(t, err)
				}
				return "ok\n"
			case "plan":
				var members []Member
				for _, a := range d.CmdArgs {
					m := Member{Instance: ids.InstanceID{Name: a.Key}, Owned: owned[a.Key], Fingerprint: "f1"}
					for _, v := range a.Vals {
						if v == "leaving" {
							m.Leaving = true
						} else {
							m.Fingerprint = v
						}
					}
					members = append(members, m)
				}
				plan, err := Plan(members, tasks)
				if err != nil {
					return err.Error() + "\n"
				}
				var b strings.Builder
				clear(owned)
				for _, p := range plan {
					owned[p.Instance.Name] = p.Tasks
					fmt.Fprintf(&b, "%s %v\n", p.Instance.Name, p.Tasks)
				}
				fmt.Fprintf(&b, "moves %d\n", Moves(members, plan))
				return b.String()
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// group returns n members and tasks of random subtopologies, owned at random:
// by somebody, twice, by nobody, or no longer existing.
func group(r *rand.Rand, n, maxTasks, maxSubs int) ([]Member, []Task) {
	members := make([]Member, n)
	for i := range members {
		members[i] = Member{Instance: ids.InstanceID{Name: string(rune('a' + i))}, Leaving: r.IntN(6) == 0, Generation: int32(r.IntN(3))}
	}
	var tasks []Task
	for sub := range 1 + r.IntN(maxSubs) {
		for p := range 1 + r.IntN(maxTasks) {
			tasks = append(tasks, Task{ID: ids.TaskID{Sub: int32(sub), Partition: int32(p)}, Weight: int64(r.IntN(4))})
		}
	}
	for _, t := range append(slices.Clone(tasks), Task{ID: ids.TaskID{Sub: 9, Partition: 9}}) {
		for range r.IntN(3) {
			m := &members[r.IntN(n)]
			m.Owned = append(m.Owned, t.ID)
		}
	}
	return members, tasks
}

func TestPlanKeepsInvariants(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		members, tasks := group(r, 1+r.IntN(8), 20, 5)
		plan, err := Plan(members, tasks)
		require.NoError(t, err)
		checkInvariants(t, members, tasks, plan)

		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		r.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
		again, err := Plan(members, tasks)
		require.NoError(t, err)
		require.Equal(t, plan, again, "the order of the arguments matters")

		for i := range members {
			j := slices.IndexFunc(plan, func(p Placement) bool { return p.Instance == members[i].Instance })
			members[i].Owned = plan[j].Tasks
		}
		again, err = Plan(members, tasks)
		require.NoError(t, err)
		require.Equal(t, plan, again, "a plan that was carried out is not kept")
	}
}

func checkInvariants(t *testing.T, members []Member, tasks []Task, plan []Placement) {
	t.Helper()
	require.Len(t, plan, len(members))
	allLeave := !slices.ContainsFunc(members, func(m Member) bool { return !m.Leaving })
	var placed []ids.TaskID
	totals := map[int32][]int{}
	for _, p := range plan {
		m := members[slices.IndexFunc(members, func(m Member) bool { return m.Instance == p.Instance })]
		if m.Leaving && !allLeave {
			require.Empty(t, p.Tasks)
			continue
		}
		placed = append(placed, p.Tasks...)
		count := map[int32]int{}
		for _, id := range p.Tasks {
			count[id.Sub]++
			count[-1]++
		}
		for sub := int32(-1); sub < 5; sub++ {
			totals[sub] = append(totals[sub], count[sub])
		}
	}
	require.Len(t, placed, len(tasks))
	slices.SortFunc(placed, ids.TaskID.Compare)
	require.Len(t, slices.Compact(placed), len(tasks))
	for sub, counts := range totals {
		require.LessOrEqual(t, slices.Max(counts)-slices.Min(counts), 1, "subtopology %d: %v", sub, counts)
	}
}

// TestPlanMovesFewest compares with every balanced plan there is.
func TestPlanMovesFewest(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		members, tasks := group(r, 1+r.IntN(3), 3, 3)
		plan, err := Plan(members, tasks)
		require.NoError(t, err)
		require.Equal(t, fewestMoves(members, tasks), Moves(members, plan), "seed %d", seed)
	}
}

func fewestMoves(members []Member, tasks []Task) int {
	var active []int
	for i, m := range members {
		if !m.Leaving {
			active = append(active, i)
		}
	}
	if len(active) == 0 {
		for i := range members {
			active = append(active, i)
		}
	}
	owner := owners(members)
	best := len(tasks)
	choice := make([]int, len(tasks))
	var try func(i int)
	try = func(i int) {
		if i < len(tasks) {
			for _, a := range active {
				choice[i] = a
				try(i + 1)
			}
			return
		}
		counts := map[int32]map[int]int{}
		moves := 0
		for j, t := range tasks {
			for _, sub := range []int32{-1, t.ID.Sub} {
				if counts[sub] == nil {
					counts[sub] = map[int]int{}
				}
				counts[sub][choice[j]]++
			}
			if o, owned := owner[t.ID]; owned && o != choice[j] {
				moves++
			}
		}
		for _, c := range counts {
			low, high := len(tasks), 0
			for _, a := range active {
				low, high = min(low, c[a]), max(high, c[a])
			}
			if high-low > 1 {
				return
			}
		}
		best = min(best, moves)
	}
	try(0)
	return best
}

// TestPlanIsFast counts operations: 10,000 tasks on 200 instances, of which
// ten just left and ten just came.
func TestPlanIsFast(t *testing.T) {
	var tasks []Task
	for i := range int32(10_000) {
		tasks = append(tasks, Task{ID: ids.TaskID{Sub: i % 13, Partition: i / 13}, Weight: int64(i % 7)})
	}
	members := make([]Member, 200)
	for i := range members {
		members[i].Instance.Name = fmt.Sprintf("m%03d", i)
	}
	for i, task := range tasks {
		if m := i % 210; m >= 10 && m < 200 {
			members[m].Owned = append(members[m].Owned, task.ID)
		}
	}
	p := newPlanner(members, tasks)
	p.claim()
	p.quotas()
	p.warm()
	p.keep()
	p.spread()
	checkInvariants(t, members, tasks, p.placements())
	require.Less(t, p.steps, 20_000_000)
	t.Logf("%d steps", p.steps)
}
