package barrier

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// instance is what the fold knows of a registered instance.
type instance struct {
	id         ids.InstanceID
	seq        uint64 // last number seen
	registered int64  // offset of its first Register
	txnIDs     []string
	owned      bool // a Start gave it a task
	leaving    bool
	ready      TaskSet // prefetched for a handover, since the latest Start (R25)
	dead       bool
	deadAt     int64 // offset of the last Rollback that named it
	deadTerm   int64
	assigned   Assigned
	assignedAt int64 // -1: none
}

// undecided is a checkpoint between its Trigger and its decision.
type undecided struct {
	n        ids.CheckpointID
	term     int64
	stop     bool
	moves    []Move
	carried  TaskSet // take no part (R26)
	base     CheckpointRef
	reason   AbortReason    // once aborted
	acks     []AckRef       // sorted by instance
	declines []declineEntry // sorted by instance
}

type declineEntry struct {
	instance ids.InstanceID
	decline  Decline
}

// completed is a checkpoint that completed and is not retired.
type completed struct {
	ref       CheckpointRef
	stop      bool
	acks      []AckRef         // of the last one only; without transactions once committed
	committed []ids.InstanceID // sorted
	forfeited []ids.TxnHandle  // lost, and counted as committed (R23)
	lineages  Lineages         // as of n
}

// rolledBack is what Rollbacks said since the latest Start (R27: they add up).
type rolledBack struct {
	at    int64 // offset of the last one
	term  int64 // of the last one
	tasks TaskSet
	// named are the tasks that Rollbacks of term named: a Start needs one of
	// its own term.
	named TaskSet
}

// failure is a valid Failed of tasks that no Rollback named since.
type failure struct {
	instance ids.InstanceID
	rec      Failed
}

// Log is the fold of the control log: everything that the instances of an
// application agree on (R1). It is deterministic: the same records give the
// same state and the same verdicts everywhere.
//
// Invariants:
//
//	F1  Records apply in order of offset, without gaps, from offset 0 or from
//	    the upTo of a Snapshot, whose state is that of the records below it.
//	F2  A void record changes nothing but its writer's sequence number.
//	F3  Of an instance only numbers above the last seen one count.
//	F4  Terms rise; a coordinator record counts only from the leader of the
//	    current term (R2).
//	F5  At most one checkpoint is undecided; its acks come from owners of the
//	    current incarnation (R3).
//	F6  The last completed checkpoint is never retired but by Restore, and is
//	    fully committed before the next one completes or starts tasks (R3, R24).
//	F7  Every task of the latest Start has one owner, which is not dead while
//	    no Rollback is pending (R4, R24). Only a Start and a Complete with moves
//	    change owners, and only a Start those of tasks that the Trigger did not
//	    announce (R25).
type Log struct {
	rules Rules
	end   int64

	life     ids.Life
	haveLife bool

	term   int64
	leader ids.InstanceID
	leadAt int64
	terms  []leadTerm // all leaders so far; only with Rules.SkipR2

	instances []*instance // sorted by id
	// removed are the instances that a Fenced took out, sorted: a copy of a
	// Register may come at any later time. Some 40 bytes for each restart.
	removed []ids.InstanceID

	start     *started
	rollback  *rolledBack
	failures  []failure
	lineages  Lineages
	undecided *undecided
	completed []*completed // ascending; not retired
	aborts    int          // counted ones in a row (R17)
	lastAbort *undecided   // the last counted one

	restored  bool      // the last completed one is the target of a Restore (R28)
	restoring bool      // a Restore waits for its Rollback
	stopped   bool      // the last completed one stopped the tasks of start
	heldUp    bool      // a handover was aborted, and no checkpoint completed since (R25)
	restores  []Restore // valid ones
	hasZero   bool      // something completed in this log
	trim      trimmable // Snapshots
}

type leadTerm struct {
	term   int64
	leader ids.InstanceID
}

// NewLog returns the fold of no records.
func NewLog(rules Rules) *Log { return &Log{rules: rules, leadAt: -1} }

// AbortedCheckpoint is a checkpoint that a record aborted.
type AbortedCheckpoint struct {
	N      ids.CheckpointID
	Reason AbortReason
	Detail string
}

