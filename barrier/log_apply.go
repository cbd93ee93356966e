package barrier

import (
	"fmt"
	"math"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// mustBeDead reports whether a Start for a generation with these members is
// valid only if the instance was named dead (R24 step 5): it is registered,
// outside, and may have written something. An instance that has only just
// registered, later than the latest Start, owns nothing that needs a fence; it
// is on its way into the group.
func (l *Log) mustBeDead(in *instance, members []ids.InstanceID) bool {
	if slices.Contains(members, in.id) {
		return false
	}
	return in.owned || (l.start != nil && in.registered < int64(l.start.at))
}

// counted returns the owners that a generation proposes, if it is counted: all
// members wrote Assigned after the present Lead, and agree on members and
// fingerprint (R24 step 2). Members without a task are left out.
func (l *Log) counted(generation int32) (members []ids.InstanceID, owners []Owner, fingerprint string, ok bool) {
	lead := l.find(l.leader)
	if lead == nil || !l.assignedIn(lead, generation) {
		return nil, nil, "", false
	}
	members, fingerprint = lead.assigned.Members, lead.assigned.Fingerprint
	for _, id := range members {
		in := l.find(id)
		if in == nil || !l.assignedIn(in, generation) ||
			!slices.Equal(in.assigned.Members, members) || in.assigned.Fingerprint != fingerprint {
			return nil, nil, "", false
		}
		if len(in.assigned.Tasks) > 0 {
			owners = append(owners, Owner{Instance: id, Tasks: in.assigned.Tasks})
		}
	}
	return members, owners, fingerprint, true
}

func (l *Log) assignedIn(in *instance, generation int32) bool {
	return in.assignedAt > l.leadAt && in.assigned.Generation == generation
}

func sameOwners(a, b []Owner) bool {
	return slices.EqualFunc(a, b, func(x, y Owner) bool { return x.Instance == y.Instance && x.Tasks.Equal(y.Tasks) })
}

// applyStart checks R24 step 5 and makes the new incarnation.
func (l *Log) applyStart(offset int64, b Start) string {
	last := l.last()
	switch {
	case last == nil || b.N != last.ref.N:
		return "it does not start from the last completed checkpoint"
	case !last.fullyCommitted():
		return "the last completed checkpoint is not fully committed"
	case l.restoring:
		return "a Restore waits for its Rollback"
	}
	tasks, ok := ownerTasks(b.Owners)
	if !ok || len(tasks) == 0 {
		return "a task has two owners, or there is none"
	}
	members, owners, fingerprint, ok := l.counted(b.Generation)
	if !ok || !sameOwners(l.merged(owners), b.Owners) || fingerprint != b.Fingerprint {
		return "its generation is not counted, or proposes other owners"
	}
	if l.start != nil {
		if l.start.rec.Fingerprint == b.Fingerprint && !tasks.ContainsAll(l.start.tasks) {
			return "it leaves out a task"
		}
		if why := l.mayStart(b); why != "" {
			return why
		}
	}
	for _, in := range l.instances {
		named := in.dead && in.deadTerm == b.Term
		if l.start != nil && l.mustBeDead(in, members) && !named && !l.rules.SkipR27 {
			return fmt.Sprintf("instance %s is outside the generation and not named dead", in.id)
		}
	}
	for _, o := range b.Owners {
		if !l.takes(o.Instance) {
			return "an owner is dead, leaving or not registered"
		}
	}
	for _, o := range b.Owners {
		l.find(o.Instance).owned = true
	}
	for _, in := range l.instances {
		in.ready = nil
	}
	l.restart(offset, b, tasks)
	l.rollback, l.failures, l.lastAbort = nil, nil, nil
	l.aborts, l.stopped, l.heldUp = 0, false, false
	return ""
}

// notRun says why tasks are not run by the instance as the incarnation, or "".
func (l *Log) notRun(in *instance, tasks TaskSet, inc ids.Incarnation) string {
	switch {
	case l.start == nil || l.rolledTasks().Intersects(tasks):
		return "not of the current incarnation"
	case !l.start.tasksOf(in.id).ContainsAll(tasks):
		return "it names tasks of others"
	case !l.start.runAs(in.id, tasks, inc):
		return "not of the current incarnation"
	}
	return ""
}

func (l *Log) applyRunning(in *instance, b Running) string {
	if why := l.notRun(in, b.Tasks, b.Incarnation); why != "" {
		return why
	}
	l.start.running = l.start.running.Union(b.Tasks)
	return ""
}

// applyTrigger begins a checkpoint: R24 step 6, and one at a time.
func (l *Log) applyTrigger(offset int64, b Trigger) string {
	switch {
	case l.start == nil || l.rollback != nil || l.restoring || l.stopped:
		return "no tasks run"
	case l.undecided != nil:
		return "another checkpoint is undecided"
	}
	if why := l.mayCarry(b); why != "" {
		return why
	}
	if why := l.mayMove(b.Moves, b.Stop); why != "" {
		return why
	}
	l.undecided = &undecided{
		n: ids.CheckpointID(offset), term: b.Term, stop: b.Stop, moves: b.Moves, carried: b.Carried, base: l.last().ref,
	}
	return ""
}

func (l *Log) applyAck(in *instance, b Ack) string {
	u, why := l.openFor(in, b.N)
	if why != "" {
		return why
	}
	if b.Incarnation != l.start.newest(in.id) {
		return "not of the current incarnation"
	}
	i, _ := searchAck(u.acks, in.id)
	u.acks = slices.Insert(u.acks, i, AckRef{Instance: in.id, Tasks: l.start.tasksOf(in.id).Minus(u.carried), Ack: b})
	return ""
}

func (l *Log) applyDecline(in *instance, b Decline) string {
	u, why := l.openFor(in, b.N)
	if why != "" {
		return why
	}
	u.declines = append(u.declines, declineEntry{in.id, b})
	slices.SortFunc(u.declines, func(a, b declineEntry) int { return a.instance.Compare(b.instance) })
	return ""
}

// openFor returns the undecided checkpoint n if the instance owes it an answer.
func (l *Log) openFor(in *instance, n ids.CheckpointID) (*undecided, string) {
	u := l.undecided
	switch {
	case u == nil || u.n != n:
		return nil, "the checkpoint is not undecided"
	case len(l.start.tasksOf(in.id).Minus(u.carried)) == 0:
		return nil, "the instance owns no task that takes part"
	}
	if _, ok := ackOf(u.acks, in.id); ok || u.declined(in.id) {
		return nil, "answered before"
	}
	return u, ""
}

func (u *undecided) declined(id ids.InstanceID) bool {
	return slices.ContainsFunc(u.declines, func(d declineEntry) bool { return d.instance == id })
}

// acked reports whether the acks are exactly those of the owners of tasks that
// take part (R3).
func (u *undecided) acked(s *started) bool {
	return slices.EqualFunc(u.acks, s.without(u.carried), func(a AckRef, o Owner) bool {
		return a.Instance == o.Instance && a.Ack.Incarnation == s.newest(o.Instance)
	})
}

// applyComplete is the decision (R3), and the start of tasks that it moves (R25).
func (l *Log) applyComplete(offset int64, b Complete) string {
	if b.N == 0 && len(b.Moves) == 0 {
		if l.hasZero {
			return "checkpoint 0 is complete"
		}
		l.hasZero = true
		l.completed = []*completed{{ref: CheckpointRef{N: 0, Manifest: b.Manifest}}}
		return ""
	}
	u := l.undecided
	if u == nil || u.n != b.N {
		return "the checkpoint is not undecided"
	}
	if !l.rules.SkipR3 && !l.rules.SkipR16 {
		if !u.acked(l.start) {
			return "its acks are not those of the current owners"
		}
		if !l.last().fullyCommitted() {
			return "the checkpoint before is not fully committed"
		}
	}
	if why := l.mayHandOver(u, b.Moves); why != "" {
		return why
	}
	as := l.lineagesAt(u)
	l.settle()
	l.completed = append(l.completed, &completed{
		ref: CheckpointRef{N: u.n, Manifest: b.Manifest}, stop: u.stop, acks: u.acks, lineages: as,
	})
	if len(u.carried) == 0 {
		l.lineages = as
	}
	l.start.fresh = l.start.fresh.Intersect(u.carried)
	l.undecided, l.lastAbort = nil, nil
	l.aborts, l.restored, l.stopped, l.heldUp = 0, false, u.stop, false
	l.handOver(offset, u.n, b.Moves)
	return ""
}

// settle forgets the acks of the checkpoint that is no longer the last:
// handles of any but the last completed one are never used (R19).
func (l *Log) settle() {
	if c := l.last(); c != nil {
		c.acks, c.committed, c.forfeited = nil, nil, nil
	}
}

// oldestOf returns the smallest incarnation that a channel position of the
// checkpoint stands in.
func oldestOf(acks []AckRef) ids.Incarnation {
	oldest := ids.Incarnation(math.MaxInt64)
	for _, a := range acks {
		oldest = min(oldest, a.Ack.Oldest)
	}
	return oldest
}

func (l *Log) applyAbort(b Abort, out *Outcome) string {
	u := l.undecided
	if u == nil || u.n != b.N {
		return "the checkpoint is not undecided"
	}
	out.Aborted = append(out.Aborted, AbortedCheckpoint{N: u.n, Reason: b.Reason, Detail: b.Detail})
	u.reason = b.Reason
	l.undecided = nil
	if len(u.moves) > 0 { // not counted (R17)
		l.heldUp = true
		return ""
	}
	l.lastAbort = u
	l.aborts++
	return ""
}

// applyCommitted notes that an owner's transactions ended with commit: said by
// itself, or by the coordinator (R3).
func (l *Log) applyCommitted(in *instance, b Committed) string {
	c, why := l.uncommitted(in, b.N, b.Owner, b.Term)
	if why != "" {
		return why
	}
	i, _ := slices.BinarySearchFunc(c.committed, b.Owner, ids.InstanceID.Compare)
	c.committed = slices.Insert(c.committed, i, b.Owner)
	return ""
}

// uncommitted returns the last completed checkpoint for a record that ends
// transactions of an owner in it, or why that record is void.
func (l *Log) uncommitted(in *instance, n ids.CheckpointID, owner ids.InstanceID, term int64) (c *completed, why string) {
	if in.id != owner && !l.leads(in.id, term) {
		return nil, "neither the owner nor the coordinator says so"
	}
	c = l.last()
	if c == nil || c.ref.N != n {
		return nil, "not the last completed checkpoint"
	}
	if !slices.Contains(c.uncommitted(), owner) {
		return nil, "nothing of the owner is uncommitted"
	}
	return c, ""
}

func (l *Log) applyFailed(in *instance, b Failed) string {
	if len(b.Tasks) == 0 {
		return "it names no task, or tasks of others"
	}
	if why := l.notRun(in, b.Tasks, b.Incarnation); why != "" {
		return why
	}
	l.failures = append(l.failures, failure{in.id, b})
	return ""
}

// applyRollback announces who stops and who is dead (R27).
func (l *Log) applyRollback(offset int64, in *instance, b Rollback, out *Outcome) string {
	last := l.last()
	if last == nil || b.N != last.ref.N {
		return "it does not go back to the last completed checkpoint"
	}
	for _, id := range b.Dead {
		if l.find(id) == nil || id == in.id {
			return "a dead instance is not registered, or is the writer"
		}
	}
	if l.start != nil && !l.start.tasks.ContainsAll(b.Tasks) {
		return "it names unknown tasks"
	}
	if l.restoring && l.start != nil && !b.Tasks.ContainsAll(l.start.tasks) && !l.rules.SkipR26Restore {
		return "a Restore waits for a Rollback of all tasks"
	}
	l.abortUndecided(AbortRollback, out)
	rb := l.rollback
	if rb == nil {
		rb = &rolledBack{}
		l.rollback = rb
	}
	if rb.term != b.Term {
		rb.term, rb.named = b.Term, nil
	}
	rb.at = offset
	rb.tasks, rb.named = rb.tasks.Union(b.Tasks), rb.named.Union(b.Tasks)
	for _, id := range b.Dead {
		d := l.find(id)
		d.dead, d.deadAt, d.deadTerm = true, offset, b.Term
	}
	l.forgetFailures(b.Tasks)
	l.restoring, l.lastAbort, l.aborts = false, nil, 0
	return ""
}

// applyRestore goes back to an older checkpoint (R3). A fully committed
// checkpoint may be marked by anybody at any time, so "n is marked" is here
// "n is kept": all but the last are fully committed (F6), and so is the last.
func (l *Log) applyRestore(b Restore, out *Outcome) string {
	if slices.Contains(l.restores, b) {
		return "done before"
	}
	last, c := l.last(), l.findCompleted(b.N)
	switch {
	case c == nil:
		return "the checkpoint is unknown or retired"
	case !last.fullyCommitted():
		return "the last completed checkpoint is not fully committed"
	}
	l.abortUndecided(AbortRestore, out)
	l.settle()
	i := slices.Index(l.completed, c)
	l.completed = l.completed[:i+1]
	l.restores = append(l.restores, b)
	l.restored, l.restoring = true, true
	return ""
}

func (l *Log) applyRetire(b Retire) string {
	c := l.findCompleted(b.N)
	switch {
	case c == nil:
		return "the checkpoint is unknown or retired"
	case c == l.last():
		return "it is the last completed checkpoint"
	}
	l.completed = slices.DeleteFunc(l.completed, func(o *completed) bool { return o == c })
	return ""
}

// applyFenced removes an instance of which nothing can come any more (R2).
func (l *Log) applyFenced(b Fenced) string {
	i, ok := l.search(b.Instance)
	switch {
	case !ok:
		return "the instance is not registered"
	case !l.instances[i].dead && !l.left(l.instances[i]):
		return "the instance is neither dead nor has it left"
	case l.last() != nil && slices.Contains(l.last().uncommitted(), b.Instance):
		return "something of it is uncommitted"
	}
	l.instances = slices.Delete(l.instances, i, i+1)
	k, _ := slices.BinarySearchFunc(l.removed, b.Instance, ids.InstanceID.Compare)
	l.removed = slices.Insert(l.removed, k, b.Instance)
	return ""
}
