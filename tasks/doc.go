// Package tasks runs tasks: one subtopology on one partition, with its inputs,
// its state and its outputs. A task is driven by a Worker, a goroutine that
// owns several tasks; nothing of a task is shared, so there are no locks on the
// path of a record.
//
// # The idea
//
// Batches come in and batches go out. A fetch goroutine leaves a batch in the
// worker's mailbox; the worker cuts it into runs that a task may take at once
// (of one channel, up to the timestamp at which another input is due), asks the
// aligner once per run, and walks the run through the operators by direct
// calls. What operators write goes into builders, one per destination
// partition; a builder that is full, or older than the linger, is handed to the
// Protocol.
//
// Which input is next follows R13: the record with the smallest timestamp, and
// only when every other input that is not idle has one queued or is read to its
// end; behind a repartition topic, when those who write it have no more, either,
// that is as early.
//
//	            Assign                     adopted            Revoke
//	(restoring, own goroutine) ─► ready ─────────────► running ─────► closed
//	                                                  │   ▲  │
//	                                  barrier aligned │   │  │ stop trigger
//	                                                  ▼   │  ▼
//	                                               snapshot  parked ─► running
//	                                                         (after an abort)
//
// # The Protocol seam
//
// How a task is made fault tolerant is behind the Protocol interface: where its
// output goes, what happens with a snapshot, who hears of failures. Barrier mode
// (package runtime) and changelog mode implement it; a task knows neither
// Kafka transactions nor checkpoint storage.
//
// # Invariants
//
//	T1  A run is processed whole or, after a failure that ends the task, its
//	    positions are never stored.
//	T2  At a barrier: caches are flushed first, then the barrier is written,
//	    then positions and state are fixed (R14); nothing is processed between.
//	    Tasks that take their snapshots together do each of the three for all of
//	    them before the next, and share the barrier (together.go).
//	T3  Behind barrier n every batch of the task is handed over with LastBarrier
//	    n, before it with an earlier one.
//	T4  After Revoke returned, nothing of the task is handed to the Protocol.
//	T5  Positions of external inputs count Kafka's own markers and aborted
//	    records that lie before the next visible record.
//
// # What it does not do
//
// It does not restore state (the Protocol does, before the task is adopted),
// does not commit, and does not decide which tasks there are.
package tasks
