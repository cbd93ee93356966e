package rebalance

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// warmth knows which active members have a copy of a task's state.
type warmth struct {
	holders map[ids.TaskID][]holder // the newest copy first
	weight  map[ids.TaskID]int64    // the largest size that a member says
}

type holder struct {
	a    int // index into planner.active
	cold int // see coldness
}

func (p *planner) warmth() *warmth {
	w := &warmth{holders: map[ids.TaskID][]holder{}, weight: map[ids.TaskID]int64{}}
	slot := map[ids.InstanceID]int{}
	newest := map[ids.TaskID]int64{}
	for _, m := range p.all {
		for _, h := range m.Held {
			w.weight[h.Task] = max(w.weight[h.Task], h.Size)
			newest[h.Task] = max(newest[h.Task], h.Position)
		}
	}
	for a, i := range p.active {
		slot[p.all[i].Instance] = a
		for _, h := range p.all[i].Held {
			w.holders[h.Task] = append(w.holders[h.Task], holder{a, coldness(h, newest[h.Task])})
		}
	}
	for _, tasks := range p.tasks {
		for _, t := range tasks {
			for _, id := range t.Prefer {
				a, active := slot[id]
				if active && !slices.ContainsFunc(w.holders[t.ID], func(h holder) bool { return h.a == a }) {
					w.holders[t.ID] = append(w.holders[t.ID], holder{a, unknownCold})
				}
			}
		}
	}
	for _, list := range w.holders {
		slices.SortFunc(list, func(a, b holder) int { return cmp.Or(cmp.Compare(a.cold, b.cold), cmp.Compare(a.a, b.a)) })
	}
	return w
}

// coldness grows with what a member has yet to get of a task's state. Records
// below a thousand do not count: copies are always a little behind.
func coldness(h Held, newest int64) int {
	return bits.Len64(uint64(h.Behind)>>10) + bits.Len64(uint64(newest-h.Position))
}

// unknownCold is the coldness of a copy of which nothing is said.
const unknownCold = 200

// newest returns the members with the newest copy of a task's state.
func (w *warmth) newest(t ids.TaskID) []holder {
	list := w.holders[t]
	for n := range list {
		if list[n].cold != list[0].cold {
			return list[:n]
		}
	}
	return list
}

// match gives as many of a subtopology's free tasks as possible to members that
// hold their state, by augmenting paths: a task whose holders are full takes the
// place of one that has another holder with room.
type match struct {
	w       *warmth
	room    []int // per active member
	at      map[ids.TaskID]int
	tasks   [][]ids.TaskID // per active member, what it was given here
	visited []bool
	steps   int
}

// warm places tasks on holders of their state: free ones, and those that a
// member with too many would give away. What it places leaves p.free and
// p.claimed.
func (p *planner) warm() {
	for s := range p.subs {
		m := &match{w: p.holds, room: make([]int, len(p.active)), at: map[ids.TaskID]int{}, tasks: make([][]ids.TaskID, len(p.active)), visited: make([]bool, len(p.active))}
		surplus := make([]int, len(p.active))
		for a := range p.active {
			own := len(p.claimed[a][s])
			m.room[a], surplus[a] = max(p.quota[a][s]-own, 0), max(own-p.quota[a][s], 0)
		}
		slices.SortFunc(p.free[s], heaviestFirst)
		for _, t := range p.free[s] {
			clear(m.visited)
			m.place(t.ID)
		}
		p.free[s] = p.takeMatched(m, s, p.free[s])
		p.warmSurplus(m, s, surplus)
		p.steps += m.steps
	}
}

// place finds a holder of the task with room, moving others if need be.
func (m *match) place(t ids.TaskID) bool {
	for _, h := range m.w.holders[t] {
		m.steps++
		if m.room[h.a] > 0 {
			m.room[h.a]--
			m.put(t, h.a)
			return true
		}
	}
	for _, h := range m.w.holders[t] {
		if m.visited[h.a] {
			continue
		}
		m.visited[h.a] = true
		for _, other := range m.tasks[h.a] {
			m.steps++
			if m.place(other) { // it went elsewhere
				m.put(t, h.a)
				return true
			}
		}
	}
	return false
}

// put notes where a task is, and takes it from where it was.
func (m *match) put(t ids.TaskID, a int) {
	if old, placed := m.at[t]; placed {
		m.tasks[old] = slices.DeleteFunc(m.tasks[old], func(o ids.TaskID) bool { return o == t })
	}
	m.at[t] = a
	m.tasks[a] = append(m.tasks[a], t)
}

// takeMatched gives the matched tasks and returns the others.
func (p *planner) takeMatched(m *match, s int, tasks []Task) []Task {
	var left []Task
	for _, t := range tasks {
		if a, matched := m.at[t.ID]; matched {
			p.give(a, s, t)
		} else {
			left = append(left, t)
		}
	}
	return left
}

// warmSurplus moves what members with too many tasks have to give away to
// members that hold the state: the newest copies first, then the lightest.
func (p *planner) warmSurplus(m *match, s int, surplus []int) {
	type pair struct {
		t        Task
		from, to int
		cold     int
	}
	var pairs []pair
	for from, n := range surplus {
		if n == 0 {
			continue
		}
		for _, t := range p.claimed[from][s] {
			if isCoordinator(t) && p.quota[from][s] > 0 {
				continue // stays
			}
			for _, h := range p.holds.holders[t.ID] {
				p.steps++
				if m.room[h.a] > 0 {
					pairs = append(pairs, pair{t, from, h.a, h.cold})
				}
			}
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.cold, b.cold), heaviestFirst(b.t, a.t), cmp.Compare(a.to, b.to))
	})
	for _, x := range pairs {
		at := slices.IndexFunc(p.claimed[x.from][s], func(t Task) bool { return t.ID == x.t.ID })
		if surplus[x.from] == 0 || m.room[x.to] == 0 || at < 0 {
			continue
		}
		surplus[x.from]--
		m.room[x.to]--
		p.claimed[x.from][s] = slices.Delete(p.claimed[x.from][s], at, at+1)
		p.give(x.to, s, x.t)
	}
}
