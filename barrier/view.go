package barrier

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// View is a copy of what the fold holds, for reports, health and oracles.
type View struct {
	End    int64
	Life   ids.Life
	Term   int64
	Leader ids.InstanceID

	Instances []InstanceView // sorted by id

	// The latest Start; Incarnation is 0 when there is none.
	Incarnation ids.Incarnation
	From        ids.CheckpointID
	Owners      []Owner
	Running     TaskSet

	RollingBack bool // a Rollback or Restore waits for its Start
	Stopped     bool // the tasks stopped behind the last completed checkpoint

	Undecided   ids.CheckpointID // NoCheckpoint: none
	Acks        int              // of the undecided one
	Kept        []CheckpointRef  // completed and not retired, ascending
	Uncommitted []ids.InstanceID // of the last completed one
	Aborts      int              // counted ones in a row
	Lineages    Lineages
}

// InstanceView is a registered instance.
type InstanceView struct {
	ID            ids.InstanceID
	TxnIDs        []string
	Dead, Leaving bool
}

// View returns a copy of the fold's state.
func (l *Log) View() View {
	v := View{End: l.end, Life: l.life, Term: l.term, Leader: l.leader, Undecided: ids.NoCheckpoint,
		RollingBack: l.rollback != nil || l.restoring, Stopped: l.stopped, Aborts: l.aborts,
		Kept: l.kept(), Lineages: l.lineages}
	for _, in := range l.instances {
		v.Instances = append(v.Instances, InstanceView{ID: in.id, TxnIDs: slices.Clone(in.txnIDs), Dead: in.dead, Leaving: in.leaving})
	}
	if s := l.start; s != nil {
		v.Incarnation, v.From, v.Owners, v.Running = s.at, s.rec.N, s.owners, s.running
	}
	if u := l.undecided; u != nil {
		v.Undecided, v.Acks = u.n, len(u.acks)
	}
	if c := l.last(); c != nil {
		v.Uncommitted = c.uncommitted()
	}
	return v
}

// End is the offset behind the last record that was applied.
func (l *Log) End() int64 { return l.end }

// LastCompleted returns the last completed checkpoint.
func (l *Log) LastCompleted() (CheckpointRef, bool) {
	if c := l.last(); c != nil {
		return c.ref, true
	}
	return CheckpointRef{}, false
}

// Acks returns the acks of the last completed checkpoint; with its Committed
// missing, they hold what is still to be committed.
func (l *Log) Acks() []AckRef {
	if c := l.last(); c != nil {
		return slices.Clone(c.acks)
	}
	return nil
}
