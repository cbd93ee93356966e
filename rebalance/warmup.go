package rebalance

import (
	"cmp"
	"math"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Warmup says when a task with state may move away from a member that runs it.
type Warmup struct {
	// Max is how many tasks may be followed at a time, in the whole group, only
	// because they are to move.
	Max int
	// Near is how far behind a member may be that takes a task over. A task whose
	// whole state is not more than that moves at once.
	Near int64
}

// Share is what one member is told.
type Share struct {
	Instance ids.InstanceID
	// Tasks are those that it runs.
	Tasks []ids.TaskID
	// Warm are those that it follows until it is near, Next those that it gets as
	// soon as their owners have closed them. All are sorted.
	Warm, Next []ids.TaskID
}

// WarmUp makes of a plan what each member is told now. A task with state stays
// with the member that runs it until the one of the plan is near; so it runs on
// while its state is copied. A task that nobody runs goes to the member of the
// plan, or to one that is near if that one is not, and moves on later. What a
// member still has is given to nobody else (see Withhold).
//
// Members include those that are not in the plan.
func WarmUp(members []Member, plan []Placement, tasks []Task, w Warmup) []Share {
	u := newWarming(members, plan, w)
	for _, t := range sortedTasks(tasks) {
		u.place(t)
	}
	u.follow()
	return u.shares()
}

// warming is one run of WarmUp.
type warming struct {
	Warmup
	members []Member
	planned map[ids.TaskID]int // index into placed
	slot    map[ids.InstanceID]int
	placed  []Placement // what a member shall have, whether free yet or not
	warm    [][]ids.TaskID
	owner   map[ids.TaskID]int // index into members
	size    map[ids.TaskID]int64
	behind  map[holding]int64
	waiting []candidate
}

type holding struct {
	at   ids.InstanceID
	task ids.TaskID
}

// candidate is a task that waits for the member of the plan to be near.
type candidate struct {
	task    ids.TaskID
	to      int
	begun   bool // that member follows it already
	standby bool // and would in any case
	behind  int64
}

func newWarming(members []Member, plan []Placement, w Warmup) *warming {
	u := &warming{
		Warmup: w, members: members, planned: map[ids.TaskID]int{}, slot: map[ids.InstanceID]int{}, owner: owners(members),
		placed: make([]Placement, len(plan)), warm: make([][]ids.TaskID, len(plan)),
		size: map[ids.TaskID]int64{}, behind: map[holding]int64{},
	}
	for i, p := range plan {
		u.placed[i].Instance = p.Instance
		u.slot[p.Instance] = i
		for _, t := range p.Tasks {
			u.planned[t] = i
		}
	}
	for i, m := range members {
		for _, h := range m.Held {
			if u.owns(i, h.Task) {
				u.size[h.Task] = h.Size
			} else {
				u.behind[holding{m.Instance, h.Task}] = h.Behind
			}
		}
	}
	return u
}

func (u *warming) owns(member int, t ids.TaskID) bool {
	i, owned := u.owner[t]
	return owned && i == member
}

// missing is how much of a task's state a member would have to read.
func (u *warming) missing(at ids.InstanceID, t ids.TaskID) int64 {
	if b, follows := u.behind[holding{at, t}]; follows {
		return b
	}
	if s, known := u.size[t]; known {
		return s
	}
	return math.MaxInt64
}

// place decides where a task is for now.
func (u *warming) place(t Task) {
	to, planned := u.planned[t.ID]
	if !planned {
		return
	}
	stay := u.runsAt(t.ID)
	at := u.placed[to].Instance
	missing := u.missing(at, t.ID)
	if !t.Stateful || stay == to || missing <= u.Near {
		u.give(to, t.ID)
		return
	}
	if stay < 0 {
		if stay = u.nearest(t.ID); stay < 0 {
			u.give(to, t.ID)
			return
		}
	}
	u.give(stay, t.ID)
	_, begun := u.behind[holding{at, t.ID}]
	u.waiting = append(u.waiting, candidate{t.ID, to, begun, slices.Contains(t.Prefer, at), missing})
}

// runsAt is the member of the plan that runs a task and may go on to, or -1.
func (u *warming) runsAt(t ids.TaskID) int {
	i, owned := u.owner[t]
	if !owned || u.members[i].Leaving {
		return -1
	}
	if s, in := u.slot[u.members[i].Instance]; in {
		return s
	}
	return -1
}

// nearest is the member with the least to read of a task's state among those that
// are near, then the one that has the fewest tasks, or -1.
func (u *warming) nearest(t ids.TaskID) int {
	best, least := -1, int64(0)
	for s, p := range u.placed {
		b, follows := u.behind[holding{p.Instance, t}]
		if !follows || b > u.Near || u.leaving(p.Instance) {
			continue
		}
		if best < 0 || b < least || b == least && len(p.Tasks) < len(u.placed[best].Tasks) {
			best, least = s, b
		}
	}
	return best
}

func (u *warming) leaving(id ids.InstanceID) bool {
	return slices.ContainsFunc(u.members, func(m Member) bool { return m.Instance == id && m.Leaving })
}

func (u *warming) give(to int, t ids.TaskID) { u.placed[to].Tasks = append(u.placed[to].Tasks, t) }

// follow lets members follow what they wait for: first what they follow in any
// case, then what they have the least to read of.
func (u *warming) follow() {
	slices.SortFunc(u.waiting, func(a, b candidate) int {
		return cmp.Or(-compareBool(a.standby, b.standby), -compareBool(a.begun, b.begun), cmp.Compare(a.behind, b.behind), a.task.Compare(b.task))
	})
	left := u.Max
	for _, c := range u.waiting {
		if !c.standby {
			if left == 0 {
				continue
			}
			left--
		}
		u.warm[c.to] = append(u.warm[c.to], c.task)
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (u *warming) shares() []Share {
	out := make([]Share, len(u.placed))
	for i, p := range Withhold(u.members, u.placed) {
		out[i] = Share{Instance: p.Instance, Tasks: p.Tasks, Warm: u.warm[i]}
		for _, t := range u.placed[i].Tasks {
			if _, follows := u.behind[holding{p.Instance, t}]; follows && !slices.Contains(p.Tasks, t) {
				out[i].Next = append(out[i].Next, t)
			}
		}
		for _, list := range [][]ids.TaskID{out[i].Tasks, out[i].Warm, out[i].Next} {
			slices.SortFunc(list, ids.TaskID.Compare)
		}
	}
	return out
}

func sortedTasks(tasks []Task) []Task {
	sorted := slices.Clone(tasks)
	slices.SortFunc(sorted, func(a, b Task) int { return a.ID.Compare(b.ID) })
	return slices.CompactFunc(sorted, func(a, b Task) bool { return a.ID == b.ID })
}
