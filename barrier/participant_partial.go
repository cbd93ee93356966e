package barrier

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// begin starts the tasks that the latest Start gives this instance; those that
// did not roll back go on (R4, R26).
func (p *participant) begin(m *Machine) {
	s := m.log.start
	if s.rec.Fingerprint != m.cfg.Fingerprint {
		m.fatal(m.otherTopology(s.rec.Fingerprint))
		return
	}
	all := s.tasksOf(m.cfg.Self)
	come := s.asOf(m.cfg.Self, all, s.at)
	kept := all.Minus(come)
	p.inc, p.tasks, p.running, p.failed, p.cp = s.newest(m.cfg.Self), all, p.running.Intersect(kept), p.failed.Intersect(kept), nil
	if p.inc == 0 {
		p.inc = s.at // it runs none, but knows the Start
	}
	p.pre.drop(come)
	if len(come) > 0 || len(kept) == 0 {
		m.do(DoStartTasks{
			Life: m.log.life, Incarnation: s.at, Tasks: come, All: all, From: m.log.last().ref,
			Lineages: m.log.lineages, Owners: s.rec.Owners,
		})
	}
	switch {
	case p.leaving:
	case p.running.ContainsAll(all):
		m.setState(StateRunning)
	default:
		p.restoring(m)
	}
}

// restoring shows that tasks are being restored, unless others of an instance
// that ran go on meanwhile.
func (p *participant) restoring(m *Machine) {
	if m.state != StateRunning || len(p.running) == 0 {
		m.setState(StateRestoring)
	}
}

// rollBack stops the tasks that a Rollback names, and the instance if it was
// named dead (R4, R26, R27).
func (p *participant) rollBack(m *Machine, b Rollback, out Outcome) {
	dead := slices.Contains(b.Dead, m.cfg.Self) && !m.cfg.Rules.SkipR27
	if dead {
		p.die(m, "declared dead: "+b.Reason, ids.InstanceID{})
		return
	}
	stop := p.tasks.Intersect(b.Tasks)
	if len(stop) > 0 {
		p.stop(m, stop)
		switch {
		case p.leaving:
		case len(p.tasks) == 0:
			m.setState(StateJoining)
		default:
			p.restoring(m)
		}
	}
	if len(p.tasks) > 0 {
		p.aborted(m, out)
	}
}

// stop ends tasks at once; transactions that a completed checkpoint lists stay
// (R4, R21).
func (p *participant) stop(m *Machine, stop TaskSet) {
	rest := p.tasks.Minus(stop)
	m.do(DoStopTasks{Tasks: stop, All: len(rest) == 0, Keep: p.listed(m)})
	p.tasks, p.running, p.failed = rest, p.running.Minus(stop), p.failed.Minus(stop)
	if len(rest) == 0 {
		p.inc, p.cp = 0, nil
		return
	}
	p.inc = 0
	for _, t := range rest {
		p.inc = max(p.inc, m.log.start.incOf(t))
	}
}
