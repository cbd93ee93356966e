package barrier

import (
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
)

// State is what an instance is doing, as its user sees it.
type State uint8

// The states of an instance.
//
//	Joining ──▶ Restoring ──▶ Running ──▶ Stopping ──▶ Stopped
//	   ▲            │            │
//	   └────────────┴────────────┘  Rollback; any state ──▶ Failed
const (
	StateJoining   State = iota // reading the log, joining the group, waiting for a Start
	StateRestoring              // tasks are being restored, and none of an earlier start runs
	StateRunning                // all tasks of the instance run (it may have none), or did and some still do
	StateStopping               // a clean stop is under way
	StateStopped                // ended
	StateFailed                 // ended with an error
)

// String returns the state's name in lower case.
func (s State) String() string {
	return [...]string{"joining", "restoring", "running", "stopping", "stopped", "failed"}[s]
}

// Config is what a Machine needs to know. All times are in milliseconds; zero
// times get the defaults of DefaultConfig.
type Config struct {
	App         string         // application id
	Self        ids.InstanceID // drawn anew at every start
	NewLife     ids.Life       // used if the log is empty; drawn at random
	Fingerprint string         // of the topology
	Tasks       TaskSet        // all tasks of the topology; includes 0_0
	Graph       Graph          // what a failure affects, R26
	TxnIDs      int            // transactional ids to register at first

	Interval           int64 // between Triggers (10 s)
	CheckpointTimeout  int64 // Trigger to Complete (60 s)
	HandoverTimeout    int64 // … of a checkpoint that moves tasks (10 s, at most CheckpointTimeout), R25
	ReadyTimeout       int64 // wait for prefetches before a handover without those that are late (10 s), R25
	ToleratedAborts    int   // in a row; one more is a failure (default 2; -1 means none)
	TransactionTimeout int64 // (10 min)
	SessionTimeout     int64 // of the group (10 s)
	ExpectedRestart    int64 // longest restart (5 min), R22
	ShutdownDeadline   int64 // of a clean stop (30 s)
	Settle             int64 // wait after the last Assigned of a generation, R24 (200)
	LeaveGrace         int64 // wait for the others to leave as well before rejoining (500)
	AppendRetry        int64 // repeat an own record that was not read back (2 s)
	Retain             int   // completed checkpoints kept (3, at least 1)
	// ForfeitAll, Forfeit: lost output of any, or of these completed checkpoints is
	// given up instead of an error (R23).
	ForfeitAll bool
	Forfeit    []ids.CheckpointID

	SnapshotRecords int64 // records of the control log between Snapshots (10,000; -1: never)
	SnapshotBytes   int64 // … or bytes of it (16 MiB), whichever comes first
	SnapshotPart    int   // bytes of state in one Snapshot record (512 KiB)

	Rules Rules
}

// DefaultConfig holds the defaults.
var DefaultConfig = Config{
	TxnIDs: 4, Interval: 10_000, CheckpointTimeout: 60_000, ToleratedAborts: 2, HandoverTimeout: 10_000, ReadyTimeout: 10_000,
	TransactionTimeout: 600_000, SessionTimeout: 10_000, ExpectedRestart: 300_000,
	ShutdownDeadline: 30_000, Settle: 200, LeaveGrace: 500, AppendRetry: 2000, Retain: 3,
	SnapshotRecords: 10_000, SnapshotBytes: 16 << 20, SnapshotPart: 512 << 10,
}

