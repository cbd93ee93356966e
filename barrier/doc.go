// Package barrier is the checkpoint protocol (docs/protocol.md, rules R1–R30)
// as pure state machines. It performs no I/O, reads no clock, starts no
// goroutine and iterates over no map: the same events give the same effects.
//
// # The idea
//
// The instances of an application agree by one totally ordered log, the
// control log. Each folds it (Log) and acts only on what it has read back. One
// of them, the coordinator, triggers checkpoints: every task lets a barrier
// travel through its channels, takes its snapshot when the barrier has arrived
// on all of them (Aligner), and goes on. When all instances have stored their
// part and prepared their transactions, the coordinator stores a manifest and
// writes Complete: at its offset the checkpoint is decided, and everybody
// commits. After a failure the tasks that it affects start again, as a new
// incarnation, from the last completed checkpoint, and the others go on (R26);
// records that dead incarnations wrote behind its barrier are void (Lineage).
// Tasks that only change their owner stop behind a barrier and start on the new one from there, while all others go on: the
// Complete of that checkpoint is their start (R25).
//
//	         control log (Kafka)                 repartition partitions (Kafka)
//	         │            ▲                                │
//	EvRecord │            │ DoAppend                       │ record batches
//	         ▼            │                                ▼
//	┌──────────────────────────────┐            SegmentReader ─▶ segments
//	│ Machine                      │                       │
//	│   Log          the fold      │  lineages, LogEnd     ▼
//	│   participant  every instance│ ─────────▶ Aligner ─▶ deliver/hold/drop/
//	│   coordinator  one of them   │ DoTrigger             │  skip/stop
//	└──────────────────────────────┘            Times ◀────┘ stream time
//	         │            ▲
//	 effects ▼            │ answers
//	     shell (package runtime; internal/sim in tests)
//
// One goroutine of the instance owns its Machine. Each task's goroutine owns
// that task's Aligner, Times and SegmentReader.
//
// # Duties of the shell
//
// In this order, for every event:
//
//  1. Call Step with a monotonic time, and at least every 100 ms with EvTick.
//  2. Perform the effects in order. Those that take long go to the background,
//     answer with their event, and are retried until the answer is definite.
//  3. Hand DoTrigger, DoDecided, DoStopTasks and the lineages of DoMoveTasks to
//     the tasks, and only then Machine.LogEnd (Aligner.SetLog): a task must know
//     a Trigger before it takes the barrier for an old one, and a new owner
//     before it takes its records for void.
//
// EvRecord comes in order of offset, without gaps, from the log's first offset, each fetch
// answer followed by EvLogRead. Record batches of repartition partitions are
// handed over whole, also the part below the offset that was fetched from,
// since only the first record of a batch carries the header.
//
// # Files
//
//	records.go codec.go wire.go   control-log records and their encoding
//	header.go segment.go          channel headers, segments
//	log.go log_apply.go view.go   the fold and its validity rules
//	snapshot.go state.go          trimming: the fold as bytes, and where a reader begins
//	forfeit.go                    lost output (R23)
//	owners.go log_moves.go        who owns what as which incarnation; handovers
//	machine.go                    Step: records in flight, the group
//	participant.go leave.go       tasks, acks, commits; a clean stop
//	coordinator*.go               Lead, Rollback to Start, checkpoints, tidying, moves, Snapshots
//	participant_moves.go          prefetch, Ready, a handover on an instance
//	graph.go partial.go           what a failure affects, and partial rollbacks (R26)
//	carry.go                      checkpoints while some tasks restore
//	lineage.go position.go        R6
//	aligner.go times.go mintree.go  R9, R13
//
// Invariants are numbered at the types: F (Log), M (Machine), A (Aligner), T
// (Times).
//
// # What it does not do
//
// Several undecided checkpoints and unaligned checkpoints: the formats have room
// for them, the fold voids or refuses them. It knows nothing of Kafka's client, of
// objects in the store, or of what tasks compute.
package barrier
