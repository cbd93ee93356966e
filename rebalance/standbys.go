package rebalance

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// PlanStandbys says which members keep a copy of which task's state beside its
// owner: n per task, as far as there are members. The result has the plan's
// order. A copy goes, in this order of importance,
//
//   - to a member that differs from the owner and the other copies in as many
//     tags as possible (Kafka Streams' rack.aware.assignment.tags),
//   - to a member that has one already, while its share is not full,
//   - to a member with room in its share, and of these to the one with the fewest
//     copies of this owner's tasks, so that the owner's loss is borne by all,
//   - to the member with the fewest tasks and copies.
//
// A share is what each member would have if all had the same, rounded down, and
// up for the first that need it.
// Leaving members get none.
func PlanStandbys(members []Member, plan []Placement, stateful []ids.TaskID, n int) [][]ids.TaskID {
	out := make([][]ids.TaskID, len(plan))
	if n <= 0 {
		return out
	}
	p := newStandbyPlanner(members, plan, stateful, n)
	for round := range min(n, len(p.able)-1) {
		p.place(round, true)
		p.place(round, false)
	}
	for i, list := range p.given {
		slices.SortFunc(list, ids.TaskID.Compare)
		out[i] = list
	}
	return out
}

// standbyPlanner holds one planning; members are indices into the plan.
type standbyPlanner struct {
	members []Member
	able    []int // that may have copies
	tasks   []ids.TaskID
	where   map[ids.TaskID][]int // owner, then copies
	holders map[ids.TaskID][]int // the newest copy first
	given   [][]ids.TaskID
	load    []int     // tasks and copies
	pairs   [][]int32 // copies by owner and member
	share   int       // of copies, rounded down
	spare   int       // how many members may have one more
	tags    []string
}

func newStandbyPlanner(members []Member, plan []Placement, stateful []ids.TaskID, n int) *standbyPlanner {
	p := &standbyPlanner{
		members: make([]Member, len(plan)), given: make([][]ids.TaskID, len(plan)), load: make([]int, len(plan)),
		where: map[ids.TaskID][]int{}, holders: map[ids.TaskID][]int{}, tasks: slices.Clone(stateful),
	}
	slices.SortFunc(p.tasks, ids.TaskID.Compare)
	for range plan {
		p.pairs = append(p.pairs, make([]int32, len(plan)))
	}
	slot := map[ids.InstanceID]int{}
	for i, pl := range plan {
		slot[pl.Instance] = i
		p.load[i] = len(pl.Tasks)
		for _, t := range pl.Tasks {
			p.where[t] = append(p.where[t], i)
		}
	}
	tags := map[string]bool{}
	held := map[ids.TaskID][]holder{} // cold is the position, negative
	for _, m := range members {
		i, placed := slot[m.Instance]
		if !placed || m.Leaving {
			continue
		}
		p.members[i] = m
		p.able = append(p.able, i)
		for k := range m.Tags {
			tags[k] = true
		}
		for _, h := range m.Held {
			held[h.Task] = append(held[h.Task], holder{i, int(min(-h.Position, 0))})
		}
	}
	slices.Sort(p.able)
	p.tags = slices.Sorted(maps.Keys(tags))
	for t, list := range held {
		slices.SortFunc(list, func(a, b holder) int { return cmp.Or(cmp.Compare(a.cold, b.cold), cmp.Compare(a.a, b.a)) })
		for _, h := range list {
			p.holders[t] = append(p.holders[t], h.a)
		}
	}
	if len(p.able) > 0 {
		copies := len(p.tasks) * min(n, len(p.able)-1)
		p.share, p.spare = copies/len(p.able), copies%len(p.able)
	}
	return p
}

// place gives each task its copy of this round: only to holders with room, or
// to anybody.
func (p *standbyPlanner) place(round int, holders bool) {
	for _, t := range p.tasks {
		where, owned := p.where[t]
		if !owned || len(where) > round+1 {
			continue
		}
		used := p.usedTags(where)
		widest := -1
		candidates := p.able
		if holders {
			if candidates = p.holders[t]; len(candidates) == 0 {
				continue
			}
			widest = p.widest(where, used)
		}
		best, bestDiffers := -1, 0
		for _, i := range candidates {
			if slices.Contains(where, i) || holders && p.full(i) {
				continue
			}
			differs := p.differs(i, used)
			if holders && differs < widest {
				continue
			}
			if best < 0 || differs > bestDiffers || !holders && differs == bestDiffers && p.lighter(where[0], i, best) {
				best, bestDiffers = i, differs
			}
		}
		if best < 0 {
			continue
		}
		p.where[t] = append(where, best)
		p.given[best] = append(p.given[best], t)
		if len(p.given[best]) == p.share+1 {
			p.spare--
		}
		p.load[best]++
		p.pairs[where[0]][best]++
	}
}

func (p *standbyPlanner) full(i int) bool {
	n := len(p.given[i])
	return n > p.share || n == p.share && p.spare <= 0
}

func (p *standbyPlanner) lighter(owner, a, b int) bool {
	if fullA, fullB := p.full(a), p.full(b); fullA != fullB {
		return fullB
	}
	return cmp.Or(cmp.Compare(p.pairs[owner][a], p.pairs[owner][b]), cmp.Compare(len(p.given[a]), len(p.given[b])), cmp.Compare(p.load[a], p.load[b]), cmp.Compare(a, b)) < 0
}

// usedTags are the tag values of members, per tag of p.tags.
func (p *standbyPlanner) usedTags(where []int) [][]string {
	used := make([][]string, len(p.tags))
	for k, tag := range p.tags {
		for _, i := range where {
			if v, has := p.members[i].Tags[tag]; has {
				used[k] = append(used[k], v)
			}
		}
	}
	return used
}

// differs counts the tags in which a member differs from all of where.
func (p *standbyPlanner) differs(i int, used [][]string) int {
	n := 0
	for k, tag := range p.tags {
		if v, has := p.members[i].Tags[tag]; has && !slices.Contains(used[k], v) {
			n++
		}
	}
	return n
}

func (p *standbyPlanner) widest(where []int, used [][]string) int {
	best := 0
	if len(p.tags) == 0 {
		return best
	}
	for _, i := range p.able {
		if !slices.Contains(where, i) {
			best = max(best, p.differs(i, used))
		}
	}
	return best
}
