package barrier

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// shutdown begins a clean stop.
//
//	            all members leave: Trigger{stop}, Complete, Committed
//	running ──▶ Leaving ───────────────────────────────────────────▶ left
//	               │ others stay: join again with the mark;           ▲
//	               │ Trigger{moves}, Complete{moves}, Committed       │
//	               └──────────────────────────────────────────────────┘
//
// At the deadline it leaves anyway and aborts what it never listed (R25).
func (p *participant) shutdown(m *Machine) {
	if p.leaving {
		return
	}
	p.leaving, p.deadline, p.leavingAt = true, m.now+m.cfg.ShutdownDeadline, -1
	m.setState(StateStopping)
	if !m.caughtUp || !m.registered() {
		p.exit(m) // nobody knows it yet
	}
}

// leave goes on with a clean stop.
func (p *participant) leave(m *Machine) {
	switch {
	case m.now >= p.deadline:
		// No DoStopTasks: what an ack lists may be decided by now, and must
		// outlive this instance (R21).
		p.exit(m)
	case p.free(m):
		p.exit(m)
	case p.leavingAt >= 0 && !m.joinedLeaving && m.joined && m.now-p.leavingAt >= m.cfg.LeaveGrace && !m.allLeaving():
		m.joinedLeaving = true
		m.do(DoJoinGroup{Leaving: true})
	}
}

// free reports whether nothing holds this instance back: no running task, no
// uncommitted transaction, and as coordinator nothing left to commit and mark.
// An own record in flight is waited for: it might make the instance an owner.
func (p *participant) free(m *Machine) bool {
	// Behind the own Leaving no handover gives it tasks (R25).
	if m.inflight != nil || p.leavingAt < 0 {
		return false
	}
	if len(p.tasks) > 0 && !m.log.stopped {
		return false
	}
	if p.listed(m) != nil {
		return false
	}
	if len(p.tasks) > 0 {
		p.stop(m, p.tasks)
	}
	return !m.coord.busyStopping(m)
}

func (p *participant) exit(m *Machine) {
	if m.joined {
		m.joined = false
		m.do(DoLeaveGroup{})
	}
	p.gone, m.ended = true, true
	m.setState(StateStopped)
	m.do(DoExit{})
}

// allLeaving reports whether every member of the newest generation wants to
// leave: then the tasks stop together.
func (m *Machine) allLeaving() bool {
	if m.gen == nil || len(m.gen.Members) == 0 {
		return false
	}
	return !slices.ContainsFunc(m.gen.Members, func(id ids.InstanceID) bool {
		in := m.log.find(id)
		return in == nil || !in.leaving
	})
}
