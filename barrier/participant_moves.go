package barrier

import "github.com/tidegate/tidegate/internal/ids"

// prefetching is what this instance fetches of tasks that others run: those
// that its group generation gives it, and those it shall follow.
type prefetching struct {
	tasks TaskSet          // asked for
	from  ids.CheckpointID // … from this checkpoint
	have  TaskSet          // answered at least once since they are wanted
}

// drop forgets tasks that start here: the shell takes their files.
func (p *prefetching) drop(tasks TaskSet) {
	p.tasks, p.have = p.tasks.Minus(tasks), p.have.Minus(tasks)
}

// prefetch asks for the files of the last completed checkpoint, and again with
// each that completes, so that a handover finds all but the last interval's
// changes on this instance's disk (R25). While nothing runs, or is about to
// stop, the next Start decides who needs what.
func (p *participant) prefetch(m *Machine) {
	l := m.log
	if m.gen == nil || l.start == nil || l.rollback != nil || l.restoring || l.stopped || p.leaving {
		return
	}
	want := m.gen.Tasks.Union(m.gen.Warm).Minus(p.tasks)
	last := l.last().ref
	if want.Equal(p.pre.tasks) && (last.N == p.pre.from || len(want) == 0) {
		return
	}
	p.pre.have = p.pre.have.Intersect(want)
	p.pre.tasks, p.pre.from = want, last.N
	m.do(DoPrefetch{Life: l.life, From: last, Tasks: want})
}

// prefetched takes in an answer. An older checkpoint's files are as good for
// Ready: what is missing then is fetched with the handover.
func (p *participant) prefetched(e EvPrefetched) {
	p.pre.have = p.pre.have.Union(e.Tasks.Intersect(p.pre.tasks))
}

// owedReady says which tasks of the newest generation can be handed over.
func (p *participant) owedReady(m *Machine, self *instance) Body {
	if m.gen == nil || m.log.start == nil || m.log.rollback != nil || p.leaving {
		return nil
	}
	ready := p.pre.have.Intersect(m.gen.Tasks)
	if self.ready.ContainsAll(ready) {
		return nil
	}
	return Ready{Tasks: ready}
}

// hand takes part in a handover: what Complete moved away is gone, what it
// moved here starts, and all others learn the new lineages before they read the
// log past it (R6, R25).
func (p *participant) hand(m *Machine, b Complete, inc ids.Incarnation, n CheckpointRef) {
	come := movedTo(b.Moves, m.cfg.Self)
	gone := p.tasks.Minus(m.log.start.tasksOf(m.cfg.Self))
	if len(p.tasks) == 0 && len(come) == 0 {
		return
	}
	p.tasks = m.log.start.tasksOf(m.cfg.Self)
	p.inc = m.log.start.newest(m.cfg.Self)
	p.running = p.running.Minus(gone)
	p.failed = p.failed.Minus(gone)
	p.pre.drop(come)
	m.do(DoMoveTasks{
		Life: m.log.life, Incarnation: inc, Gone: gone, Come: come, Tasks: p.tasks, From: n,
		Lineages: m.log.lineages, Owners: m.log.start.owners,
	})
	if !p.leaving && len(come) > 0 {
		p.restoring(m)
	}
}

// halting returns the tasks of this instance that a Trigger moves away: they
// stop behind its barrier.
func (p *participant) halting(m *Machine, b Trigger) TaskSet {
	if m.cfg.Rules.SkipR25Halt {
		return nil
	}
	return movedTasks(b.Moves).Intersect(p.tasks)
}
