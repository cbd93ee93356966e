// Package runtime runs an application: it is the shell that performs what the
// pure machines of packages barrier and transactions ask for, and wires Kafka,
// checkpoint storage, state engines and tasks together. App of the root package
// is a thin cover of Runtime.
//
// # The idea
//
// Run deploys once (connect, check, create internal topics, lock the state
// folder) and then runs one instance after another: an instance that was
// declared dead is over for good, and the same process goes on as another one
// with a new identity. Each instance has one loop. Whatever happens (a record
// of the control log, an answer from Kafka, a task that passed a barrier, the
// clock) becomes a function that the loop runs: it steps a machine, and the
// effects that come out are performed. An effect that takes long goes to the
// background and posts its answer as another event.
//
//	control log ─► controlShell ─┐                 ┌─► Worker: Adopt, Trigger, Decided, Revoke
//	group ───────► groupShell ───┤                 ├─► uploads, manifests, marks, cleaning
//	Kafka's answers ─────────────┼─► loop ─► step ─┼─► txnShell: transactions, commits, fences
//	tasks (Passed, Failed, Send) ┤   machine, pool ├─► control log: append
//	clock ───────────────────────┘                 └─► state, health, log lines
//
// What one Start gave the instance is a run; it implements tasks.Protocol for
// its tasks. What the instance does for one checkpoint is a running; a Rollback
// or the instance's end drops both, and whatever still comes for them is
// recognised by the pointer and ignored.
//
// The states of an application are drawn at State.
//
// # Invariants
//
//	S1  Only the loop steps machines and touches fields of instance, run and
//	    running that do not say otherwise. Nothing on the loop blocks.
//	S2  Effects are performed in order, and the position in the control log
//	    reaches the workers after them: a task knows a Trigger before it takes
//	    the barrier for an old one.
//	S3  A task has the same worker at every start, so the Revoke of its old
//	    incarnation comes before the Adopt of the new one.
//	S4  After dropRun nothing that the run's tasks hand over has an effect.
//	S5  An ack is sent when every task passed, every repartition batch up to the
//	    barrier is acknowledged, files and part are stored, and the transactions
//	    are prepared; its list of transactions is made at that moment (R16).
//	S6  What was seen outside the control log (offsets, traces, a lost
//	    transaction) is handed over with an end of the log that was asked for
//	    after it was seen.
//	S7  A request whose outcome is unknown is repeated or given up, never taken
//	    for an answer.
//
// # Goroutines
//
// The caller of Run runs the loop. The instance starts workers, the fetcher's
// and the writer's loops, one goroutine for the group, one that appends to the
// control log, one per request of a transaction, and background work, all of
// which instance.close ends and waits for. DESIGN.md has the table.
//
// # What it does not do
//
// It decides nothing about checkpoints, ownership or transactions: a decision
// that is not an effect of a machine is a mistake, since the simulation does not
// see it. It knows no operator and no serde.
package runtime
