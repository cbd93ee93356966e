package barrier

import "github.com/tidegate/tidegate/internal/ids"

// Effect is what a Machine tells its shell to do: one of the Do types, as a
// value. The shell performs the effects of one Step in order, those that take
// long in the background, one background queue per kind.
//
// An effect that names an answering event is retried by the shell, with
// back-off, until it has a definite answer; a later effect of the same kind
// replaces it unless its comment says otherwise.
type Effect interface{ isEffect() }

// DoAppend appends a record to the control log (acks=all). Its success needs
// no event: the record is read back. Failure: EvAppendFailed.
type DoAppend struct{ Record Record }

// DoJoinGroup joins the consumer group, or joins it again with a new mark. The
// assignor gives nothing to a member that leaves, unless all do. Answers:
// EvGeneration after each rebalance, EvHeartbeat after each heartbeat.
type DoJoinGroup struct{ Leaving bool }

// DoLeaveGroup leaves the consumer group.
type DoLeaveGroup struct{}

// DoUseIDs hands over the registered transactional ids, all so far (R20).
type DoUseIDs struct {
	Life ids.Life
	IDs  []string
}

// CheckpointRef names a completed checkpoint and its manifest.
type CheckpointRef struct {
	N        ids.CheckpointID
	Manifest string
}

// DoStartTasks restores tasks from a checkpoint and runs them as one
// incarnation. It comes after a DoStopTasks for what ran of them before. All is
// everything that this instance owns from now on: what is not in Tasks goes on as
// it is (R26). Both may be empty. Answers: EvTaskRunning (for any part of the
// tasks, repeatedly), EvTaskFailed.
type DoStartTasks struct {
	Life        ids.Life
	Incarnation ids.Incarnation
	Tasks, All  TaskSet
	From        CheckpointRef
	Lineages    Lineages // accepted incarnations of every upstream task (R6)
	Owners      []Owner  // everybody's tasks
}

// DoStopTasks stops tasks of this instance at once and aborts, with definite
// answers, the transactions that they write in except those in Keep, which a
// completed checkpoint lists (R4, R21, R26). All: no other task runs here. Of a
// checkpoint under way everything is given up; the tasks that go on hear so by
// DoDecided.
type DoStopTasks struct {
	Tasks TaskSet
	All   bool
	Keep  []ids.TxnHandle
}

// DoPrefetch fetches the state files of tasks that others run, as of a
// completed checkpoint, so that a later start of them downloads little (R25). It
// replaces an earlier one: what is no longer in Tasks may be removed, unless a
// DoMoveTasks or DoStartTasks of the same Step takes it. A file that vanished is
// no error: a DoPrefetch of a later checkpoint follows. Answer: EvPrefetched
// (for any part of the tasks, repeatedly).
type DoPrefetch struct {
	Life  ids.Life
	From  CheckpointRef
	Tasks TaskSet
}

// DoMoveTasks carries out a handover (R25). Tasks in Gone halted behind the
// barrier of checkpoint From and are dropped, with what waits for them. Tasks in
// Come are restored from exactly From and run as Incarnation, with a producer id
// of their own (R8), beside those that run on; answers: EvTaskRunning,
// EvTaskFailed. Tasks is everything that this instance owns now. All running
// tasks get Lineages before the next LogEnd, or they would take records of a new
// owner for void (R6).
type DoMoveTasks struct {
	Life        ids.Life
	Incarnation ids.Incarnation
	Gone, Come  TaskSet
	Tasks       TaskSet
	From        CheckpointRef
	Lineages    Lineages
	Owners      []Owner // everybody's tasks
}

// DoTrigger begins checkpoint N on the local tasks. With Stop they stop behind
// the barrier and go on only after an abort. Base is the checkpoint whose
// objects may be referenced (R15). Answers: EvPassed, EvPrepared or
// EvDeclined.
type DoTrigger struct {
	N           ids.CheckpointID
	Incarnation ids.Incarnation
	Base        CheckpointRef
	Stop        bool
	Halt        TaskSet // tasks that are about to move: they stop behind the barrier (R25)
	// Carried are local tasks that take no part: they keep what they have of the
	// checkpoint that they started from, and know of no barrier N (R26).
	Carried TaskSet
}

// DoDecided tells the local tasks how N ended. It may come without a DoTrigger.
// Tasks that halted behind its barrier go on, as what they were: after an abort
// all of them, else those in Stay (R25).
type DoDecided struct {
	N         ids.CheckpointID
	Completed bool
	Reason    AbortReason // when not completed
	Stay      TaskSet     // tasks of DoTrigger.Halt that were not moved after all
	Detail    string
}

// DoCommit commits transactions of the completed checkpoint N, oldest first:
// the instance's own, or as coordinator those of another. Several may be under
// way at once for different owners. Answers: EvCommitted, EvCommitLost.
type DoCommit struct {
	N     ids.CheckpointID
	Owner ids.InstanceID
	Txns  []Txn
}

// DoRelease says that Committed{N, Owner} of this instance was read back: the
// ids of the transactions it listed may be used again (R20).
type DoRelease struct{ N ids.CheckpointID }

