package barrier

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

func errLogLost(app, evidence string) error {
	return fmt.Errorf("the control log of application %q holds no completed checkpoint, but %s: the log was lost; starting anew would lose or double data; restore the topic %s-control from a backup, or see with tidegate repair --application %s from which checkpoint StartFrom can go on; to begin anew on purpose, reset the application and its checkpoints with tidegate reset --application %s --checkpoints …, or use another application id", app, evidence, app, app, app)
}

func errOffsetsReset(refusal string) error {
	return fmt.Errorf("group offsets do not belong to the last completed checkpoint: %s", refusal)
}

// askZero prepares checkpoint 0: first the proof that nothing was lost (R24
// steps 3 and 4).
func (c *coordinator) askZero(m *Machine) {
	switch {
	case c.evidence != "" && m.log.end >= c.lookEnd:
		// Read to the end, the log still holds nothing: it is not that another
		// coordinator completed checkpoints meanwhile.
		m.fatal(errLogLost(m.cfg.App, c.evidence))
	case !c.counted(m):
	case !c.lookAsked:
		c.lookAsked = true
		m.do(DoLookForLoss{Life: m.log.life})
	case c.lookDone && !c.zeroAsked:
		c.zeroAsked = true
		m.do(DoStoreZero{Life: m.log.life, Term: c.term})
	}
}

// askCommits commits decided transactions of instances that are gone, and of
// any that took longer than a session timeout: the coordinator may commit any
// decided transaction at any time (R3, R19).
func (c *coordinator) askCommits(m *Machine, last *completed) {
	for _, owner := range last.uncommitted() {
		if owner == m.cfg.Self || c.takeover(last.ref.N, owner) != nil {
			continue
		}
		in := m.log.find(owner)
		gone := in == nil || in.dead || !slices.Contains(m.gen.Members, owner)
		if !gone && m.now-max(c.since, c.completedAt) < m.cfg.SessionTimeout {
			continue
		}
		a, _ := ackOf(last.acks, owner)
		c.commits = append(c.commits, takeover{n: last.ref.N, owner: owner})
		m.do(DoCommit{N: last.ref.N, Owner: owner, Txns: a.Ack.Txns})
	}
}

func (c *coordinator) takeover(n ids.CheckpointID, owner ids.InstanceID) *takeover {
	for i := range c.commits {
		if t := &c.commits[i]; t.n == n && t.owner == owner {
			return t
		}
	}
	return nil
}

func (c *coordinator) wantCommitted(last *completed) Body {
	for _, owner := range last.uncommitted() {
		if t := c.takeover(last.ref.N, owner); t != nil && t.done {
			return Committed{Term: c.term, N: last.ref.N, Owner: owner}
		}
	}
	return nil
}

// mustRollBack returns why tasks must roll back, or "" (R24, R26).
func (c *coordinator) mustRollBack(m *Machine) string {
	l := m.log
	switch {
	case l.start == nil:
		return "" // the first Start of a life needs none
	case l.restoring:
		return "restore of an older checkpoint"
	case m.allLeaving() && (l.stopped || l.rolledTasks().ContainsAll(l.start.tasks)):
		return "" // nothing runs, and nobody would start it
	case l.rollback != nil:
		switch {
		case c.covered(m):
			return ""
		case m.allLeaving():
			return "everybody leaves"
		case len(l.failures) == 0:
			return "go on with the rollback that was found"
		}
	}
	switch {
	case l.stopped:
		return "tasks were stopped"
	case len(l.failures) > 0:
		f := l.failures[0]
		return fmt.Sprintf("tasks %v of %s failed: %s", f.rec.Tasks, f.instance, f.rec.Error)
	}
	if lost := c.lost(m); len(lost) > 0 {
		return fmt.Sprintf("instances %v are lost", lost)
	}
	if l.aborts > m.cfg.ToleratedAborts {
		c.suspects = c.silent(m)
		return fmt.Sprintf("%d checkpoints in a row were aborted", l.aborts)
	}
	if c.tooOld(m) {
		return "transactions would outlive their timeout before they could be committed"
	}
	return ""
}

// lost returns the owners that are not in the newest generation, or whose name
// another instance reports (R26).
func (c *coordinator) lost(m *Machine) []ids.InstanceID {
	var out []ids.InstanceID
	for _, o := range m.log.start.owners {
		if c.isLost(m, o.Instance) {
			out = append(out, o.Instance)
		}
	}
	return out
}

// displaced reports whether a later instance has the same stable name.
func (l *Log) displaced(in *instance) bool {
	return slices.ContainsFunc(l.instances, func(o *instance) bool {
		return o.id.Name == in.id.Name && o.registered > in.registered
	})
}

// silent returns the owners that neither acked the last aborted checkpoint nor
// said that they wait for channels. If that is all of them the failure is
// common, and nobody is dead (R26).
func (c *coordinator) silent(m *Machine) []ids.InstanceID {
	u := m.log.lastAbort
	if u == nil || u.reason != AbortTimeout {
		return nil // who had no time to answer is not to blame
	}
	var out []ids.InstanceID
	owners := m.log.start.without(u.carried)
	for _, o := range owners {
		_, acked := ackOf(u.acks, o.Instance)
		waits := slices.ContainsFunc(u.declines, func(d declineEntry) bool {
			return d.instance == o.Instance && d.decline.Reason == DeclineWaiting
		})
		if !acked && !waits {
			out = append(out, o.Instance)
		}
	}
	if len(out) == len(owners) {
		return nil
	}
	return slices.DeleteFunc(out, func(id ids.InstanceID) bool { return id == m.cfg.Self })
}

