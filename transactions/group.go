package transactions

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// group is the tasks of this instance that share transactions: those of one
// subtopology (ADR 0013). A rollback stops a group as a whole, and leaves the
// transactions of the others alone (R26).
//
// Tasks that start in a group whose other tasks went on (their former owner was
// lost) are joiners: the group's transaction may be prepared by then, so until
// they passed their first barrier they write into one of their own.
type group struct {
	num   int32
	start int // of the tasks that are no joiners
	tasks []*poolTask
	keys  []ids.CheckpointID // From and the barriers passed since, ascending
	open  []*barrier         // barriers not yet reported as Prepared, ascending
	// failed: a Failed was reported and no Rollback came yet.
	failed bool
}

type poolTask struct {
	id     ids.TaskID
	g      *group
	start  int // names its transactions together with passed
	inputs bool
	passed ids.CheckpointID
	// carried is the last barrier that it does not pass.
	carried ids.CheckpointID
}

// barrier is a checkpoint that some task of a group passed and that is not yet
// Prepared.
type barrier struct {
	n       ids.CheckpointID
	passed  int
	offsets []Offset
	full    bool
}

// groupOf returns the group with a number, made if need be.
func (p *Pool) groupOf(num int32) *group {
	i, found := slices.BinarySearchFunc(p.groups, num, func(g *group, num int32) int { return int(g.num - num) })
	if !found {
		p.groups = slices.Insert(p.groups, i, &group{num: num, start: p.start})
	}
	return p.groups[i]
}

// add makes a task of the group that starts at a checkpoint.
func (p *Pool) add(t StartTask, from ids.CheckpointID, start int) {
	g := p.groupOf(t.Group)
	pt := &poolTask{id: t.Task, g: g, start: start, inputs: t.Inputs, passed: from, carried: ids.NoCheckpoint}
	g.tasks = append(g.tasks, pt)
	slices.SortFunc(g.tasks, func(a, b *poolTask) int { return a.id.Compare(b.id) })
	p.byID[t.Task] = pt
	g.note(from)
}

// note remembers a barrier that a task passed, or began at.
func (g *group) note(n ids.CheckpointID) {
	if i, found := slices.BinarySearch(g.keys, n); !found {
		g.keys = slices.Insert(g.keys, i, n)
	}
}

// removeTasks takes tasks out of their groups and returns the groups that lost some.
func (p *Pool) removeTasks(list []ids.TaskID) []*group {
	var out []*group
	for _, id := range list {
		t := p.byID[id]
		if t == nil {
			continue
		}
		delete(p.byID, id)
		t.g.tasks = slices.DeleteFunc(t.g.tasks, func(o *poolTask) bool { return o == t })
		if !slices.Contains(out, t.g) {
			out = append(out, t.g)
		}
	}
	p.groups = slices.DeleteFunc(p.groups, func(g *group) bool { return len(g.tasks) == 0 })
	return out
}

// slowest returns the smallest barrier among those the tasks passed last.
func (g *group) slowest() ids.CheckpointID {
	low := g.tasks[0].passed
	for _, t := range g.tasks[1:] {
		low = min(low, t.passed)
	}
	return low
}

// takesPart counts the tasks that pass barrier n.
func (g *group) takesPart(n ids.CheckpointID) int {
	c := 0
	for _, t := range g.tasks {
		if t.carried != n {
			c++
		}
	}
	return c
}

// writes returns the smallest barrier behind which a task may still write into
// the transactions with the name start, or give them offsets, when barrier n was
// passed by some: joiners that pass it do so into the group's.
func (g *group) writes(start int, n ids.CheckpointID) ids.CheckpointID {
	low := n
	for _, t := range g.tasks {
		if t.start == start || start == g.start && t.carried != n {
			low = min(low, t.passed)
		}
	}
	return low
}

func (g *group) readsInputs() bool {
	return slices.ContainsFunc(g.tasks, func(t *poolTask) bool { return t.inputs })
}

// barrier returns the group's undecided barrier n, made if need be.
func (g *group) barrier(n ids.CheckpointID) *barrier {
	i, found := slices.BinarySearchFunc(g.open, n, func(b *barrier, n ids.CheckpointID) int { return int(b.n - n) })
	if !found {
		g.open = slices.Insert(g.open, i, &barrier{n: n})
	}
	return g.open[i]
}

// ready reports whether the group's first open barrier is n, and all tasks
// passed it.
func (g *group) ready(n ids.CheckpointID) bool {
	return len(g.open) > 0 && g.open[0].n == n && g.open[0].full
}