// AckRef is an ack as a manifest lists it.
type AckRef struct {
	Instance ids.InstanceID
	Tasks    TaskSet
	Ack      Ack
}

// DoStoreManifest stores the manifest of N under (life, N, term) with
// put-if-absent (R17). Answers: EvManifestStored, EvManifestFailed.
type DoStoreManifest struct {
	Life        ids.Life
	N           ids.CheckpointID
	Term        int64
	Incarnation ids.Incarnation
	Base        CheckpointRef
	Fingerprint string
	Stop        bool
	Acks        []AckRef // sorted by instance
	Carried     TaskSet  // listed as in Base (R26)
	Lineages    Lineages // as of N, for the record
}

// DoMark stores the marker of a completed, fully committed checkpoint, by
// which it can be restored (R17). Answer: EvMarked.
type DoMark struct {
	Life ids.Life
	Ref  CheckpointRef
}

// DoFence draws new producer epochs on all ids of a dead instance (R27).
// Several may be under way for different instances. Answer: EvFenced.
type DoFence struct {
	Instance ids.InstanceID
	IDs      []string
}

// DoCheckOffsets compares the group offsets, fetched with RequireStable, with
// the last completed checkpoint (R28). Answer: EvOffsetsChecked.
type DoCheckOffsets struct {
	Life ids.Life
	Ref  CheckpointRef
}

// DoWriteOffsets overwrites the group offsets with those of the checkpoint,
// tagged with it (R28). Answer: EvOffsetsWritten.
type DoWriteOffsets struct {
	Life ids.Life
	Ref  CheckpointRef
}

// DoLookForLoss looks for group offsets with a tag of ours and for marked
// manifests: nothing is completed in the log, so either proves that the log
// was lost (R24 step 3). Answer: EvLossLooked.
type DoLookForLoss struct{ Life ids.Life }

// DoStoreZero resolves checkpoint 0 (external offsets from untagged group
// offsets or the reset policy, end offsets of all repartition partitions,
// topic ids) and stores its manifest (R24 step 4). Answer: EvZeroStored.
type DoStoreZero struct {
	Life ids.Life
	Term int64
}

// DoClean deletes the objects of this life that were written for checkpoints
// below Before and that no checkpoint in Keep holds (R30). Answer: EvCleaned.
type DoClean struct {
	Life   ids.Life
	Keep   []CheckpointRef // ascending; the last is the last completed one
	Before ids.CheckpointID
}

// DoPurge deletes repartition records below the smallest position that Last,
// or an unaligned (also cycle) channel of a checkpoint in Keep, needs (R29).
// No answer: it is repeated with the next checkpoint.
type DoPurge struct {
	Life ids.Life
	Last CheckpointRef
	Keep []CheckpointRef
}

// DoTrim deletes what the control log holds below an offset: a valid Snapshot of
// the state there was read (R2). No answer: it is tried a few times, and the next
// Snapshot brings another.
type DoTrim struct{ Below int64 }

// DoBecomeNew says that this instance was declared dead: drop the machine,
// leave the group, draw a new number and begin again as another instance. Tasks
// that still run are stopped, and transactions that no ack lists are aborted; a
// listed one may be decided and is left alone (R21). DisplacedBy is set when another instance reported
// this one's stable name; the shell stops with an error that names both when
// that happens twice within a transaction timeout (R26).
type DoBecomeNew struct {
	Reason      string
	DisplacedBy ids.InstanceID
}

// DoState reports a change of the instance's state.
type DoState struct{ State State }

// DoFatal ends the instance with an error; the machine does nothing more. The
// shell stops tasks, aborts transactions that no ack lists, leaves listed ones
// alone (R21), leaves the group.
type DoFatal struct{ Err error }

// DoExit ends the instance without error; DoLeaveGroup came before it. At the
// deadline of a clean stop tasks still run: they are stopped, and transactions
// that no ack lists are aborted; a listed one may be decided and is left alone
// (R21, R25).
type DoExit struct{}

func (DoAppend) isEffect()        {}
func (DoJoinGroup) isEffect()     {}
func (DoLeaveGroup) isEffect()    {}
func (DoUseIDs) isEffect()        {}
func (DoStartTasks) isEffect()    {}
func (DoStopTasks) isEffect()     {}
func (DoPrefetch) isEffect()      {}
func (DoMoveTasks) isEffect()     {}
func (DoTrigger) isEffect()       {}
func (DoDecided) isEffect()       {}
func (DoCommit) isEffect()        {}
func (DoRelease) isEffect()       {}
func (DoStoreManifest) isEffect() {}
func (DoMark) isEffect()          {}
func (DoFence) isEffect()         {}
func (DoCheckOffsets) isEffect()  {}
func (DoWriteOffsets) isEffect()  {}
func (DoLookForLoss) isEffect()   {}
func (DoStoreZero) isEffect()     {}
func (DoClean) isEffect()         {}
func (DoPurge) isEffect()         {}
func (DoTrim) isEffect()          {}
func (DoBecomeNew) isEffect()     {}
func (DoState) isEffect()         {}
func (DoFatal) isEffect()         {}
func (DoExit) isEffect()          {}
