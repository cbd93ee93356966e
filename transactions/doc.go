// Package transactions keeps the Kafka transactions of one instance: which
// output goes into which transaction, when a transaction is prepared, which
// ones an Ack lists, which ones a decision commits, and what a lost one means.
// It implements R18 to R23 of docs/protocol.md.
//
// # The idea
//
// Output between two barriers goes into one transaction for each group of tasks:
// those of one subtopology, which roll back together (R26, ADR 0013). A checkpoint may only
// be decided when that output is safe, and must be committed once it is
// decided, whoever lives: so a transaction is first prepared (everything
// written and acknowledged, offsets added, nothing further written, ever), its
// handle is listed in the Ack, and only a Complete that is read from the
// control log ends it. Tasks of one instance pass a barrier at different
// moments. A task that passed writes into the next transaction while its
// siblings still write into the earlier one; a transaction is therefore named
// by the last barrier that its writers passed, and it is prepared at the first
// barrier by which all of them have gone on. A handover (Moved, R25) changes which
// tasks those are, at a checkpoint that all of them passed; what they wrote before
// it stays this instance's to commit.
//
// Kafka gives one handle (transactional id, producer id, producer epoch) to
// every transaction of an id until the next InitProducerId. A delayed EndTxn
// of an old transaction would then end a newer one. So every transaction here
// has its own InitProducerId, sent only after the previous transaction on that
// id ended for certain.
//
// # A transaction
//
//	          Write, or offsets due        AddPartitions / AddOffsets sent
//	(none) ──────────────► waiting ──────────────► open
//	                       for an id                │ every task passed on
//	                                                ▼
//	     broken ◄──── refused ──── open, closing ─ closed
//	       │                                        │ all acknowledged, offsets added
//	       │ Rollback                               ▼
//	       ▼              Rollback               prepared ─ listed in Acks
//	    aborting ◄────────────────────────────────  │ Complete
//	       │ definite answer                        ▼
//	       ▼                                     decided ─ EndTxn(commit), in order
//	     ended ◄──────────── Committed read back ───┘
//
// # A transactional id
//
//	registering ─► idle ─► initialising ─► ready ─► used ─► idle …
//	                          │ no definite answer   │ fenced
//	                          └──────► dead ◄────────┘
//
// # Invariants
//
//  1. A batch is sent in the transaction of the last barrier its task passed.
//  2. A task's first batch for a partition in a transaction is sent only when
//     none of its batches for that partition in an earlier one is in doubt.
//  3. Prepared is for ever: no effect of this package writes into a prepared
//     transaction.
//  4. Only a Complete commits, only a Rollback or a Shutdown aborts; what was
//     ever listed is not aborted by a Shutdown.
//  5. No two transactions have the same handle.
//  6. Offsets of a checkpoint are never sent after those of a later one.
//  7. The machine is deterministic: the same events give the same effects.
//
// # Who does what
//
// Pool and Finisher are pure: Step(event) returns effects; they have no clock,
// no I/O and no goroutine. The goroutine of the instance's protocol loop owns
// them. Executor performs the request effects, each in a goroutine of its own
// that ends with the request, and posts the answer back to the loop. Writing
// batches to brokers is not done here: the Send effect names the batch, and
// the runtime's batch writer sends it.
//
// # What it does not do
//
// It does not write or read the control log, decide checkpoints, or know
// Kafka's client: the runtime fills Client.
package transactions
