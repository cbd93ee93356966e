package transactions

import (
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

// TxnNumber names a transaction of one Pool, counted from 1 and never reused.
type TxnNumber uint64

// Offset is the next offset of an external input partition at a barrier.
type Offset struct {
	Partition   ids.TopicPartition
	Next        int64
	LeaderEpoch int32 // −1: unknown
}

// Listed is a transaction as an Ack lists it.
type Listed struct {
	Handle ids.TxnHandle
	// Age is the time from before the request that began the transaction to
	// the making of the list, by the monotonic clock (R22).
	Age time.Duration
	// Topics are the sink topics it wrote, sorted; none if it holds offsets
	// only.
	Topics []string
	// FirstTime and LastTime are the smallest and largest record timestamp in
	// it, in milliseconds since the epoch; both 0 if it holds no record.
	FirstTime, LastTime int64
}

// Event is what happened; see Pool.Step and Finisher.Step.
type Event interface{ event() }

// Opened starts the pool: it registers its first transactional ids.
type Opened struct{}

// Registered says that a Register record with these ids was read back (R2).
type Registered struct{ IDs []string }

// StartTask is a task in Started.
type StartTask struct {
	Task ids.TaskID
	// Inputs: the task reads external inputs, so their offsets are committed.
	Inputs bool
	// Group is the number of the group whose transactions it writes into.
	Group int32
}

// Started says that a valid Start gives this instance these tasks, from
// checkpoint From, beside those that were not rolled back. They are new: what ran
// of them before has been rolled back.
type Started struct {
	From  ids.CheckpointID
	Tasks []StartTask
}

// Write is a batch that a task wants written to a sink partition. Batches of
// one task and partition are sent in the order of their Writes. Now is the
// monotonic clock.
type Write struct {
	Now       time.Duration
	Task      ids.TaskID
	Partition ids.TopicPartition
	// Batch is the caller's name for it, given back in Send.
	Batch uint64
	// FirstTime and LastTime are the smallest and largest timestamp in it.
	FirstTime, LastTime int64
}

// BatchAnswer is the broker's last word on a batch that was sent: OK when it
// is acknowledged; any other code is a definite failure, or, after Drop, the
// writer's word that it will not send the batch again.
type BatchAnswer struct {
	Now       time.Duration
	Txn       TxnNumber
	Task      ids.TaskID
	Partition ids.TopicPartition
	Code      Code
}

// TaskPassed says that a task took its snapshot at barrier N. Every Write of
// output before the barrier came before it. Offsets are the next offsets of
// the task's external inputs at that moment.
type TaskPassed struct {
	Now     time.Duration
	Task    ids.TaskID
	N       ids.CheckpointID
	Offsets []Offset
}

// Carried says, before any task passes barrier N, that these tasks will not: the
// checkpoint holds them as the one before does (R26). What they write goes on in
// transactions of their own.
type Carried struct {
	N     ids.CheckpointID
	Tasks []ids.TaskID
}

// InitAnswer answers InitProducer.
type InitAnswer struct {
	Now        time.Duration
	ID         string
	ProducerID int64
	Epoch      int16
	Code       Code
}

// PartitionsAnswer answers AddPartitions.
type PartitionsAnswer struct {
	Now  time.Duration
	Txn  TxnNumber
	Code Code
}

// OffsetsAnswer answers AddOffsets: OK when both AddOffsetsToTxn and
// TxnOffsetCommit succeeded.
type OffsetsAnswer struct {
	Now  time.Duration
	Txn  TxnNumber
	Code Code
}

// EndAnswer answers End.
type EndAnswer struct {
	Now    time.Duration
	Handle ids.TxnHandle
	Commit bool
	Code   Code
}

// LogRead answers ReadLog: whether the control log, read to an end that was
// taken after ReadLog, holds a valid Committed of the owner for a checkpoint
// that listed the handle.
type LogRead struct {
	Handle    ids.TxnHandle
	Committed bool
}

// Described answers Describe with the broker's view of the transactional id.
type Described struct {
	Handle     ids.TxnHandle
	Code       Code
	ProducerID int64
	Epoch      int16
	State      TxnState
}

// Completed says that a valid Complete N was read; Handles are what this
// instance's Ack in it lists, in that order.
type Completed struct {
	N       ids.CheckpointID
	Handles []ids.TxnHandle
}

// Aborted says that checkpoint N was aborted. It ends no transaction (R21).
type Aborted struct{ N ids.CheckpointID }

// CommittedRead says that this instance's Committed for N was read back.
type CommittedRead struct{ N ids.CheckpointID }

// RolledBack says that a valid Rollback names these tasks of this instance, all
// those of a group or none: they have been stopped, and what no Complete covers
// is aborted. nil means all tasks.
type RolledBack struct{ Tasks []ids.TaskID }

// Shutdown says that the instance closes: tasks have been stopped. What was
// never listed in an Ack is aborted, what was is left alone; a decided commit
// under way goes on.
type Shutdown struct{}

func (Opened) event()           {}
func (Registered) event()       {}
func (Started) event()          {}
func (Write) event()            {}
func (BatchAnswer) event()      {}
func (TaskPassed) event()       {}
func (Carried) event()          {}
func (InitAnswer) event()       {}
func (PartitionsAnswer) event() {}
func (OffsetsAnswer) event()    {}
func (EndAnswer) event()        {}
func (LogRead) event()          {}
func (Described) event()        {}
func (Completed) event()        {}
func (Aborted) event()          {}
func (CommittedRead) event()    {}
func (RolledBack) event()       {}
func (Shutdown) event()         {}

// Effect is what the caller must do. Requests carry an Attempt, counted from
// 0, from which the executor derives its wait.
type Effect interface{ effect() }

// Register asks for a Register record that adds these transactional ids; the
// answer is Registered, once it is read back.
type Register struct{ IDs []string }

// InitProducer asks for InitProducerId; the answer is InitAnswer.
type InitProducer struct {
	ID      string
	Attempt int
}

// AddPartitions asks for AddPartitionsToTxn; the answer is PartitionsAnswer.
type AddPartitions struct {
	Txn        TxnNumber
	Handle     ids.TxnHandle
	Partitions []ids.TopicPartition
	Attempt    int
}

// AddOffsets asks for AddOffsetsToTxn and TxnOffsetCommit with generation −1,
// no member, and Metadata on every partition; the answer is OffsetsAnswer.
type AddOffsets struct {
	Txn      TxnNumber
	Handle   ids.TxnHandle
	N        ids.CheckpointID
	Metadata string
	Offsets  []Offset
	Attempt  int
}

// Send asks to write a batch with the handle's producer id and epoch; the
// answer is BatchAnswer. Batches of one transaction and partition must keep
// the order of their Sends.
type Send struct {
	Txn       TxnNumber
	Handle    ids.TxnHandle
	Task      ids.TaskID
	Partition ids.TopicPartition
	Batch     uint64
}

// Drop says that nothing of these batches is wanted any more: those not sent
// are forgotten here, those sent are not to be repeated, and each of the
// latter is still answered. Batches that were never sent are in Batches; those
// on the way are all that were sent in the transactions Txns.
type Drop struct {
	Batches []uint64
	Txns    []ids.TxnHandle
}

// End asks for EndTxn; the answer is EndAnswer.
type End struct {
	Handle  ids.TxnHandle
	Commit  bool
	Attempt int
}

// Prepared says that everything of this instance for checkpoint N is prepared:
// the Ack may be written, with the list that Pool.Ack returns.
type Prepared struct{ N ids.CheckpointID }

// WriteCommitted asks for a Committed record: all listed transactions of Owner
// in checkpoint N are committed.
type WriteCommitted struct {
	N     ids.CheckpointID
	Owner ids.InstanceID
}

// ReadLog asks to take the control log's end now, read to it, and answer with
// LogRead.
type ReadLog struct {
	N      ids.CheckpointID
	Owner  ids.InstanceID
	Handle ids.TxnHandle
}

// Describe asks for DescribeTransactions; the answer is Described.
type Describe struct {
	Handle  ids.TxnHandle
	Attempt int
}

// Lost says that output of a completed checkpoint is gone. Every other decided
// transaction of the list has been committed; the application must stop with
// Err (R23).
type Lost struct {
	Err *LostError
	Of  int // how many of the same Finisher are lost
}

// Failed says that tasks lost output before a decision: the runtime writes a
// Failed record for each, which leads to a Rollback.
type Failed struct {
	Tasks []ids.TaskID
	Err   error
}

// Fatal says that the broker denies what the application needs: it must stop
// with Err, which names the missing permission or the setting.
type Fatal struct{ Err error }

// Warn is a line for the log.
type Warn struct{ Text string }

func (Register) effect()       {}
func (InitProducer) effect()   {}
func (AddPartitions) effect()  {}
func (AddOffsets) effect()     {}
func (Send) effect()           {}
func (Drop) effect()           {}
func (End) effect()            {}
func (Prepared) effect()       {}
func (WriteCommitted) effect() {}
func (ReadLog) effect()        {}
func (Describe) effect()       {}
func (Lost) effect()           {}
func (Failed) effect()         {}
func (Fatal) effect()          {}
func (Warn) effect()           {}
