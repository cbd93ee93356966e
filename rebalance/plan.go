package rebalance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/ids"
)

// Task is a task to be placed.
type Task struct {
	ID ids.TaskID
	// Weight is the size of its state in bytes; 0 takes the largest that a member
	// holds. Heavy tasks are moved last and spread first.
	Weight int64
	// Prefer are the instances that follow its state: they count as holders of an
	// old copy, if they do not say what they hold.
	Prefer []ids.InstanceID
	// Stateful: it has state, which takes time to get.
	Stateful bool
}

// Member is what a member of the group says of itself.
type Member struct {
	Instance ids.InstanceID
	// Owned are the tasks that it runs.
	Owned []ids.TaskID
	// Generation is the group generation in which it was given them; where two
	// members claim one task, the later generation wins.
	Generation int32
	// Leaving: it is shutting down and waits for its tasks to be taken over.
	Leaving bool
	// Fingerprint is that of its topology; all members must have the same.
	Fingerprint string
	// Tags say where it runs, as "zone" → "a".
	Tags map[string]string
	// Held is what it has of the state of tasks, sorted by task.
	Held []Held
}

// Held is what a member has of a task's state: all of it if it owns the task,
// else a copy. The unit is the mode's, records of changelogs or bytes.
type Held struct {
	Task ids.TaskID
	// Size is what a member without any of it would have to read. In changelog
	// mode only owners know it.
	Size int64
	// Behind is what this member has yet to read, as far as it knows; 0 for the
	// owner, and in barrier mode, where positions are compared.
	Behind int64
	// Position is, in barrier mode, the newest checkpoint that wrote to this
	// copy: the larger of two is the newer state, and equal ones are the same.
	Position int64
}

// Placement is what one member shall run.
type Placement struct {
	Instance ids.InstanceID
	Tasks    []ids.TaskID // sorted
}

// ErrNoMembers is returned by Plan when there is nobody to give tasks to.
var ErrNoMembers = errors.New("no members in the group")

// FingerprintError says that members of one group run different topologies.
type FingerprintError struct {
	Groups []FingerprintGroup // by fingerprint
}

// FingerprintGroup are the members with one fingerprint.
type FingerprintGroup struct {
	Fingerprint string
	Instances   []ids.InstanceID
}

// Error names the fingerprints and who has them.
func (e *FingerprintError) Error() string {
	var b strings.Builder
	b.WriteString("members of one application run different topologies:")
	for i, g := range e.Groups {
		if i > 0 {
			b.WriteString(";")
		}
		fmt.Fprintf(&b, " %s has", g.Fingerprint)
		for j, id := range g.Instances {
			if j > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, " %s", id)
		}
	}
	b.WriteString("; stop the instances of the old version before starting the new one, or use another application id")
	return b.String()
}

// Plan places every task on a member. The result has one entry per member,
// sorted by instance, with no tasks for leaving ones. It returns ErrNoMembers,
// or a *FingerprintError.
func Plan(members []Member, tasks []Task) ([]Placement, error) {
	if len(members) == 0 {
		return nil, ErrNoMembers
	}
	if err := sameFingerprint(members); err != nil {
		return nil, err
	}
	p := newPlanner(members, tasks)
	p.claim()
	p.quotas()
	p.warm()
	p.keep()
	p.spread()
	return p.placements(), nil
}

// Moves counts the tasks that are placed elsewhere than on the member that
// owned them; tasks without an owner do not count.
func Moves(members []Member, plan []Placement) int {
	now := map[ids.TaskID]ids.InstanceID{}
	for _, pl := range plan {
		for _, t := range pl.Tasks {
			now[t] = pl.Instance
		}
	}
	moves := 0
	for t, owner := range owners(members) {
		if to, placed := now[t]; placed && to != members[owner].Instance {
			moves++
		}
	}
	return moves
}

