package barrier

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// participant is the part of a Machine that every instance plays: it runs the
// tasks that the log gives it, takes part in checkpoints, commits its own
// transactions, and leaves.
//
// Its tasks:
//
//	        Start            all report running
//	none ──────────▶ restoring ──────────▶ running ◀─┐ Abort
//	 ▲                  │                   │   │    │
//	 └──────────────────┴───────────────────┘   └─▶ stopped behind Trigger{stop}
//	              Rollback
type participant struct {
	wantIDs int // transactional ids wanted in all

	inc     ids.Incarnation // newest one of the running tasks; 0: none
	tasks   TaskSet
	running TaskSet
	failed  TaskSet // to be reported
	failure string

	cp  *localCheckpoint
	pre prefetching

	committing ids.CheckpointID // DoCommit was emitted for own transactions; 0: none
	committed  bool             // … and answered
	lost       []EvCommitLost   // waiting for the log to be read

	restore *EvRestore

	leaving   bool
	deadline  int64 // of the clean stop
	leavingAt int64 // when the own Leaving was read back; -1: not yet
	gone      bool  // left the group for good
}

// localCheckpoint is this instance's part in a running checkpoint.
type localCheckpoint struct {
	n         ids.CheckpointID
	triggered int64
	tasks     TaskSet // that take part
	halt      TaskSet // stop behind the barrier (R25)
	passed    TaskSet
	prepared  *EvPrepared
	declined  *EvDeclined
}

// ids returns the names of the transactional ids that this instance wants.
// They contain its random number, so no other instance ever uses them (R20).
func (p *participant) ids(m *Machine) []string {
	n := max(p.wantIDs, m.cfg.TxnIDs)
	out := make([]string, n)
	for k := range out {
		out[k] = fmt.Sprintf("%s-%s-%s-%d", m.cfg.App, m.log.life, m.cfg.Self, k) // as transactions.TransactionalID
	}
	return out
}

// observe takes in an answer; it reports whether it was for this role.
func (p *participant) observe(m *Machine, ev Event) bool {
	switch e := ev.(type) {
	case EvTick:
	case EvWantIDs:
		p.wantIDs = max(p.wantIDs, e.Count)
	case EvTaskRunning:
		if own := p.runAs(m, e.Tasks, e.Incarnation); len(own) > 0 {
			p.running = p.running.Union(own)
			if !p.leaving && p.running.ContainsAll(p.tasks) {
				m.setState(StateRunning)
			}
		}
	case EvTaskFailed:
		if own := p.runAs(m, e.Tasks, e.Incarnation); len(own) > 0 {
			p.failed, p.failure = p.failed.Union(own), e.Error
		}
	case EvPrefetched:
		p.prefetched(e)
	case EvPassed:
		if p.cp != nil && p.cp.n == e.N {
			p.cp.passed = p.cp.passed.Union(e.Tasks)
		}
	case EvPrepared:
		if p.cp != nil && p.cp.n == e.N {
			p.cp.prepared = &e
		}
	case EvDeclined:
		if p.cp != nil && p.cp.n == e.N {
			p.cp.declined = &e
		}
	case EvCommitted:
		if e.Owner != m.cfg.Self {
			return false
		}
		p.committed = p.committed || p.committing == e.N
	case EvCommitLost:
		p.noteLost(e)
	default:
		return false
	}
	return true
}

// runAs returns those of the tasks that this instance runs as the incarnation.
func (p *participant) runAs(m *Machine, tasks TaskSet, inc ids.Incarnation) TaskSet {
	if p.inc == 0 {
		return nil // stopped
	}
	return m.log.start.asOf(m.cfg.Self, tasks, inc).Intersect(p.tasks)
}

// onRecord reacts to a valid record.
func (p *participant) onRecord(m *Machine, e EvRecord, out Outcome) {
	self := m.self()
	if self == nil {
		return // only reading up: nothing here concerns this instance
	}
	own := e.Record.Instance == m.cfg.Self
	switch b := e.Record.Body.(type) {
	case Register:
		if own {
			m.do(DoUseIDs{Life: m.log.life, IDs: slices.Clone(self.txnIDs)})
		} else if e.Record.Instance.Name == m.cfg.Self.Name {
			p.die(m, "another instance uses this instance's name", e.Record.Instance)
		}
	case Leaving:
		if own {
			p.leavingAt = m.now
		}
	case Failed:
		if own {
			p.failed = p.failed.Minus(b.Tasks)
		}
	case Start:
		p.begin(m)
	case Rollback:
		p.rollBack(m, b, out)
	case Trigger:
		p.trigger(m, e, b)
	case Complete:
		p.complete(m, e, b)
	case Committed:
		if b.Owner == m.cfg.Self {
			m.do(DoRelease{N: b.N})
		}
	default:
		p.aborted(m, out)
	}
}

