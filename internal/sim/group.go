package sim

import (
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
)

// group is the consumer group's coordinator. It proposes who owns which task.
type group struct {
	w          *World
	all        barrier.TaskSet
	members    []*member // sorted by instance
	generation int32
	preparing  bool
	deadline   int64
	round      int
}

type member struct {
	id       ids.InstanceID
	leaving  bool
	seen     int64
	joined   bool // in the rebalance under way
	tasks    barrier.TaskSet
	answer   func(barrier.EvGeneration)
	joinedAt int64 // when the client sent the join
}

func (g *group) find(id ids.InstanceID) *member {
	for _, m := range g.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

// join is a JoinGroup request; answer is called with the new generation.
func (g *group) join(id ids.InstanceID, leaving bool, sentAt int64, answer func(barrier.EvGeneration)) {
	m := g.find(id)
	if m == nil {
		m = &member{id: id}
		g.members = append(g.members, m)
		slices.SortFunc(g.members, func(a, b *member) int { return a.id.Compare(b.id) })
	}
	m.leaving, m.seen, m.joined, m.answer, m.joinedAt = leaving, g.w.now, true, answer, sentAt
	g.prepare()
	g.check()
}

func (g *group) leave(id ids.InstanceID) {
	g.members = slices.DeleteFunc(g.members, func(m *member) bool { return m.id == id })
	g.prepare()
	g.check()
}

// beat is what a heartbeat is answered.
type beat uint8

const (
	beatOK beat = iota
	beatRejoin
	beatUnknown
)

func (g *group) heartbeat(id ids.InstanceID, generation int32) beat {
	m := g.find(id)
	switch {
	case m == nil:
		return beatUnknown
	case g.preparing || generation != g.generation:
		m.seen = g.w.now
		return beatRejoin
	}
	m.seen = g.w.now
	return beatOK
}

// accepts reports whether an offset commit of a member is accepted.
func (g *group) accepts(id ids.InstanceID, generation int32) bool {
	return g.find(id) != nil && generation == g.generation
}

func (g *group) prepare() {
	if g.preparing {
		return
	}
	g.preparing = true
	g.deadline = g.w.now + sessionTimeout
	g.round++
	g.w.after(sessionTimeout+1, g.sweep)
}

// sweep removes members that are silent or did not join in time.
func (g *group) sweep() {
	now := g.w.now
	before := len(g.members)
	g.members = slices.DeleteFunc(g.members, func(m *member) bool {
		if g.preparing && m.joined {
			return false
		}
		return now-m.seen > sessionTimeout || g.preparing && now >= g.deadline
	})
	if len(g.members) != before {
		g.prepare()
	}
	g.check()
}

// check ends the rebalance when everybody joined.
func (g *group) check() {
	if !g.preparing || len(g.members) == 0 {
		return
	}
	for _, m := range g.members {
		if !m.joined {
			return
		}
	}
	g.preparing = false
	g.generation++
	g.assign()
	var who []ids.InstanceID
	for _, m := range g.members {
		who = append(who, m.id)
	}
	g.w.tracef("group generation %d: %v", g.generation, who)
	for _, m := range g.members {
		m.joined, m.seen = false, g.w.now
		m.answer(barrier.EvGeneration{Generation: g.generation, Members: who, Tasks: m.tasks, Warm: g.warm(m), SentAt: m.joinedAt})
	}
}

// warm returns what a member follows: the tasks of those before it, as many of
// them as a task has standbys.
func (g *group) warm(m *member) (out barrier.TaskSet) {
	i := slices.Index(g.members, m)
	for d := 1; d <= min(g.w.plan.standbys, len(g.members)-1) && !m.leaving; d++ {
		out = out.Union(g.members[(i+len(g.members)-d)%len(g.members)].tasks)
	}
	return out
}

// assign is a sticky assignor: members keep what they had up to their share.
func (g *group) assign() {
	takers := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		if !m.leaving {
			takers = append(takers, m)
		}
	}
	if len(takers) == 0 {
		takers = g.members
	}
	share := (len(g.all) + len(takers) - 1) / len(takers)
	var taken barrier.TaskSet
	for _, m := range g.members {
		keep := m.tasks
		m.tasks = nil
		if slices.Contains(takers, m) {
			m.tasks = keep[:min(len(keep), share)]
			taken = taken.Union(m.tasks)
		}
	}
	for _, t := range g.all.Minus(taken) {
		least := takers[0]
		for _, m := range takers {
			if len(m.tasks) < len(least.tasks) {
				least = m
			}
		}
		least.tasks = least.tasks.Union(barrier.TaskSet{t})
	}
}