func sameFingerprint(members []Member) error {
	var groups []FingerprintGroup
	for _, m := range members {
		i, found := slices.BinarySearchFunc(groups, m.Fingerprint, func(g FingerprintGroup, f string) int { return strings.Compare(g.Fingerprint, f) })
		if !found {
			groups = slices.Insert(groups, i, FingerprintGroup{Fingerprint: m.Fingerprint})
		}
		groups[i].Instances = append(groups[i].Instances, m.Instance)
	}
	if len(groups) == 1 {
		return nil
	}
	for _, g := range groups {
		slices.SortFunc(g.Instances, ids.InstanceID.Compare)
	}
	return &FingerprintError{Groups: groups}
}

// owners returns the index of the member that owns each claimed task: the one
// of the latest generation, then the first by instance.
func owners(members []Member) map[ids.TaskID]int {
	out := map[ids.TaskID]int{}
	for i, m := range members {
		for _, t := range m.Owned {
			j, claimed := out[t]
			if !claimed || m.Generation > members[j].Generation ||
				(m.Generation == members[j].Generation && m.Instance.Compare(members[j].Instance) < 0) {
				out[t] = i
			}
		}
	}
	return out
}

// planner holds one planning. Members and subtopologies are indices into
// sorted lists, so that nothing depends on the order of arguments or maps.
type planner struct {
	all     []Member // sorted
	active  []int    // indices into all
	subs    []int32  // subtopology numbers, sorted
	tasks   [][]Task // per subtopology, sorted by partition
	claimed [][][]Task
	free    [][]Task
	quota   [][]int // per active member and subtopology
	holds   *warmth
	given   [][]ids.TaskID
	load    []int64 // weight given, per active member
	steps   int     // work done, for tests
}

func newPlanner(members []Member, tasks []Task) *planner {
	p := &planner{all: slices.Clone(members)}
	slices.SortFunc(p.all, func(a, b Member) int { return a.Instance.Compare(b.Instance) })
	for i, m := range p.all {
		if !m.Leaving {
			p.active = append(p.active, i)
		}
	}
	if len(p.active) == 0 {
		for i := range p.all {
			p.active = append(p.active, i)
		}
	}
	for _, t := range sortedTasks(tasks) {
		if n := len(p.subs); n == 0 || p.subs[n-1] != t.ID.Sub {
			p.subs = append(p.subs, t.ID.Sub)
			p.tasks = append(p.tasks, nil)
		}
		last := len(p.subs) - 1
		p.tasks[last] = append(p.tasks[last], t)
	}
	p.given = make([][]ids.TaskID, len(p.active))
	p.load = make([]int64, len(p.active))
	p.holds = p.warmth()
	for _, tasks := range p.tasks {
		for i := range tasks {
			if tasks[i].Weight == 0 {
				tasks[i].Weight = p.holds.weight[tasks[i].ID]
			}
		}
	}
	return p
}

// claim sorts the tasks into those that an active member owns and free ones.
func (p *planner) claim() {
	slot := map[int]int{} // index into all → index into active
	for a, i := range p.active {
		slot[i] = a
	}
	owner := owners(p.all)
	p.free = make([][]Task, len(p.subs))
	p.claimed = make([][][]Task, len(p.active))
	for a := range p.claimed {
		p.claimed[a] = make([][]Task, len(p.subs))
	}
	for s, tasks := range p.tasks {
		for _, t := range tasks {
			p.steps++
			i, owned := owner[t.ID]
			a, isActive := slot[i]
			if owned && isActive {
				p.claimed[a][s] = append(p.claimed[a][s], t)
			} else {
				p.free[s] = append(p.free[s], t)
			}
		}
	}
}

// Values of a "rounded up" for a member, as costs of the flow. What a member
// holds, or that it owns 0_0, counts only among plans that move equally few
// tasks.
const (
	keepsOneMore     = -1000_000
	holdsOneMore     = -1000
	keepsCoordinator = -1
)

