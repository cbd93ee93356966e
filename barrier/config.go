package barrier

import "github.com/tidegate/tidegate/internal/ids"

// State is what an instance is doing, as its user sees it.
type State uint8

// The states of an instance.
const (
	StateJoining   State = iota // reading the log, joining the group, waiting for a Start
	StateRestoring              // tasks are being restored
	StateRunning                // all tasks of the instance run
	StateStopping               // a clean stop is under way
	StateStopped                // ended
	StateFailed                 // ended with an error
)

// Config is what a Machine needs to know. All times are in milliseconds.
type Config struct {
	App         string         // application id
	Self        ids.InstanceID // drawn anew at every start
	NewLife     ids.Life       // used if the log is empty; drawn at random
	Fingerprint string         // of the topology
	Tasks       TaskSet        // all tasks of the topology; includes 0_0
	TxnIDs      int            // transactional ids to register at first

	Interval           int64 // between Triggers
	CheckpointTimeout  int64 // Trigger to Complete
	ToleratedAborts    int   // in a row; one more is a failure
	TransactionTimeout int64
	SessionTimeout     int64
	ExpectedRestart    int64 // longest restart (R22)
	ShutdownDeadline   int64
	Settle             int64 // wait after the last Assigned of a generation (R24)
	LeaveGrace         int64 // wait for the others to leave as well before rejoining
	AppendRetry        int64 // repeat an own record that was not read back
	Retain             int   // completed checkpoints kept, at least 1

	Rules Rules
}

// Rules switches protocol rules off. TEST ONLY: the simulation and the crash
// test remove a rule to prove that they would notice. The zero value keeps all
// rules.
type Rules struct {
	SkipR2  bool // records of lower terms stay valid; claims need no heartbeat
	SkipR3  bool // Complete is valid with any acks, and is acted on when appended
	SkipR6  bool // every incarnation is accepted
	SkipR9  bool // nothing waits behind a barrier
	SkipR16 bool // the checkpoint completes with the first ack
	SkipR27 bool // dead instances stay valid and are not fenced
	SkipR29 bool // purge what is merely consumed
}