// listed returns the handles that the last completed checkpoint lists for this
// instance and that are not known to be committed.
func (p *participant) listed(m *Machine) []ids.TxnHandle {
	c := m.log.last()
	if c == nil || !slices.Contains(c.uncommitted(), m.cfg.Self) {
		return nil
	}
	a, _ := ackOf(c.acks, m.cfg.Self)
	var out []ids.TxnHandle
	for _, t := range a.Ack.Txns {
		out = append(out, t.Handle)
	}
	return out
}

// die makes the shell begin again as another instance.
// A Rollback that buries it aborts what it has open; an instance whose name was
// taken over still owns its tasks, and what its ack lists may be decided (R21).
func (p *participant) die(m *Machine, reason string, by ids.InstanceID) {
	if by.IsZero() && p.inc != 0 {
		p.stop(m, p.tasks)
	}
	m.ended = true
	m.do(DoBecomeNew{Reason: reason, DisplacedBy: by})
}

func (p *participant) trigger(m *Machine, e EvRecord, b Trigger) {
	tasks := p.tasks.Minus(b.Carried)
	if len(tasks) == 0 {
		return
	}
	p.cp = &localCheckpoint{n: ids.CheckpointID(e.Offset), triggered: m.now, tasks: tasks, halt: p.halting(m, b)}
	m.do(DoTrigger{
		N: p.cp.n, Incarnation: p.inc, Base: m.log.undecided.base, Stop: b.Stop, Halt: p.cp.halt,
		Carried: b.Carried.Intersect(p.tasks),
	})
}

// complete commits what this instance listed, at once (R19), and hands tasks
// over (R25).
func (p *participant) complete(m *Machine, e EvRecord, b Complete) {
	if p.cp != nil && p.cp.n == b.N {
		m.do(DoDecided{N: b.N, Completed: true, Stay: p.cp.halt.Minus(movedTasks(b.Moves))})
		p.cp = nil
	}
	p.committing, p.committed = 0, false
	c := m.log.last()
	if a, ok := ackOf(c.acks, m.cfg.Self); ok && len(a.Ack.Txns) > 0 {
		p.committing = b.N
		m.do(DoCommit{N: b.N, Owner: m.cfg.Self, Txns: a.Ack.Txns})
	}
	if len(b.Moves) > 0 {
		p.hand(m, b, ids.Incarnation(e.Offset), c.ref)
	}
}

// aborted tells the tasks that their checkpoint is over.
func (p *participant) aborted(m *Machine, out Outcome) {
	for _, a := range out.Aborted {
		if p.cp != nil && p.cp.n == a.N {
			m.do(DoDecided{N: a.N, Reason: a.Reason, Detail: a.Detail})
			p.cp = nil
		}
	}
}

// act does what has become due without a record.
func (p *participant) act(m *Machine) {
	p.judgeLost(m)
	if !m.ended && p.leaving {
		p.leave(m)
	}
	if !m.ended {
		p.prefetch(m)
		p.checkRestore(m)
	}
}

// checkRestore refuses a RestoreFrom that cannot or must not be done.
func (p *participant) checkRestore(m *Machine) {
	r := p.restore
	if r == nil {
		return
	}
	last := m.log.last()
	switch {
	case slices.Contains(m.log.restores, Restore{N: r.N, Nonce: r.Nonce}):
		p.restore = nil // done, by this instance or another, now or before
	case last == nil:
		m.fatal(fmt.Errorf("restore from checkpoint %d: this application has no completed checkpoint", r.N))
	case r.N == last.ref.N:
		p.restore = nil // it starts from there anyway
	case m.log.findCompleted(r.N) == nil:
		var kept []ids.CheckpointID
		for _, ref := range m.log.kept() {
			kept = append(kept, ref.N)
		}
		m.fatal(fmt.Errorf("restore from checkpoint %d: it is not kept; kept are %v", r.N, kept))
	case !r.AllowDuplicates:
		m.fatal(fmt.Errorf("restore from checkpoint %d: checkpoints up to %d are committed, so output from behind %d would appear twice; allow it with RestoreFrom(%d, AllowDuplicates)", r.N, last.ref.N, r.N, r.N))
	}
}