// Outcome is what Apply says of a record.
type Outcome struct {
	// Void is empty for a valid record; else why it counts for nothing.
	Void string
	// Aborted lists the checkpoints that the record aborted, ascending.
	Aborted []AbortedCheckpoint
}

// Valid reports whether the record counts.
func (o Outcome) Valid() bool { return o.Void == "" }

// Errors of Apply: the log cannot be used.
var (
	ErrLogGap    = errors.New("the control log skips offsets: records are missing; it must have unlimited retention and no compaction")
	ErrLogNoLife = errors.New("the control log does not begin with a Life record: the topic holds something else")
)

// Apply folds the record at offset. An error says that the log is unusable; a
// void record is no error. A record below End was applied before and is void.
func (l *Log) Apply(offset int64, r Record) (Outcome, error) {
	if offset < l.end {
		return Outcome{Void: "read before"}, nil
	}
	if offset > l.end {
		return Outcome{}, fmt.Errorf("read offset %d where %d was next: %w", offset, l.end, ErrLogGap)
	}
	if !l.haveLife {
		life, ok := r.Body.(Life)
		if !ok {
			return Outcome{}, ErrLogNoLife
		}
		l.end, l.life, l.haveLife = 1, life.Life, true
		return Outcome{}, nil
	}
	l.end = offset + 1
	var out Outcome
	out.Void = l.apply(offset, r, &out)
	return out, nil
}

// apply judges a record and applies it if valid; it returns why it is void.
func (l *Log) apply(offset int64, r Record, out *Outcome) string {
	in := l.find(r.Instance)
	if in == nil {
		reg, ok := r.Body.(Register)
		switch {
		case !ok:
			return "the instance is not registered"
		case r.Seq > 2: // 1, or 2 behind a Life: anything later is a removed instance's
			return "the instance was removed"
		case l.wasRemoved(r.Instance):
			// A copy that was on its way when its writer died. It would bring
			// the dead back, and with it a second owner of its stable name.
			return "the instance was removed"
		}
		l.register(offset, r, reg)
		return ""
	}
	if r.Seq <= in.seq {
		return "a copy"
	}
	in.seq = r.Seq
	if in.dead && !l.rules.SkipR27 {
		return "the instance is dead"
	}
	switch b := r.Body.(type) {
	case Register:
		for _, id := range b.TxnIDs {
			if !slices.Contains(in.txnIDs, id) {
				in.txnIDs = append(in.txnIDs, id)
			}
		}
		return ""
	case Assigned:
		in.assigned, in.assignedAt = b, offset
		return ""
	case Leaving:
		in.leaving = true
		return ""
	case Ready:
		in.ready = b.Tasks
		return ""
	case Running:
		return l.applyRunning(in, b)
	case Ack:
		return l.applyAck(in, b)
	case Decline:
		return l.applyDecline(in, b)
	case Failed:
		return l.applyFailed(in, b)
	case Committed:
		return l.applyCommitted(in, b)
	case Forfeit:
		return l.applyForfeit(in, b)
	case Restore:
		return l.applyRestore(b, out)
	case Lead:
		return l.applyLead(offset, in, b, out)
	}
	return l.applyDecision(offset, in, r.Body, out)
}

// applyDecision handles what only the leader of the current term may say.
func (l *Log) applyDecision(offset int64, in *instance, body Body, out *Outcome) string {
	term, ok := termOf(body)
	if !ok {
		return "reserved"
	}
	if _, snapshot := body.(Snapshot); !l.leads(in.id, term) && (!snapshot || !l.rules.SkipTrimTerm) {
		return "not of the leader of the current term"
	}
	switch b := body.(type) {
	case Start:
		return l.applyStart(offset, b)
	case Trigger:
		return l.applyTrigger(offset, b)
	case Complete:
		return l.applyComplete(offset, b)
	case Abort:
		return l.applyAbort(b, out)
	case Rollback:
		return l.applyRollback(offset, in, b, out)
	case Retire:
		return l.applyRetire(b)
	case Fenced:
		return l.applyFenced(b)
	case Snapshot:
		return l.applySnapshot(offset, in, b)
	}
	return "reserved"
}

