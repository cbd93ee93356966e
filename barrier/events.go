package barrier

import "github.com/tidegate/tidegate/internal/ids"

// Event is what the shell tells a Machine: one of the Ev types, as a value.
type Event interface{ isEvent() }

// EvLogOpened is the first event: the control log's first offset and its end
// (the offset behind the last record), asked for in this order. A log whose
// start is not 0 was trimmed: the records from there hold a Snapshot.
type EvLogOpened struct{ Start, End int64 }

// EvRecord is a control-log record that was read, in order of offset, without
// gaps, from the log's start.
type EvRecord struct {
	Offset int64
	Size   int // encoded, in bytes; it only decides when to trim
	Record Record
}

// EvLogRead says that a fetch of the control log was answered and that
// everything below End was handed over. The shell sends it after the records
// of each answer, also after an empty one: it proves that the log can be read
// (R26: who cannot read it for a session timeout leaves the group).
type EvLogRead struct{ End int64 }

// EvLogLost says that the control log is shorter than what was read, or has
// another topic id (R29).
type EvLogLost struct{ Detail string }

// EvLogTrimmed says that the log was trimmed above the offset from which this
// instance wanted to read on: it missed records, so it goes on as a new one (R2).
type EvLogTrimmed struct{ Start int64 }

// EvTick lets time pass. The shell sends one at least every 100 ms.
type EvTick struct{}

// EvGeneration says what the newest group generation is. Members holds all
// members, sorted; Tasks what this instance gets. SentAt is the time at which
// the join request of this generation was sent (R2).
type EvGeneration struct {
	Generation int32
	Members    []ids.InstanceID
	Tasks      TaskSet
	Warm       TaskSet // tasks of others whose state this instance shall follow
	SentAt     int64
}

// EvHeartbeat says that a heartbeat sent at SentAt, with the member id and
// Generation, was answered without error (R2).
type EvHeartbeat struct {
	SentAt     int64
	Generation int32
}

// EvAppendFailed says that an append got an error or no answer: the machine
// repeats it with the same number.
type EvAppendFailed struct{ Seq uint64 }

// EvWantIDs asks for more transactional ids: Count is the total wanted.
type EvWantIDs struct{ Count int }

// EvPrefetched answers DoPrefetch: the files of these tasks as of checkpoint N
// are here.
type EvPrefetched struct {
	N     ids.CheckpointID
	Tasks TaskSet
}

// EvTaskRunning says that tasks started by DoStartTasks are restored and run.
type EvTaskRunning struct {
	Incarnation ids.Incarnation
	Tasks       TaskSet
}

// EvTaskFailed says that tasks failed: user code, lost records, lost output.
type EvTaskFailed struct {
	Incarnation ids.Incarnation
	Tasks       TaskSet
	Error       string
}

// EvPassed says that tasks took their snapshot of N (progress; it tells "too
// slow" from "waiting for channels", R26).
type EvPassed struct {
	N     ids.CheckpointID
	Tasks TaskSet
}

// EvPrepared says that everything of this instance for N is done as R16 asks.
// Txns is what the ack lists, ages as of now.
type EvPrepared struct {
	N      ids.CheckpointID
	Part   string
	Oldest ids.Incarnation // see Ack.Oldest; 0, unknown, forgets nothing
	Txns   []Txn
}

// EvDeclined says that this instance cannot take part in N.
type EvDeclined struct {
	N      ids.CheckpointID
	Reason DeclineReason
	Detail string
}

// EvManifestStored answers DoStoreManifest (also when a 412 turned out to be
// the same content, R17).
type EvManifestStored struct {
	N    ids.CheckpointID
	Term int64
	Key  string
}

// EvManifestFailed answers DoStoreManifest: it cannot be stored.
type EvManifestFailed struct {
	N      ids.CheckpointID
	Term   int64
	Detail string
}

// EvCommitted answers DoCommit: all of its transactions ended with commit, by
// definite answers (or R23's other evidence).
type EvCommitted struct {
	N     ids.CheckpointID
	Owner ids.InstanceID
}

// EvCommitLost answers DoCommit: the transaction got one of the codes 47, 48,
// 49, 90, and DescribeTransactions does not show it committed; all others of
// the DoCommit were committed, and Of says how many got lost, each with its own
// event (0 means one). LogEnd is the end of the control log, asked for
// after that answer. The machine reads the log to LogEnd before it judges
// (R23).
type EvCommitLost struct {
	N      ids.CheckpointID
	Owner  ids.InstanceID
	Handle ids.TxnHandle
	Of     int
	LogEnd int64
	Detail string
}

// EvFenced answers DoFence: InitProducerId on all ids got definite answers.
type EvFenced struct{ Instance ids.InstanceID }

// EvOffsetsChecked answers DoCheckOffsets. Refusal is empty when the offsets
// are a mirror of the checkpoint, expired, or exempt; else it says what R28
// found, both values and the command that resets on purpose.
type EvOffsetsChecked struct {
	N       ids.CheckpointID
	Refusal string
	// LogEnd is the end of the control log, asked for after the offsets were
	// fetched. A refusal is judged when the log was read to it.
	LogEnd int64
}

// EvOffsetsWritten answers DoWriteOffsets.
type EvOffsetsWritten struct{ N ids.CheckpointID }

// EvLossLooked answers DoLookForLoss. Evidence is empty when nothing was
// found; else it names what was found (R24 step 3).
type EvLossLooked struct {
	Evidence string
	LogEnd   int64 // of the control log, asked for after the look, as in EvOffsetsChecked
}

// EvZeroStored answers DoStoreZero: checkpoint 0 was resolved and its manifest
// stored under Key.
type EvZeroStored struct {
	Term int64
	Key  string
}

// EvMarked answers DoMark.
type EvMarked struct{ N ids.CheckpointID }

// EvCleaned answers DoClean, whatever it could delete.
type EvCleaned struct{}

// EvShutdown asks the instance to stop cleanly.
type EvShutdown struct{}

// EvRestore asks to go on from checkpoint N (option RestoreFrom).
type EvRestore struct {
	N               ids.CheckpointID
	AllowDuplicates bool
	Nonce           string // see Restore
}

func (EvLogOpened) isEvent()      {}
func (EvRecord) isEvent()         {}
func (EvLogRead) isEvent()        {}
func (EvLogLost) isEvent()        {}
func (EvLogTrimmed) isEvent()     {}
func (EvTick) isEvent()           {}
func (EvGeneration) isEvent()     {}
func (EvHeartbeat) isEvent()      {}
func (EvAppendFailed) isEvent()   {}
func (EvWantIDs) isEvent()        {}
func (EvPrefetched) isEvent()     {}
func (EvTaskRunning) isEvent()    {}
func (EvTaskFailed) isEvent()     {}
func (EvPassed) isEvent()         {}
func (EvPrepared) isEvent()       {}
func (EvDeclined) isEvent()       {}
func (EvManifestStored) isEvent() {}
func (EvManifestFailed) isEvent() {}
func (EvCommitted) isEvent()      {}
func (EvCommitLost) isEvent()     {}
func (EvFenced) isEvent()         {}
func (EvOffsetsChecked) isEvent() {}
func (EvOffsetsWritten) isEvent() {}
func (EvLossLooked) isEvent()     {}
func (EvZeroStored) isEvent()     {}
func (EvMarked) isEvent()         {}
func (EvCleaned) isEvent()        {}
func (EvShutdown) isEvent()       {}
func (EvRestore) isEvent()        {}
