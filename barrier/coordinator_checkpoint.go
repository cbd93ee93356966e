package barrier

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// ready reports whether all acks of the undecided checkpoint are there.
func (c *coordinator) ready(m *Machine) bool {
	u := m.log.undecided
	if u == nil {
		return false
	}
	if m.cfg.Rules.SkipR16 && len(u.acks) > 0 {
		return true
	}
	return u.acked(m.log.start)
}

// askManifest stores the manifest when all acks are there (R17).
func (c *coordinator) askManifest(m *Machine) {
	u := m.log.undecided
	if u == nil || !c.ready(m) {
		return
	}
	if c.manifest.n != u.n {
		c.manifest = manifestState{n: u.n}
	}
	if c.manifest.asked {
		return
	}
	c.manifest.asked = true
	m.do(DoStoreManifest{
		Life: m.log.life, N: u.n, Term: c.term, Incarnation: m.log.start.at, Base: u.base,
		Fingerprint: m.cfg.Fingerprint, Stop: u.stop, Acks: slices.Clone(u.acks), Carried: u.carried,
		Lineages: m.log.lineagesAt(u),
	})
}

// tooOld is R22's second comparison: a transaction that could time out before
// a lost instance's successor commits it must not become part of a completed
// checkpoint.
func (c *coordinator) tooOld(m *Machine) bool {
	u := m.log.undecided
	if u == nil || !c.ready(m) || m.cfg.Rules.SkipR22 {
		return false
	}
	margin := m.now - c.trigger + m.cfg.SessionTimeout + m.cfg.ExpectedRestart
	for _, a := range u.acks {
		for _, t := range a.Ack.Txns {
			if t.Age+margin > m.cfg.TransactionTimeout {
				return true
			}
		}
	}
	return false
}

// wantDecision completes or aborts the undecided checkpoint (R3, R17).
func (c *coordinator) wantDecision(m *Machine, last *completed) Body {
	u := m.log.undecided
	if u == nil {
		return nil
	}
	abort := func(reason AbortReason, detail string) Body {
		return Abort{Term: c.term, N: u.n, Reason: reason, Detail: detail}
	}
	if c.ready(m) && c.manifest.n == u.n {
		if c.manifest.failed != "" {
			return abort(AbortManifest, c.manifest.failed)
		}
		if c.manifest.key != "" && last.fullyCommitted() && !c.tooOld(m) {
			return Complete{Term: c.term, N: u.n, Manifest: c.manifest.key, Moves: c.arrived(m)}
		}
	}
	for _, d := range u.declines {
		// Who only waits for channels is no reason yet: the timeout shows who
		// answers nothing at all (R26).
		if d.decline.Reason != DeclineWaiting {
			return abort(AbortDeclined, fmt.Sprintf("%s: %s", d.instance, d.decline.Detail))
		}
	}
	if limit := c.timeout(m); m.now-c.trigger > limit {
		detail := fmt.Sprintf("%d of %d instances acked within %d ms", len(u.acks), len(m.log.start.without(u.carried)), limit)
		for _, d := range u.declines {
			detail += fmt.Sprintf("; %s: %s", d.instance, d.decline.Detail)
		}
		return abort(AbortTimeout, detail)
	}
	return nil
}

// wantTrigger begins a checkpoint: when the interval is over, or at once when
// tasks can be handed over or everybody leaves.
func (c *coordinator) wantTrigger(m *Machine) Body {
	l := m.log
	if l.start == nil || l.rollback != nil || l.restoring || l.stopped || l.undecided != nil || !c.counted(m) {
		return nil
	}
	if !l.start.allRun() {
		// Restarts that take less than an interval need no checkpoint of their own.
		if m.allLeaving() || m.now-max(c.since, c.startedAt) < m.cfg.Interval || m.now-c.trigger < m.cfg.Interval {
			return nil
		}
		if carried, ok := c.carried(m); ok {
			return Trigger{Term: c.term, Carried: carried}
		}
		return nil
	}
	if m.allLeaving() {
		return Trigger{Term: c.term, Stop: true}
	}
	if moves := c.dueMoves(m); len(moves) > 0 {
		return Trigger{Term: c.term, Moves: moves}
	}
	if m.now-c.trigger < m.cfg.Interval && !c.hurried(m) {
		return nil
	}
	return Trigger{Term: c.term}
}

// carrying reports whether tasks still restore from a checkpoint that others were
// taken behind: it is kept for them.
func (c *coordinator) carrying(m *Machine) bool {
	return m.log.start != nil && !m.log.start.allRun()
}

// busyStopping reports whether the coordinator still has to see through the
// checkpoint with which everybody leaves.
func (c *coordinator) busyStopping(m *Machine) bool {
	last := m.log.last()
	if !c.leading(m) || last == nil || !m.log.stopped {
		return false
	}
	return !last.fullyCommitted() || c.marked < last.ref.N
}

// tidy marks, purges and cleans (R17, R29, R30).
func (c *coordinator) tidy(m *Machine, last *completed) {
	if !last.fullyCommitted() || m.log.restoring {
		return
	}
	if c.markAsk < last.ref.N {
		c.markAsk = last.ref.N
		m.do(DoMark{Life: m.log.life, Ref: last.ref})
	}
	if c.marked < last.ref.N || c.cleaning || c.cleaned == last.ref.N || len(m.log.completed) > m.cfg.Retain {
		return
	}
	c.cleaned, c.cleaning = last.ref.N, true
	before := ids.CheckpointID(m.log.end)
	if u := m.log.undecided; u != nil {
		before = u.n
	}
	keep := m.log.kept()
	m.do(DoPurge{Life: m.log.life, Last: last.ref, Keep: keep})
	m.do(DoClean{Life: m.log.life, Keep: keep, Before: before})
}

// kept returns the checkpoints that are completed and not retired, ascending.
func (l *Log) kept() []CheckpointRef {
	out := make([]CheckpointRef, len(l.completed))
	for i, c := range l.completed {
		out[i] = c.ref
	}
	return out
}

// wantTidy retires what is kept beyond the limit, and removes instances of
// which nothing can come any more (R2, R30).
func (c *coordinator) wantTidy(m *Machine, last *completed) Body {
	if c.marked >= last.ref.N && len(m.log.completed) > m.cfg.Retain && !m.log.restoring && !c.carrying(m) {
		return Retire{Term: c.term, N: m.log.completed[0].ref.N}
	}
	if m.log.rollback != nil || m.log.start == nil || m.cfg.Rules.SkipR27 {
		return nil
	}
	uncommitted := last.uncommitted()
	for _, in := range m.log.instances {
		// The Start behind the Rollback that named it proves the fence.
		if in.dead && in.deadAt < int64(m.log.start.at) && !slices.Contains(uncommitted, in.id) {
			return Fenced{Term: c.term, Instance: in.id}
		}
	}
	if id, ok := c.goneFor(m); ok {
		return Fenced{Term: c.term, Instance: id}
	}
	return nil
}