// termOf returns the term that a coordinator record carries.
func termOf(body Body) (int64, bool) {
	switch b := body.(type) {
	case Start:
		return b.Term, true
	case Trigger:
		return b.Term, true
	case Complete:
		return b.Term, true
	case Abort:
		return b.Term, true
	case Rollback:
		return b.Term, true
	case Retire:
		return b.Term, true
	case Fenced:
		return b.Term, true
	case Snapshot:
		return b.Term, true
	}
	return 0, false
}

// leads reports whether the instance is the leader of term, and term the
// current one (R2).
func (l *Log) leads(id ids.InstanceID, term int64) bool {
	if l.rules.SkipR2 {
		return slices.Contains(l.terms, leadTerm{term, id})
	}
	return l.term == term && l.term > 0 && l.leader == id
}

func (l *Log) find(id ids.InstanceID) *instance {
	i, ok := l.search(id)
	if !ok {
		return nil
	}
	return l.instances[i]
}

func (l *Log) wasRemoved(id ids.InstanceID) bool {
	_, ok := slices.BinarySearchFunc(l.removed, id, ids.InstanceID.Compare)
	return ok
}

func (l *Log) search(id ids.InstanceID) (int, bool) {
	return slices.BinarySearchFunc(l.instances, id, func(in *instance, id ids.InstanceID) int { return in.id.Compare(id) })
}

func (l *Log) register(offset int64, r Record, reg Register) {
	i, _ := l.search(r.Instance)
	l.instances = slices.Insert(l.instances, i, &instance{
		id: r.Instance, seq: r.Seq, registered: offset, txnIDs: slices.Clone(reg.TxnIDs), assignedAt: -1,
	})
}

func (l *Log) applyLead(offset int64, in *instance, b Lead, out *Outcome) string {
	if b.Term <= l.term {
		return "the term has a leader"
	}
	l.term, l.leader, l.leadAt = b.Term, in.id, offset
	if l.rules.SkipR2 {
		l.terms = append(l.terms, leadTerm{b.Term, in.id})
	}
	l.abortUndecided(AbortLead, out)
	return ""
}

// abortUndecided ends the undecided checkpoint because of another record (R3).
func (l *Log) abortUndecided(reason AbortReason, out *Outcome) {
	if u := l.undecided; u != nil && (!l.rules.SkipR3 || reason == AbortHigher) {
		out.Aborted = append(out.Aborted, AbortedCheckpoint{N: u.n, Reason: reason})
		l.undecided, l.heldUp = nil, l.heldUp || len(u.moves) > 0
	}
}

func (l *Log) last() *completed {
	if len(l.completed) == 0 {
		return nil
	}
	return l.completed[len(l.completed)-1]
}

func (l *Log) findCompleted(n ids.CheckpointID) *completed {
	i, ok := slices.BinarySearchFunc(l.completed, n, func(c *completed, n ids.CheckpointID) int { return cmp.Compare(c.ref.N, n) })
	if !ok {
		return nil
	}
	return l.completed[i]
}

// uncommitted returns the instances whose transactions of the last completed
// checkpoint are not known to be committed, sorted.
func (c *completed) uncommitted() []ids.InstanceID {
	var out []ids.InstanceID
	for _, a := range c.acks {
		if len(a.Ack.Txns) > 0 && !slices.Contains(c.committed, a.Instance) {
			out = append(out, a.Instance)
		}
	}
	return out
}

// fullyCommitted reports whether all Committed of c were read (R3).
func (c *completed) fullyCommitted() bool { return len(c.uncommitted()) == 0 }

// ackOf returns the ack of an instance.
func ackOf(acks []AckRef, id ids.InstanceID) (AckRef, bool) {
	i, ok := searchAck(acks, id)
	if !ok {
		return AckRef{}, false
	}
	return acks[i], true
}

func searchAck(acks []AckRef, id ids.InstanceID) (int, bool) {
	return slices.BinarySearchFunc(acks, id, func(a AckRef, id ids.InstanceID) int { return a.Instance.Compare(id) })
}

// ownerTasks joins the tasks of all owners; ok is false when two own the same
// task.
func ownerTasks(owners []Owner) (all TaskSet, ok bool) {
	n := 0
	var flat []ids.TaskID
	for _, o := range owners {
		n += len(o.Tasks)
		flat = append(flat, o.Tasks...)
	}
	all = NewTaskSet(flat...)
	return all, len(all) == n
}