// check fills in defaults and compares what must fit together (R22).
func (c *Config) check() error {
	d := &DefaultConfig
	for _, f := range []struct{ field, def *int64 }{
		{&c.Interval, &d.Interval}, {&c.CheckpointTimeout, &d.CheckpointTimeout},
		{&c.HandoverTimeout, &d.HandoverTimeout}, {&c.ReadyTimeout, &d.ReadyTimeout},
		{&c.TransactionTimeout, &d.TransactionTimeout}, {&c.SessionTimeout, &d.SessionTimeout},
		{&c.ExpectedRestart, &d.ExpectedRestart}, {&c.ShutdownDeadline, &d.ShutdownDeadline},
		{&c.Settle, &d.Settle}, {&c.LeaveGrace, &d.LeaveGrace}, {&c.AppendRetry, &d.AppendRetry},
		{&c.SnapshotRecords, &d.SnapshotRecords}, {&c.SnapshotBytes, &d.SnapshotBytes},
	} {
		if *f.field == 0 {
			*f.field = *f.def
		}
	}
	switch {
	case c.ToleratedAborts == 0:
		c.ToleratedAborts = d.ToleratedAborts
	case c.ToleratedAborts < 0:
		c.ToleratedAborts = 0
	}
	if c.TxnIDs == 0 {
		c.TxnIDs = d.TxnIDs
	}
	if c.SnapshotPart == 0 {
		c.SnapshotPart = d.SnapshotPart
	}
	if c.Retain == 0 {
		c.Retain = d.Retain
	}
	if len(c.Tasks) == 0 || !c.Tasks.Contains(ids.TaskID{}) {
		return errNoTasks
	}
	if c.Self.IsZero() {
		return fmt.Errorf("the instance has no name")
	}
	return CheckTimeouts(*c)
}

// CheckTimeouts is R22's first comparison: a transaction must outlive the
// longest chain of tolerated aborts, a lost session and a restart.
func CheckTimeouts(c Config) error {
	need := (c.Interval+c.CheckpointTimeout)*int64(c.ToleratedAborts+1) + c.SessionTimeout + c.ExpectedRestart
	if c.TransactionTimeout > need {
		return nil
	}
	return fmt.Errorf("transaction timeout of %d ms is too short: (checkpoint interval %d + checkpoint timeout %d) × (tolerated aborts %d + 1) + session timeout %d + expected restart %d = %d ms must be less; raise WithTransactionTimeout (up to the broker's transaction.max.timeout.ms) or lower the others",
		c.TransactionTimeout, c.Interval, c.CheckpointTimeout, c.ToleratedAborts, c.SessionTimeout, c.ExpectedRestart, need)
}

// Rules switches protocol rules off. TEST ONLY: the simulation and the crash
// test remove a rule to prove that they would notice. The zero value keeps all
// rules. Rules that live in other packages (R8, R14, R15, R18, R20, and the
// purge of R29) are switched off there.
type Rules struct {
	SkipR2 bool // terms do not fence: records of former leaders stay valid, and claims need no heartbeat
	SkipR3 bool // Complete is valid with any acks, and a Lead or Rollback aborts nothing
	SkipR6 bool // every incarnation is accepted
	// SkipR6Oldest: the lineage is kept back to the incarnations of now, wherever
	// the channel positions of the checkpoint stand.
	SkipR6Oldest bool

	SkipR9  bool // nothing waits behind a barrier
	SkipR16 bool // a checkpoint completes with the first ack
	SkipR22 bool // a checkpoint completes however old its transactions are
	SkipR23 bool // a lost transaction counts as committed, in silence
	SkipR25 bool // tasks are handed over to whoever the plan named, dead and leaving instances too
	// SkipR25Halt: tasks that move do not stop behind the barrier.
	SkipR25Halt bool
	// SkipR26Downstream, SkipR26Shared: what is downstream of a failed task, or
	// shares an aborted transaction with it, goes on. SkipR26Lineage: what rolls
	// back keeps the incarnations that it got since the checkpoint.
	SkipR26Downstream, SkipR26Shared, SkipR26Lineage bool
	// SkipR26Restore: a Restore rolls only some of the tasks back.
	SkipR26Restore bool
	// SkipR26Carried: a checkpoint that carries tasks over lists their lineage of now
	// instead of that of their cut. SkipR26Forget: it forgets incarnations that only
	// carried tasks still read.
	SkipR26Carried, SkipR26Forget bool

	SkipR27 bool // dead instances stay valid and are not fenced

	// SkipTrimTerm: parts of a Snapshot count whoever wrote them. SkipTrimStart:
	// a reader begins with a Snapshot of a state below the log's start.
	// SkipTrimOpen, SkipTrimUncommitted: Snapshots leave out the undecided
	// checkpoint, or what of the last completed one is still to be committed.
	// TrimUnread: the log is trimmed before the Snapshot was read back.
	// TrimThere: it is trimmed up to the Snapshot instead of to its upTo.
	SkipTrimTerm, SkipTrimStart, SkipTrimOpen, SkipTrimUncommitted, TrimUnread, TrimThere bool
}
