package changelog

import "github.com/tidegate/tidegate/internal/ids"

// Event is something that happened; Machine.Step takes it.
type Event interface{ event() }

// Verdict is how Kafka answered a step of a commit.
type Verdict uint8

// The verdicts.
const (
	// Done says: it is so.
	Done Verdict = iota
	// NextGeneration says: the group's generation moved on since the request; nothing
	// was stored.
	NextGeneration
	// NotMember says: the group does not hold this member any more.
	NotMember
	// Lost says: anything else: the interval is given up. Whether its transaction was
	// committed need not be known, since the tasks start again from what is.
	Lost
)

// TaskRun names one start of a task on this instance.
type TaskRun struct {
	Task ids.TaskID
	Run  ids.Incarnation
}

type (
	// EvTick is the clock. Dirty says that tasks did something since the last
	// commit point.
	EvTick struct{ Dirty bool }
	// EvHurry says: too much waits for the commit; do not wait for the interval.
	EvHurry struct{}
	// EvAssigned says: the group began a generation and gave these tasks.
	EvAssigned struct {
		Member     string
		Generation int32
		Tasks      []ids.TaskID
		Instances  []ids.InstanceID // all members
	}
	// EvDropped says: the group dropped this member.
	EvDropped struct{}
	// EvRunning says: a started task processes records.
	EvRunning struct{ TaskRun }
	// EvClosed says: a task let go of everything.
	EvClosed struct{ TaskRun }
	// EvPassed says: a task passed commit point N. Moved says that its offsets did.
	EvPassed struct {
		TaskRun
		N     ids.CheckpointID
		Moved bool
	}
	// EvWrote says: something was written in interval N.
	EvWrote struct{ N ids.CheckpointID }
	// EvFlushed says: all records of interval N are acknowledged.
	EvFlushed struct {
		N       ids.CheckpointID
		Verdict Verdict
		Err     error
	}
	// EvOffsets is the answer to the offsets of interval N, which were sent as a
	// member of Generation.
	EvOffsets struct {
		N          ids.CheckpointID
		Generation int32
		Verdict    Verdict
		Err        error
	}
	// EvEnded is the answer to the end of the transaction of interval N.
	EvEnded struct {
		N       ids.CheckpointID
		Verdict Verdict
		Err     error
	}
	// EvFailed says: a task or producer failed in a way that another start may mend.
	EvFailed struct{ Err error }
	// EvFatal says: nothing mends it.
	EvFatal struct{ Err error }
	// EvShutdown says: the user wants to stop.
	EvShutdown struct{}
)

func (EvTick) event()     {}
func (EvHurry) event()    {}
func (EvAssigned) event() {}
func (EvDropped) event()  {}
func (EvRunning) event()  {}
func (EvClosed) event()   {}
func (EvPassed) event()   {}
func (EvWrote) event()    {}
func (EvFlushed) event()  {}
func (EvOffsets) event()  {}
func (EvEnded) event()    {}
func (EvFailed) event()   {}
func (EvFatal) event()    {}
func (EvShutdown) event() {}

// Effect is something that the shell does, in order.
type Effect interface{ effect() }

type (
	// DoStart starts tasks: fetch their offsets, restore, run. Then EvRunning, for
	// each; see Machine.Joins.
	DoStart struct{ Tasks []TaskRun }
	// DoClose closes tasks; what they did not commit is forgotten. Then EvClosed,
	// for each.
	DoClose struct{ Tasks []TaskRun }
	// DoTrigger lets tasks pass commit point N; those in Stop process nothing
	// behind it. Then EvPassed, for each.
	DoTrigger struct {
		N           ids.CheckpointID
		Tasks, Stop []TaskRun
	}
	// DoFlush waits for the acknowledgement of interval N. Then EvFlushed.
	DoFlush struct{ N ids.CheckpointID }
	// DoOffsets adds the offsets of the tasks that passed N. Then EvOffsets.
	DoOffsets struct {
		N          ids.CheckpointID
		Member     string
		Generation int32
	}
	// DoEnd commits the transaction of interval N. Then EvEnded.
	DoEnd struct{ N ids.CheckpointID }
	// DoApply writes the changes of interval N to the engines. Committed says
	// that there was a transaction.
	DoApply struct {
		N         ids.CheckpointID
		Committed bool
	}
	// DoOpen lets interval N be sent: in a new transaction if Fresh, else in the
	// one at hand, which nothing used.
	DoOpen struct {
		N     ids.CheckpointID
		Fresh bool
	}
	// DoDrop gives the interval up: forget what waits, end the producers, abort.
	DoDrop struct{}
	// DoFence ends what instances left open that are out of the group.
	DoFence struct{ Instances []ids.InstanceID }
	// DoOwned says what this instance tells the group that it has.
	DoOwned struct{ Tasks []ids.TaskID }
	// DoRejoin asks for a new generation.
	DoRejoin struct{}
	// DoReport shows the application's condition.
	DoReport struct {
		State Condition
		Tasks []ids.TaskID
		// Restoring are those of Tasks that are being restored.
		Restoring []ids.TaskID
	}
	// DoSetback tells of a failure: the tasks start again after Wait
	// milliseconds, or, if GiveUp, the application ends.
	DoSetback struct {
		Err     error
		Attempt int
		Wait    int64
		GiveUp  bool
	}
	// DoWarn is for the log.
	DoWarn struct {
		Text string
		Err  error
	}
	// DoExit leaves the group and ends the instance.
	DoExit struct{ Err error }
)

func (DoStart) effect()   {}
func (DoClose) effect()   {}
func (DoTrigger) effect() {}
func (DoFlush) effect()   {}
func (DoOffsets) effect() {}
func (DoEnd) effect()     {}
func (DoApply) effect()   {}
func (DoOpen) effect()    {}
func (DoDrop) effect()    {}
func (DoFence) effect()   {}
func (DoOwned) effect()   {}
func (DoRejoin) effect()  {}
func (DoReport) effect()  {}
func (DoSetback) effect() {}
func (DoWarn) effect()    {}
func (DoExit) effect()    {}

// Condition is where an instance stands.
type Condition uint8

// The conditions.
const (
	Joining Condition = iota
	Restoring
	Running
	Stopping
)
