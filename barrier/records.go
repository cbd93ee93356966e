package barrier

import (
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
)

// Kind is the type of a control-log record. The numbers are part of the
// format (docs/format/control-log.md) and are never reused.
type Kind uint8

// The kinds of control-log records.
const (
	KindLife      Kind = 1
	KindLead      Kind = 2
	KindRegister  Kind = 3
	KindAssigned  Kind = 4
	KindReady     Kind = 5
	KindRunning   Kind = 6
	KindLeaving   Kind = 7
	KindStart     Kind = 8
	KindTrigger   Kind = 9
	KindAck       Kind = 10
	KindDecline   Kind = 11
	KindComplete  Kind = 12
	KindAbort     Kind = 13
	KindCommitted Kind = 14
	KindFailed    Kind = 15
	KindRollback  Kind = 16
	KindRestore   Kind = 17
	KindRetire    Kind = 18
	KindFenced    Kind = 19
	KindForfeit   Kind = 20
	KindSnapshot  Kind = 21
)

// Record is one record of the control log: who wrote it, the writer's sequence
// number, and what it says.
//
// A writer has one record in flight and repeats it with the same number until
// it reads it back; the fold voids the copies (R1).
type Record struct {
	Instance ids.InstanceID
	Seq      uint64 // 1, 2, … within the instance
	Body     Body
}

// Body is what a record says: one of the record types of this package, as a
// value (not a pointer).
type Body interface{ Kind() Kind }

// Life is the first record of the log: the id of the application's state
// history. A Life at an offset above 0 is void.
type Life struct{ Life ids.Life }

// Lead claims a term for the writer (R2).
type Lead struct{ Term int64 }

// Register introduces the writer, or adds transactional ids to it (R2). It is
// read back before an id is used for the first time (R20).
type Register struct{ TxnIDs []string }

// Assigned reports what a group generation gives the writer (R24 step 2).
type Assigned struct {
	Generation  int32
	Tasks       TaskSet
	Members     []ids.InstanceID // all members of the generation, sorted
	Fingerprint string           // of the writer's topology
}

// Ready says which tasks the writer has prefetched for a handover: all of them,
// not only what was added (R25).
type Ready struct{ Tasks TaskSet }

// Running says that tasks of the Start at offset Incarnation are restored and
// process records (R24 step 6).
type Running struct {
	Incarnation ids.Incarnation
	Tasks       TaskSet
}

// Leaving says that the writer wants to stop cleanly (R25).
type Leaving struct{}

// Owner says which tasks an instance gets.
type Owner struct {
	Instance ids.InstanceID
	Tasks    TaskSet
}

// Start gives every task an owner and, with its offset, an incarnation; the
// tasks start from checkpoint N (R4, R24).
type Start struct {
	Term        int64
	N           ids.CheckpointID
	Generation  int32
	Owners      []Owner // sorted by instance; instances without a task are left out
	Fingerprint string
}

// Move gives a task to another instance by a handover (R25).
type Move struct {
	Task ids.TaskID
	To   ids.InstanceID
}

// Trigger begins a checkpoint; its offset is the checkpoint's id.
type Trigger struct {
	Term int64
	Stop bool // tasks stop behind the barrier: everybody leaves
	// Moves are tasks that stop behind the barrier to go on elsewhere, sorted by
	// task (R25).
	Moves []Move
	// Carried are tasks that took part in no checkpoint since they started and take
	// none in this one: it holds them as the last completed one does (R26). Neither
	// with Stop nor with Moves.
	Carried TaskSet
}

// Txn is a prepared transaction as an ack lists it.
type Txn struct {
	Handle ids.TxnHandle
	Age    int64    // milliseconds since before its first request, when the ack was made (R22)
	Topics []string // topics it writes, for the error of R23
}

// Ack says that the writer's part of checkpoint N is stored and prepared (R16).
type Ack struct {
	N           ids.CheckpointID
	Incarnation ids.Incarnation // of the writer's tasks
	Part        string          // key of the part object in the checkpoint store
	// Oldest is the smallest incarnation in any channel position of the part,
	// or Incarnation where there is none. It bounds the lineage (R6): what is
	// below is forgotten, so one that is too small costs a few bytes, and one
	// that is too large loses records. 0 forgets nothing.
	Oldest ids.Incarnation
	Txns   []Txn // oldest first
}

// DeclineReason says why an instance cannot ack.
type DeclineReason uint8

// The reasons of a Decline.
const (
	// DeclineUpload: files or the part could not be stored.
	DeclineUpload DeclineReason = 1
	// DeclineTime: the instance was too slow for another reason.
	DeclineTime DeclineReason = 2
	// DeclineWaiting: tasks still wait for barriers of their channels; the
	// instance itself is well (R26).
	DeclineWaiting DeclineReason = 3
)