// quotas decides who gets a share rounded up. A member that owns more tasks of
// a subtopology than the share rounded down keeps one more by it; one that has
// the newest state of free ones spares a download.
func (p *planner) quotas() {
	m := len(p.active)
	p.quota = make([][]int, m)
	extra := make([]int, len(p.subs))
	total := 0
	cost := make([][]int, m)
	newest := p.holdsOfFree()
	for a := range p.active {
		p.quota[a] = make([]int, len(p.subs))
		cost[a] = make([]int, len(p.subs))
		for s, tasks := range p.tasks {
			share := len(tasks) / m
			p.quota[a][s] = share
			if len(p.claimed[a][s]) > share {
				cost[a][s] = keepsOneMore
				if share == 0 && slices.ContainsFunc(p.claimed[a][s], isCoordinator) {
					cost[a][s] += keepsCoordinator
				}
			} else if len(p.claimed[a][s])+newest[a][s] > share {
				cost[a][s] = holdsOneMore
			}
		}
	}
	for s, tasks := range p.tasks {
		extra[s] = len(tasks) % m
		total += extra[s]
	}
	f := newFlow(extra, m, total, cost)
	for a, row := range f.solve() {
		for s, up := range row {
			if up {
				p.quota[a][s]++
			}
		}
	}
	p.steps += f.steps
}

// holdsOfFree counts, per active member and subtopology, the free tasks of which
// it has the newest state.
func (p *planner) holdsOfFree() [][]int {
	out := make([][]int, len(p.active))
	for a := range out {
		out[a] = make([]int, len(p.subs))
	}
	for s, tasks := range p.free {
		for _, t := range tasks {
			for _, h := range p.holds.newest(t.ID) {
				out[h.a][s]++
			}
		}
	}
	return out
}

func isCoordinator(t Task) bool { return t.ID == ids.TaskID{} }

// keep gives members what they own within their quota: 0_0 first, then the
// heaviest.
func (p *planner) keep() {
	for a := range p.active {
		for s, tasks := range p.claimed[a] {
			slices.SortStableFunc(tasks, heaviestFirst)
			if i := slices.IndexFunc(tasks, isCoordinator); i > 0 {
				c := tasks[i]
				tasks = slices.Insert(slices.Delete(tasks, i, i+1), 0, c)
			}
			n := min(len(tasks), p.quota[a][s])
			for _, t := range tasks[:n] {
				p.give(a, s, t)
			}
			p.free[s] = append(p.free[s], tasks[n:]...)
		}
	}
}

func (p *planner) give(a, s int, t Task) {
	p.steps++
	p.quota[a][s]--
	p.load[a] += t.Weight
	p.given[a] = append(p.given[a], t.ID)
}

// spread gives the free tasks that nobody holds, heaviest first, to the member
// with room that has the least weight, then the fewest tasks.
func (p *planner) spread() {
	for s, tasks := range p.free {
		slices.SortFunc(tasks, heaviestFirst)
		for _, t := range tasks {
			best := -1
			for a := range p.active {
				p.steps++
				if p.quota[a][s] == 0 {
					continue
				}
				if best < 0 || p.load[a] < p.load[best] || (p.load[a] == p.load[best] && len(p.given[a]) < len(p.given[best])) {
					best = a
				}
			}
			p.give(best, s, t)
		}
	}
}

func heaviestFirst(a, b Task) int {
	switch {
	case a.Weight > b.Weight:
		return -1
	case a.Weight < b.Weight:
		return 1
	}
	return a.ID.Compare(b.ID)
}

func (p *planner) placements() []Placement {
	out := make([]Placement, len(p.all))
	for i, m := range p.all {
		out[i].Instance = m.Instance
	}
	for a, i := range p.active {
		slices.SortFunc(p.given[a], ids.TaskID.Compare)
		out[i].Tasks = p.given[a]
	}
	return out
}
