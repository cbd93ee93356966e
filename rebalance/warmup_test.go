package rebalance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

func member(name string, held []Held, owned ...int32) Member {
	m := Member{Instance: ids.InstanceID{Name: name}, Held: held, Generation: 1}
	for _, p := range owned {
		m.Owned = append(m.Owned, ids.TaskID{Partition: p})
	}
	return m
}

func held(p int32, size, behind int64) Held {
	return Held{Task: ids.TaskID{Partition: p}, Size: size, Behind: behind}
}

func stateTasks(n int32, prefer ...ids.InstanceID) (out []Task) {
	for p := range n {
		out = append(out, Task{ID: ids.TaskID{Partition: p}, Stateful: true, Prefer: prefer})
	}
	return out
}

// show lists shares as "a: runs [0] warm [1] next [2]".
func show(shares []Share) (out []string) {
	parts := func(list []ids.TaskID) (ps []int32) {
		for _, t := range list {
			ps = append(ps, t.Partition)
		}
		return ps
	}
	for _, s := range shares {
		out = append(out, fmt.Sprintf("%s: runs %v warm %v next %v", s.Instance.Name, parts(s.Tasks), parts(s.Warm), parts(s.Next)))
	}
	return out
}

func TestWarmUp(t *testing.T) {
	full := []Held{held(0, 9000, 0), held(1, 9000, 0), held(2, 9000, 0), held(3, 9000, 0)}
	b := ids.InstanceID{Name: "b"}
	for _, c := range []struct {
		name    string
		members []Member
		tasks   []Task
		near    int64
		want    []string
	}{
		{"a member without state follows, and gets nothing", []Member{member("a", full, 0, 1, 2, 3), member("b", nil)}, stateTasks(4), 100,
			[]string{"a: runs [0 1 2 3] warm [] next []", "b: runs [] warm [2] next []"}},
		{"what is small moves at once, by way of its owner", []Member{member("a", full, 0, 1, 2, 3), member("b", nil)}, stateTasks(4), 9000,
			[]string{"a: runs [0 1] warm [] next []", "b: runs [] warm [] next []"}},
		{"a member that is near waits for the owner, and the next warm-up begins", []Member{member("a", full, 0, 1, 2, 3), member("b", []Held{held(2, 0, 90)})}, stateTasks(4), 100,
			[]string{"a: runs [0 1 3] warm [] next []", "b: runs [] warm [3] next [2]"}},
		{"which has closed it", []Member{member("a", full, 0, 1, 3), member("b", []Held{held(2, 0, 90)})}, stateTasks(4), 100,
			[]string{"a: runs [0 1 3] warm [] next []", "b: runs [2] warm [3] next []"}},
		{"a warm-up that began goes on before another begins", []Member{member("a", full, 0, 1, 2, 3), member("b", []Held{held(3, 0, 5000)})}, stateTasks(4), 100,
			[]string{"a: runs [0 1 2 3] warm [] next []", "b: runs [] warm [3] next []"}},
		{"standbys do not count", []Member{member("a", full, 0, 1, 2, 3), member("b", nil)}, stateTasks(4, b), 100,
			[]string{"a: runs [0 1 2 3] warm [] next []", "b: runs [] warm [2 3] next []"}},
		{"an owner that does not know the size yet keeps its tasks", []Member{member("a", nil, 0, 1, 2, 3), member("b", nil)}, stateTasks(4), 1 << 40,
			[]string{"a: runs [0 1 2 3] warm [] next []", "b: runs [] warm [2] next []"}},
		{"tasks of the lost go to whom the plan says", []Member{member("a", nil, 0, 1), member("b", nil)}, stateTasks(4), 100,
			[]string{"a: runs [0 1] warm [] next []", "b: runs [2 3] warm [] next []"}},
		{"or to who is near, beyond its share", []Member{member("a", []Held{held(2, 0, 40)}, 0, 1), member("b", nil)}, stateTasks(4), 100,
			[]string{"a: runs [0 1 2] warm [] next []", "b: runs [3] warm [2] next []"}},
		{"tasks without state just move", []Member{member("a", nil, 0, 1), member("b", nil)}, []Task{{ID: ids.TaskID{}}, {ID: ids.TaskID{Partition: 1}}}, 100,
			[]string{"a: runs [0] warm [] next []", "b: runs [] warm [] next []"}},
	} {
		plan, err := Plan(c.members, c.tasks)
		require.NoError(t, err)
		require.Equal(t, c.want, show(WarmUp(c.members, plan, c.tasks, Warmup{Max: 1, Near: c.near})), c.name)
	}
}

// A member that leaves cannot keep its tasks, nor take those of the lost.
func TestWarmUpOfLeaving(t *testing.T) {
	a := member("a", []Held{held(0, 9000, 0), held(1, 0, 10)}, 0)
	a.Leaving = true
	members := []Member{a, member("b", nil)}
	plan, err := Plan(members, stateTasks(2))
	require.NoError(t, err)
	require.Equal(t, []string{"a: runs [] warm [] next []", "b: runs [1] warm [] next []"}, show(WarmUp(members, plan, stateTasks(2), Warmup{Max: 1})))
}