// toBury returns the instances that the next Start needs to be named dead.
func (c *coordinator) toBury(m *Machine) []ids.InstanceID {
	var out []ids.InstanceID
	for _, in := range m.log.instances {
		if in.id == m.cfg.Self {
			continue
		}
		if m.log.mustBeDead(in, m.gen.Members) || in.dead || m.log.displaced(in) || slices.Contains(c.suspects, in.id) {
			out = append(out, in.id)
		}
	}
	return out
}

// covered reports whether the Rollbacks of this term name all tasks and all
// that must be dead (R24 step 5).
func (c *coordinator) covered(m *Machine) bool {
	rb := m.log.rollback
	if rb == nil || rb.term != c.term || !rb.named.ContainsAll(c.affected(m)) {
		return false
	}
	return !slices.ContainsFunc(c.toBury(m), func(id ids.InstanceID) bool {
		in := m.log.find(id)
		return !in.dead || in.deadTerm != c.term
	})
}

// coveredOrFirst reports whether nothing but fence and offsets stands before a
// Start.
func (c *coordinator) coveredOrFirst(m *Machine) bool {
	if m.log.start == nil {
		return true
	}
	return m.log.rollback != nil && c.covered(m)
}

func (c *coordinator) rollback(m *Machine, reason string) Body {
	return Rollback{Term: c.term, N: m.log.last().ref.N, Tasks: c.affected(m), Dead: c.toBury(m), Reason: reason}
}

// askFence draws new epochs on the ids of the dead: only after the Rollback
// that names them was read, and everything decided is committed and read back
// as such (R27). The caller checked both.
func (c *coordinator) askFence(m *Machine) {
	if rb := m.log.rollback; rb != nil && c.attempt != rb.at {
		c.attempt, c.offsets = rb.at, offsetsState{}
	}
	for _, in := range m.log.instances {
		if !in.dead || slices.Contains(c.fenceAsk, in.id) || m.cfg.Rules.SkipR27 {
			continue
		}
		c.fenceAsk = append(c.fenceAsk, in.id)
		m.do(DoFence{Instance: in.id, IDs: slices.Clone(in.txnIDs)})
	}
}

func (c *coordinator) allFenced(m *Machine) bool {
	return m.cfg.Rules.SkipR27 || !slices.ContainsFunc(m.log.instances, func(in *instance) bool {
		return in.dead && !slices.Contains(c.fenced, in.id)
	})
}

// askOffsets checks that the group offsets are a mirror of the checkpoint
// when no owner of the latest Start is alive; behind checkpoint 0 or a Restore
// it writes them instead (R28).
func (c *coordinator) askOffsets(m *Machine, last *completed) {
	if c.offsets.n != last.ref.N {
		c.offsets = offsetsState{n: last.ref.N}
	}
	if c.offsets.asked {
		return
	}
	c.offsets.asked = true
	switch {
	case last.ref.N == 0 || m.log.restored:
		c.offsets.write = true
		m.do(DoWriteOffsets{Life: m.log.life, Ref: last.ref})
	case c.anyOwnerAlive(m):
		c.offsets.done = true
	default:
		m.do(DoCheckOffsets{Life: m.log.life, Ref: last.ref})
	}
}

// judgeOffsets ends the application when somebody reset the group offsets. A
// coordinator that was replaced and does not know it yet sees offsets of later
// checkpoints: so it first reads the log to an end taken after the answer, and
// whatever changed there makes it ask again, or lead no more.
func (c *coordinator) judgeOffsets(m *Machine, last *completed) {
	o := &c.offsets
	if o.refusal != "" && m.log.end >= o.logEnd && o.n == last.ref.N {
		m.fatal(errOffsetsReset(o.refusal))
	}
}

func (c *coordinator) anyOwnerAlive(m *Machine) bool {
	return slices.ContainsFunc(m.log.start.owners, func(o Owner) bool {
		in := m.log.find(o.Instance)
		return in != nil && !in.dead && slices.Contains(m.gen.Members, o.Instance)
	})
}

// wantStart starts the tasks as the counted generation proposes (R24 step 5).
func (c *coordinator) wantStart(m *Machine, last *completed) Body {
	if !c.coveredOrFirst(m) || !last.fullyCommitted() || m.log.restoring || m.allLeaving() {
		return nil
	}
	if !c.allFenced(m) || !c.offsets.done || c.offsets.n != last.ref.N {
		return nil
	}
	_, owners, fingerprint, ok := m.log.counted(m.gen.Generation)
	if !ok {
		return nil
	}
	owners = m.log.merged(owners)
	tasks, unique := ownerTasks(owners)
	if !unique || !tasks.Equal(m.cfg.Tasks) {
		return nil // not a plan for this topology: the next generation will do
	}
	if slices.ContainsFunc(owners, func(o Owner) bool { return !m.log.takes(o.Instance) }) {
		return nil // it reads so, or wants it, leaves, and the next generation is without it
	}
	return Start{Term: c.term, N: last.ref.N, Generation: m.gen.Generation, Owners: owners, Fingerprint: fingerprint}
}
