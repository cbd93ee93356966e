package rebalance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

// large is a group of 200 instances in three zones that runs 10,000 tasks of 13
// subtopologies, with one standby each.
type large struct {
	work     []Task
	stateful []ids.TaskID
	members  []Member
}

func newLarge(tb testing.TB) *large {
	g := &large{}
	for i := range int32(10_000) {
		id := ids.TaskID{Sub: i % 13, Partition: i / 13}
		g.work = append(g.work, Task{ID: id, Stateful: true})
		g.stateful = append(g.stateful, id)
	}
	for i := range 200 {
		g.members = append(g.members, largeMember(i))
	}
	plan, standbys := g.assign(tb)
	g.carryOut(plan, standbys)
	return g
}

func largeMember(i int) Member {
	return Member{
		Instance: ids.InstanceID{Name: fmt.Sprintf("orders-%03d", i), Rand: uint64(i)}, Fingerprint: "f1",
		Tags: map[string]string{"zone": string(rune('a' + i%3))},
	}
}

// assign is all that a leader does: it reads what members say, plans, and writes
// what they are told.
func (g *large) assign(tb testing.TB) ([]Placement, [][]ids.TaskID) {
	members := make([]Member, len(g.members))
	for i, m := range g.members {
		var err error
		members[i], err = DecodeMember(AppendMember(nil, m))
		require.NoError(tb, err)
	}
	plan, err := Plan(members, g.work)
	require.NoError(tb, err)
	standbys := PlanStandbys(members, plan, g.stateful, 1)
	all := make([]ids.InstanceID, len(plan))
	for i, p := range plan {
		all[i] = p.Instance
	}
	for i, p := range plan {
		AppendAssigned(nil, Assigned{Tasks: p.Tasks, Standbys: standbys[i], Members: all, Fingerprint: "f1"})
	}
	return plan, standbys
}

func (g *large) carryOut(plan []Placement, standbys [][]ids.TaskID) {
	g.members = carriedOut(g.members, plan, standbys)
	for i := range g.members {
		for j := range g.members[i].Held {
			h := &g.members[i].Held[j]
			h.Position, h.Size = 1<<33-int64(j%3), int64(j%7)<<24
		}
		slices.SortFunc(g.members[i].Held, func(a, b Held) int { return a.Task.Compare(b.Task) })
	}
}

// fewestForJoin is what balance requires when the last of the members has no
// tasks yet: its share, rounded down, in total and by subtopology, and what the
// others have above theirs, rounded up.
func (g *large) fewestForJoin() int {
	n := len(g.members)
	sizes := map[int32]int{}
	for _, t := range g.work {
		sizes[t.ID.Sub]++
	}
	bySub, above := 0, 0
	for _, size := range sizes {
		bySub += size / n
	}
	for _, m := range g.members {
		own := map[int32]int{}
		for _, t := range m.Owned {
			own[t.Sub]++
		}
		for sub, k := range own {
			above += max(0, k-(sizes[sub]+n-1)/n)
		}
	}
	return max(len(g.work)/n, bySub, above)
}

// When one instance joins or leaves, no more tasks move than balance requires,
// and what moves for a loss goes to who has a copy.
func TestLargeGroupMovesFewest(t *testing.T) {
	g := newLarge(t)
	g.members = append(g.members, largeMember(200))
	begun := time.Now()
	plan, standbys := g.assign(t)
	took := time.Since(begun)
	checkInvariants(t, g.members, g.work, plan)
	moves, fewest := Moves(g.members, plan), g.fewestForJoin()
	t.Logf("10,000 tasks, 200 instances and one that joins: %v, %d moves, balance requires %d", took.Round(time.Millisecond), moves, fewest)
	require.LessOrEqual(t, moves, fewest)
	g.checkZones(t, plan, standbys)
	g.carryOut(plan, standbys)

	lost := g.members[7]
	g.members = slices.Delete(g.members, 7, 8)
	begun = time.Now()
	plan, _ = g.assign(t)
	checkInvariants(t, g.members, g.work, plan)
	moves = Moves(g.members, plan)
	taken, changed := TakeOver(g.members, plan, g.work, 1<<20)
	took = time.Since(begun)
	require.True(t, changed)
	t.Logf("10,000 tasks, 200 instances after one was lost: %v, %d tasks need a new place, %d of them where nothing is of their state; %d others move, balance requires 0",
		took.Round(time.Millisecond), len(lost.Owned), g.cold(taken), moves)
	require.Zero(t, moves)
	require.Zero(t, Moves(g.members, taken))
	require.LessOrEqual(t, g.cold(taken), len(lost.Owned)/5, "small ones are not worth it")
	for _, p := range taken {
		require.InDelta(t, 50, len(p.Tasks), 3)
	}

	g.carryOut(taken, PlanStandbys(g.members, taken, g.stateful, 1))
	plan, standbys = g.assign(t)
	checkInvariants(t, g.members, g.work, plan)
	require.LessOrEqual(t, Moves(g.members, plan), len(lost.Owned), "the next plan moves on what was taken over")
	g.checkZones(t, plan, standbys)
}

// cold counts the tasks that a plan gives to members without their state.
func (g *large) cold(plan []Placement) (n int) {
	for i, p := range plan {
		for _, id := range p.Tasks {
			if !slices.ContainsFunc(g.members[i].Held, func(h Held) bool { return h.Task == id }) {
				n++
			}
		}
	}
	return n
}

func (g *large) checkZones(t *testing.T, plan []Placement, standbys [][]ids.TaskID) {
	t.Helper()
	zone := map[ids.TaskID]string{}
	for i, p := range plan {
		for _, id := range p.Tasks {
			zone[id] = g.members[i].Tags["zone"]
		}
	}
	n := 0
	for i, list := range standbys {
		n += len(list)
		for _, id := range list {
			require.NotEqual(t, zone[id], g.members[i].Tags["zone"], "the copy of %s is in its owner's zone", id)
		}
		require.InDelta(t, 50, len(list), 25, "copies of %s", plan[i].Instance)
	}
	require.Equal(t, len(g.work), n)
}

// BenchmarkAssign is the leader's work for one generation of the large group.
func BenchmarkAssign(b *testing.B) {
	g := newLarge(b)
	g.members = append(g.members, largeMember(200))
	for b.Loop() {
		g.assign(b)
	}
}