// A task that needs a new place goes to the member with the most of its state.
func TestPlanPrefersHolders(t *testing.T) {
	members := []Member{
		member("a", []Held{held(0, 0, 1<<20), held(1, 0, 3)}), member("b", []Held{held(0, 0, 900), held(1, 0, 100)}),
	}
	plan, err := Plan(members, stateTasks(2))
	require.NoError(t, err)
	require.Equal(t, []ids.TaskID{{Partition: 1}}, plan[0].Tasks)
	require.Equal(t, []ids.TaskID{{Partition: 0}}, plan[1].Tasks)
}

// Whoever comes and goes: no task with state leaves a member that runs it for one
// that is not near, no more is warmed up than allowed, and in the end the plan is
// carried out.
func TestWarmUpConverges(t *testing.T) {
	const near = 100
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := &warmWorld{t: t, rng: rng, tasks: stateTasks(1 + rng.Int32N(12)), warmup: Warmup{Max: 1 + rng.IntN(3), Near: near}}
		for i := range w.tasks {
			w.tasks[i].ID.Sub = int32(i % 2)
			w.tasks[i].Stateful = rng.IntN(5) > 0
		}
		for range 6 {
			switch {
			case len(w.members) < 2 || rng.IntN(2) == 0:
				w.names++
				w.members = append(w.members, Member{Instance: ids.InstanceID{Name: fmt.Sprint("i", w.names)}})
			default:
				k := rng.IntN(len(w.members))
				w.members = slices.Delete(w.members, k, k+1)
			}
			for range rng.IntN(6) {
				w.round()
			}
		}
		for range 4 * len(w.tasks) {
			w.round()
		}
		plan, err := Plan(w.members, w.tasks)
		require.NoError(t, err)
		owned := 0
		for _, m := range w.members {
			owned += len(m.Owned)
		}
		require.Equal(t, len(w.tasks), owned, "seed %d", seed)
		require.Zero(t, Moves(w.members, plan), "seed %d: %v", seed, show(w.last))
	}
}

// warmWorld is a group whose members do what they are told.
type warmWorld struct {
	t       *testing.T
	rng     *rand.Rand
	names   int
	members []Member
	tasks   []Task
	warmup  Warmup
	last    []Share
}

// round is one generation.
func (w *warmWorld) round() {
	turned := slices.Clone(w.members)
	w.rng.Shuffle(len(turned), func(i, j int) { turned[i], turned[j] = turned[j], turned[i] })
	plan, err := Plan(turned, w.tasks)
	require.NoError(w.t, err)
	shares := WarmUp(turned, plan, w.tasks, w.warmup)
	ordered, err := Plan(w.members, w.tasks)
	require.NoError(w.t, err)
	require.Equal(w.t, shares, WarmUp(w.members, ordered, w.tasks, w.warmup), "the order of members counts")
	warm := 0
	for _, s := range shares {
		warm += len(s.Warm)
		k := slices.IndexFunc(w.members, func(m Member) bool { return m.Instance == s.Instance })
		w.check(k, s)
		w.follow(k, s)
	}
	require.LessOrEqual(w.t, warm, w.warmup.Max)
	w.last = shares
}

// check compares a share with what others have.
func (w *warmWorld) check(k int, s Share) {
	me := w.members[k]
	for i, m := range w.members {
		for _, task := range m.Owned {
			if i != k {
				require.NotContains(w.t, s.Tasks, task, "%s has it", m.Instance)
				continue
			}
			stateful := slices.ContainsFunc(w.tasks, func(t Task) bool { return t.ID == task && t.Stateful })
			if stateful && !slices.Contains(s.Tasks, task) {
				near := slices.ContainsFunc(w.members, func(o Member) bool {
					return slices.ContainsFunc(o.Held, func(h Held) bool { return h.Task == task && h.Size == 0 && h.Behind <= w.warmup.Near })
				})
				require.True(w.t, near, "%s is taken from %s and nobody is near", task, me.Instance)
			}
		}
	}
}

// follow does as told: closes, starts, and reads a part of what is missing.
func (w *warmWorld) follow(k int, s Share) {
	m := Member{Instance: s.Instance, Owned: s.Tasks, Generation: w.members[k].Generation + 1}
	for _, task := range s.Tasks {
		m.Held = append(m.Held, Held{Task: task, Size: 1000})
	}
	for _, task := range append(slices.Clone(s.Warm), s.Next...) {
		behind := int64(1000)
		for _, h := range w.members[k].Held {
			if h.Task == task {
				behind = h.Behind
			}
		}
		m.Held = append(m.Held, Held{Task: task, Behind: max(0, behind-w.rng.Int64N(1200))})
	}
	slices.SortFunc(m.Held, func(a, b Held) int { return a.Task.Compare(b.Task) })
	w.members[k] = m
}
