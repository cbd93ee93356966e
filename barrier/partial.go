package barrier

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Partial rollbacks (R26): only some tasks roll back, the others go on with
// their owners and incarnations.
//
//	Rollback{tasks}: they stop ─▶ (further Rollbacks add up) ─▶ Start: exactly they start
//	the others process, and write; when a whole interval went by behind the Start
//	and some still do not run, checkpoints go on with the others (carry.go)
//
// The Start record lists all owners. What it starts is what Rollbacks have named
// since the Start before; for all other tasks it repeats the present owner.

// rolledTasks returns the tasks that the next Start starts: all of them if
// there was none before.
func (l *Log) rolledTasks() TaskSet {
	if l.rollback == nil {
		return nil
	}
	return l.rollback.tasks
}

// merged returns the owners behind a Start: those that the generation proposes
// for tasks which rolled back, the present ones for the others.
func (l *Log) merged(proposed []Owner) []Owner {
	rolled := l.rolledTasks()
	if l.start == nil || rolled.ContainsAll(l.start.tasks) {
		return proposed
	}
	var out []Owner
	add := func(id ids.InstanceID, tasks TaskSet) {
		if len(tasks) == 0 {
			return
		}
		i, ok := slices.BinarySearchFunc(out, id, func(o Owner, id ids.InstanceID) int { return o.Instance.Compare(id) })
		if ok {
			out[i].Tasks = out[i].Tasks.Union(tasks)
			return
		}
		out = slices.Insert(out, i, Owner{Instance: id, Tasks: tasks})
	}
	for _, o := range l.start.owners {
		add(o.Instance, o.Tasks.Minus(rolled))
	}
	for _, o := range proposed {
		add(o.Instance, o.Tasks.Intersect(rolled))
	}
	return out
}

// mayStart says why the tasks that Rollbacks of the term named are not those
// that have to start (R24 step 5), or "".
func (l *Log) mayStart(b Start) string {
	rb := l.rollback
	if rb == nil || rb.term != b.Term || !rb.named.ContainsAll(rb.tasks) {
		return "no Rollback of its term names all its tasks"
	}
	if !rb.named.ContainsAll(l.start.tasks) && (l.stopped || l.start.rec.Fingerprint != b.Fingerprint) {
		return "no Rollback of its term names all tasks, and the others do not run"
	}
	for _, o := range l.start.owners {
		if in := l.find(o.Instance); (in == nil || in.dead) && !rb.named.ContainsAll(o.Tasks) {
			return "no Rollback of its term names the tasks of a dead instance"
		}
	}
	if len(l.failures) > 0 {
		return "a task failed that no Rollback names"
	}
	return ""
}

// restart gives the tasks that rolled back a new incarnation from the last
// completed checkpoint; the others keep theirs, also one that they got since
// (R6).
func (l *Log) restart(offset int64, b Start, tasks TaskSet) {
	old, rolled, asOf := l.start, l.rolledTasks(), l.last().lineages
	if l.rules.SkipR26Lineage {
		asOf = l.lineages
	}
	inc := ids.Incarnation(offset)
	s := newStarted(inc, b, tasks)
	if old == nil || rolled.ContainsAll(old.tasks) {
		l.lineages = asOf.Restart(tasks, b.N, inc)
		l.start = s
		return
	}
	for i, t := range s.tasks {
		if !rolled.Contains(t) {
			s.incs[i] = old.incOf(t)
		}
	}
	s.running = old.running.Minus(rolled)
	s.fresh = old.fresh.Union(rolled)
	l.lineages = asOf.Restart(rolled, b.N, inc).of(rolled).join(l.lineages.of(tasks.Minus(rolled)))
	l.start = s
}

// forgetFailures drops the failures of tasks that roll back.
func (l *Log) forgetFailures(tasks TaskSet) {
	var keep []failure
	for _, f := range l.failures {
		if f.rec.Tasks = f.rec.Tasks.Minus(tasks); len(f.rec.Tasks) > 0 {
			keep = append(keep, f)
		}
	}
	l.failures = keep
}

// of returns the lineages of some tasks only.
func (l Lineages) of(tasks TaskSet) Lineages {
	var out Lineages
	for _, g := range l.Groups {
		if own := g.Tasks.Intersect(tasks); len(own) > 0 {
			out.Groups = append(out.Groups, LineageGroup{Tasks: own, Lineage: g.Lineage})
		}
	}
	return out
}

// join returns the lineages of the tasks of both, which share none.
func (l Lineages) join(o Lineages) Lineages {
	out := Lineages{Groups: slices.Concat(l.Groups, o.Groups)}
	out.merge()
	return out
}

// affected returns the tasks that have to roll back now, together with what
// Rollbacks named already (R26).
func (c *coordinator) affected(m *Machine) TaskSet {
	l := m.log
	tooMany := l.aborts > m.cfg.ToleratedAborts && len(c.suspects) == 0
	if l.restoring && m.cfg.Rules.SkipR26Restore {
		return m.cfg.Graph.Affected(l.start.owners[0].Tasks, l.start.owners, m.cfg.Rules)
	}
	if l.restoring || l.stopped || tooMany || m.allLeaving() || c.tooOld(m) {
		return l.start.tasks
	}
	seed := l.rolledTasks()
	for _, f := range l.failures {
		seed = seed.Union(f.rec.Tasks)
	}
	for _, o := range l.start.owners {
		if c.isLost(m, o.Instance) || slices.Contains(c.suspects, o.Instance) {
			seed = seed.Union(o.Tasks)
		}
	}
	return m.cfg.Graph.Affected(seed, l.start.owners, m.cfg.Rules)
}

// isLost reports whether an owner is not in the newest generation, or another
// instance reports its name (R26).
func (c *coordinator) isLost(m *Machine, id ids.InstanceID) bool {
	in := m.log.find(id)
	return in == nil || in.dead || !slices.Contains(m.gen.Members, id) || m.log.displaced(in)
}