// want returns the record this role wants most.
func (p *participant) want(m *Machine) Body {
	self := m.self()
	switch {
	case len(p.failed) > 0:
		inc := m.log.start.incOf(p.failed[0]) // those of others come next
		return Failed{Incarnation: inc, Tasks: p.runAs(m, p.failed, inc), Error: p.failure}
	case len(p.lost) > 0:
		if body := p.wantForfeit(m); body != nil {
			return body
		}
	}
	switch {
	case len(self.txnIDs) < p.wantIDs:
		return Register{TxnIDs: p.ids(m)[len(self.txnIDs):]}
	case p.owesCommitted(m):
		return Committed{N: p.committing, Owner: m.cfg.Self}
	case p.owesAssigned(m, self):
		return Assigned{Generation: m.gen.Generation, Tasks: m.gen.Tasks, Members: m.gen.Members, Fingerprint: m.cfg.Fingerprint}
	case p.leaving && !self.leaving:
		return Leaving{}
	}
	if body := p.owedRunning(m); body != nil {
		return body
	}
	if body := p.owedReady(m, self); body != nil {
		return body
	}
	if p.cp != nil && m.log.undecided != nil && m.log.undecided.n == p.cp.n {
		if body := p.answer(m); body != nil {
			return body
		}
	}
	if last := m.log.last(); p.restore != nil && last != nil && last.fullyCommitted() {
		return Restore{N: p.restore.N, Nonce: p.restore.Nonce}
	}
	return nil
}

func (p *participant) owesCommitted(m *Machine) bool {
	c := m.log.last()
	return p.committed && c != nil && c.ref.N == p.committing && slices.Contains(c.uncommitted(), m.cfg.Self)
}

// owesAssigned: after each rebalance, and again after each Lead (R24 step 2).
// A candidate claims first, so that it need not say it twice.
func (p *participant) owesAssigned(m *Machine, self *instance) bool {
	if m.gen == nil || m.coord.claiming(m) {
		return false
	}
	a := &self.assigned
	return self.assignedAt <= m.log.leadAt || a.Generation != m.gen.Generation || !a.Tasks.Equal(m.gen.Tasks) ||
		!slices.Equal(a.Members, m.gen.Members)
}

// owedRunning reports the tasks of one incarnation once all of them run.
func (p *participant) owedRunning(m *Machine) Body {
	if p.inc == 0 {
		return nil
	}
	for _, t := range p.tasks.Minus(m.log.start.running) {
		inc := m.log.start.incOf(t)
		if own := p.runAs(m, p.tasks, inc); p.running.ContainsAll(own) {
			return Running{Incarnation: inc, Tasks: own}
		}
	}
	return nil
}

// answer acks or declines the running checkpoint (R16). An instance whose
// tasks still wait for barriers near the timeout says so, lest it be taken for
// lost (R26).
func (p *participant) answer(m *Machine) Body {
	u, cp := m.log.undecided, p.cp
	if _, ok := ackOf(u.acks, m.cfg.Self); ok || u.declined(m.cfg.Self) {
		return nil
	}
	switch {
	case cp.prepared != nil:
		a := Ack{N: cp.n, Incarnation: p.inc, Part: cp.prepared.Part, Oldest: cp.prepared.Oldest, Txns: cp.prepared.Txns}
		if m.cfg.Rules.SkipR6Oldest {
			a.Oldest = p.inc
		}
		return a
	case cp.declined != nil:
		return Decline{N: cp.n, Reason: cp.declined.Reason, Detail: cp.declined.Detail}
	case m.now-cp.triggered > m.cfg.CheckpointTimeout*3/4 && !cp.passed.ContainsAll(cp.tasks):
		return Decline{N: cp.n, Reason: DeclineWaiting, Detail: fmt.Sprintf("%d of %d tasks wait for barriers", len(cp.tasks.Minus(cp.passed)), len(cp.tasks))}
	}
	return nil
}