// Decline says that the writer will not ack N.
type Decline struct {
	N      ids.CheckpointID
	Reason DeclineReason
	Detail string
}

// Complete is, when valid, the completion of checkpoint N (R3).
type Complete struct {
	Term     int64
	N        ids.CheckpointID
	Manifest string // key in the checkpoint store
	Moves    []Move // those of the Trigger that take effect, with this record's offset as incarnation (R25)
}

// AbortReason says why a checkpoint did not complete.
type AbortReason uint8

// The reasons for which a checkpoint is aborted. Only the first three are
// written in an Abort record and counted as aborts in a row (R17); the others
// follow from other records.
const (
	AbortTimeout  AbortReason = 1
	AbortDeclined AbortReason = 2
	AbortManifest AbortReason = 3 // the manifest could not be stored
	AbortLead     AbortReason = 4
	AbortRollback AbortReason = 5
	AbortRestore  AbortReason = 6
	AbortHigher   AbortReason = 7 // a later checkpoint completed
)

var abortReasons = [...]string{
	AbortTimeout: "timeout", AbortDeclined: "declined", AbortManifest: "manifest not stored", AbortLead: "new coordinator",
	AbortRollback: "rollback", AbortRestore: "restore", AbortHigher: "a later one completed",
}

// String returns the reason as a log shows it.
func (r AbortReason) String() string {
	if int(r) < len(abortReasons) && abortReasons[r] != "" {
		return abortReasons[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Abort ends checkpoint N without completion (R3).
type Abort struct {
	Term   int64
	N      ids.CheckpointID
	Reason AbortReason
	Detail string
}

// Committed says that all transactions which Owner listed in N have ended with
// commit (R3, R19). Term is 0 when the owner itself writes it.
type Committed struct {
	Term  int64
	N     ids.CheckpointID
	Owner ids.InstanceID
}

// Failed says that tasks of the writer lost records or output, or that user
// code failed (R8, R16, R26).
type Failed struct {
	Incarnation ids.Incarnation
	Tasks       TaskSet
	Error       string
}

// Rollback stops tasks and buries instances (R27). Until the next Start,
// Rollbacks add up.
type Rollback struct {
	Term   int64
	N      ids.CheckpointID // the last completed one, from which the tasks will start
	Tasks  TaskSet
	Dead   []ids.InstanceID // sorted
	Reason string
}

// Restore asks to go on from the older checkpoint N (R3). Anybody registered
// may write it. A Restore whose (N, Nonce) was valid before is void, so that an
// instance which restarts with the same option does not restore again.
type Restore struct {
	N     ids.CheckpointID
	Nonce string
}

// Retire says that nothing starts from checkpoint N any more (R30).
type Retire struct {
	Term int64
	N    ids.CheckpointID
}

// Fenced removes an instance whose ids are fenced (R2, R27).
type Fenced struct {
	Term     int64
	Instance ids.InstanceID
}

// Forfeit counts a lost transaction as committed because the user chose so
// (R23). Term is 0 when the owner itself writes it.
type Forfeit struct {
	Term   int64
	N      ids.CheckpointID
	Owner  ids.InstanceID
	Handle ids.TxnHandle
}

// Kind implements Body.
func (Life) Kind() Kind { return KindLife }

// Kind implements Body.
func (Lead) Kind() Kind { return KindLead }

// Kind implements Body.
func (Register) Kind() Kind { return KindRegister }

// Kind implements Body.
func (Assigned) Kind() Kind { return KindAssigned }

// Kind implements Body.
func (Ready) Kind() Kind { return KindReady }

// Kind implements Body.
func (Running) Kind() Kind { return KindRunning }

// Kind implements Body.
func (Leaving) Kind() Kind { return KindLeaving }

// Kind implements Body.
func (Start) Kind() Kind { return KindStart }

// Kind implements Body.
func (Trigger) Kind() Kind { return KindTrigger }

// Kind implements Body.
func (Ack) Kind() Kind { return KindAck }

// Kind implements Body.
func (Decline) Kind() Kind { return KindDecline }

// Kind implements Body.
func (Complete) Kind() Kind { return KindComplete }

// Kind implements Body.
func (Abort) Kind() Kind { return KindAbort }

// Kind implements Body.
func (Committed) Kind() Kind { return KindCommitted }

// Kind implements Body.
func (Failed) Kind() Kind { return KindFailed }

// Kind implements Body.
func (Rollback) Kind() Kind { return KindRollback }

// Kind implements Body.
func (Restore) Kind() Kind { return KindRestore }

// Kind implements Body.
func (Retire) Kind() Kind { return KindRetire }

// Kind implements Body.
func (Fenced) Kind() Kind { return KindFenced }

// Kind implements Body.
func (Forfeit) Kind() Kind { return KindForfeit }
