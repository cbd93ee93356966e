package rebalance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

// has says what a member's folder holds of a task: whose files go up to a
// checkpoint.
func has(p int32, size, checkpoint int64) Held {
	return Held{Task: ids.TaskID{Partition: p}, Size: size, Position: checkpoint}
}

func TestHoldBack(t *testing.T) {
	full := []Held{has(0, 900, 5000), has(1, 900, 5000), has(2, 900, 5000), has(3, 900, 5000)}
	leaving := member("a", full, 0, 1, 2, 3)
	leaving.Leaving = true
	for _, c := range []struct {
		name    string
		members []Member
		worth   int64
		want    [][]int32
		back    int
	}{
		{"one at a time moves to a member without state", []Member{member("a", full, 0, 1, 2, 3), member("b", nil)}, 100, [][]int32{{0, 1, 3}, {2}}, 1},
		{"what is small moves at once", []Member{member("a", full, 0, 1, 2, 3), member("b", nil)}, 1000, [][]int32{{0, 1}, {2, 3}}, 0},
		{"a fresh copy does not count", []Member{member("a", full, 0, 1, 2, 3), member("b", []Held{has(3, 900, 4900)})}, 100, [][]int32{{0, 1}, {2, 3}}, 0},
		{"an old one does, and goes first", []Member{member("a", full, 0, 1, 2, 3), member("b", []Held{has(3, 900, 100)})}, 100, [][]int32{{0, 1, 2}, {3}}, 1},
		{"who leaves keeps nothing", []Member{leaving, member("b", nil)}, 100, [][]int32{nil, {0, 1, 2, 3}}, 0},
		{"nor do the lost", []Member{member("a", full, 0, 1), member("b", nil)}, 100, [][]int32{{0, 1}, {2, 3}}, 0},
	} {
		tasks := stateTasks(4)
		plan, err := Plan(c.members, tasks)
		require.NoError(t, err)
		got, back := HoldBack(c.members, plan, tasks, 1, c.worth)
		require.Equal(t, c.back, back, c.name)
		for i, p := range got {
			var parts []int32
			for _, task := range p.Tasks {
				parts = append(parts, task.Partition)
			}
			require.Equal(t, c.want[i], parts, "%s: %s", c.name, p.Instance.Name)
		}
	}
}

// Whoever comes and goes: no more tasks with much state move to members without it
// than allowed, none is lost on the way, and in the end the plan is carried out.
func TestHoldBackConverges(t *testing.T) {
	const worth = 100
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		tasks := stateTasks(1 + rng.Int32N(14))
		for i := range tasks {
			tasks[i].ID.Sub = int32(i % 2)
			tasks[i].Stateful = rng.IntN(5) > 0
		}
		most := 1 + rng.IntN(3)
		var members []Member
		names, checkpoint := 0, int64(1000)
		round := func() {
			turned := slices.Clone(members)
			rng.Shuffle(len(turned), func(i, j int) { turned[i], turned[j] = turned[j], turned[i] })
			plan, err := Plan(turned, tasks)
			require.NoError(t, err)
			held, back := HoldBack(turned, plan, tasks, most, worth)
			ordered, err := Plan(members, tasks)
			require.NoError(t, err)
			same, n := HoldBack(members, ordered, tasks, most, worth)
			require.Equal(t, same, held, "seed %d: the order of members counts", seed)
			require.Equal(t, back, n)
			require.LessOrEqual(t, Moves(members, held), Moves(members, plan))
			before, big := owners(members), 0
			checkpoint += 1 << 20 // copies that nobody follows grow old
			count := 0
			for _, p := range held {
				k := slices.IndexFunc(members, func(m Member) bool { return m.Instance == p.Instance })
				now := Member{Instance: p.Instance, Owned: p.Tasks, Generation: members[k].Generation + 1}
				for _, task := range p.Tasks {
					count++
					size := int64(task.Partition%4) * 60 // two of four are worth it
					if o, owned := before[task]; owned && o != k && size >= worth && slices.ContainsFunc(tasks, func(x Task) bool { return x.ID == task && x.Stateful }) {
						big++
					}
					now.Held = append(now.Held, Held{Task: task, Size: size, Position: checkpoint})
				}
				members[k] = now
			}
			require.Equal(t, len(tasks), count, "seed %d", seed)
			require.LessOrEqual(t, big, most, "seed %d", seed)
		}
		for range 6 {
			if len(members) < 2 || rng.IntN(2) == 0 {
				names++
				members = append(members, Member{Instance: ids.InstanceID{Name: fmt.Sprint("i", names)}})
			} else {
				k := rng.IntN(len(members))
				members = slices.Delete(members, k, k+1)
			}
			for range rng.IntN(4) {
				round()
			}
		}
		for range len(tasks) {
			round()
		}
		plan, err := Plan(members, tasks)
		require.NoError(t, err)
		require.Zero(t, Moves(members, plan), "seed %d", seed)
	}
}
