// Package sim tests the checkpoint protocol by simulation: the pure machines
// of packages barrier and transactions run in several simulated processes
// against a simulated control log, consumer group, broker and object store.
// Everything happens in one goroutine and follows from one seed, so a seed that
// fails fails again (docs/protocol.md, section 10).
//
// # The idea
//
// The world is a clock and a queue of events in order of time. Each request of
// a process travels for a random time, is carried out, and is answered after a
// random time; with faults on it may be lost, carried out but never answered,
// or carried out long after the sender gave it up. Processes crash at any step
// (also between two effects of one Step), stall and come back as zombies, lag
// behind in the control log, read its records twice, lose the object store or
// the transaction coordinator; in some seeds many answers to EndTxn or to
// InitProducerId get lost or come late. Source tasks re-key a
// closed-form input into repartition partitions; counting tasks read those and
// write every running count into sink partitions inside transactions. Each
// output names its input record, so the oracle knows, for every committed
// output, the only value that may stand at its place.
//
// # What is checked, after every step
//
//  1. Committed output: per sink partition and route the i-th output is the
//     i-th input record of that route, its counts are the running counts, and
//     it lies below the cut of a completed checkpoint.
//  2. When a checkpoint is marked, everything below its cut is committed.
//  3. A sink partition never shows an older incarnation after a newer one, and
//     a new one begins exactly at the cut it started from.
//  4. Group offsets never move back (but by a Restore).
//  5. What retained checkpoints need exists: no object of theirs is deleted,
//     no repartition record purged, and a restore finds everything.
//  6. Between two Starts no record of any partition is processed twice, by
//     whomever; in a sixth of the seeds instances only come and go, and there
//     nothing is processed twice at all and nothing rolls back (R25).
//  7. In half of the seeds the control log is trimmed: who begins with a Snapshot
//     has the fold of all records, byte by byte. In half of the seeds lost output
//     is given up: a Committed never hides a transaction that the broker ended.
//  8. No machine ends with an error; in the end, faults off, every input
//     record is output exactly once, checkpoints complete, a clean stop ends.
//
// # The contract of the shell
//
// The shell of the simulation (process and its files) performs effects as the
// runtime has to. What the machines may rely on, and what was assumed of them:
//
//   - One loop per instance owns Machine and Pool. An event that arises while
//     effects are performed is queued and stepped after the last effect of the
//     present Step; then, per Step, Machine.LogEnd is handed to the aligners.
//   - DoUseIDs comes first with the life: make the Pool then, step Opened and
//     Registered{IDs}. Its Register effect becomes EvWantIDs with the total
//     number of ids the pool ever asked for. The names of Machine and Pool are
//     the same by transactions.TransactionalID.
//   - DoStopTasks: forget the tasks, their fetches, uploads, repartition
//     producer and part under way, then Pool RolledBack. A Complete that the
//     log holds before the Rollback was given to the pool by the DoCommit that
//     came earlier, so RolledBack keeps exactly the handles in Keep.
//   - DoStartTasks: Pool Started{From.N}, then draw a repartition producer id
//     (retried until answered), read manifest, parts and files (retried; a
//     missing object is an error), make aligner and times, then EvTaskRunning.
//     A DoMoveTasks is the same for tasks that come, beside those that run: Pool
//     Moved instead of Started, an own producer id. Tasks that go had halted
//     behind the barrier and are dropped; all others get the new lineages before
//     the next LogEnd. What an older DoStartTasks still loads is dropped. Without tasks nothing
//     is read: the checkpoint may be retired by now. What is missing is looked
//     for again for the checkpoint timeout (the log may say soon that this start
//     is over), then it is EvTaskFailed.
//   - DoTrigger: Aligner.Trigger on each task; those that return true snapshot
//     at once. A task that is not running yet cannot see one (R24 step 6).
//   - At a snapshot, in this order: flush caches and buffered output (Pool
//     Write, repartition batches), Pool TaskPassed and the barrier into every
//     partition of every repartition topic the task's subtopology writes, copy
//     of state, positions and times; Aligner.Snapshotted; EvPassed; upload.
//   - EvPrepared is sent once, when all tasks passed, Pool said Prepared, every
//     repartition batch handed over up to the last barrier is acknowledged, and
//     files and part are stored; Pool.Ack is called at that very moment.
//   - A record of the control log may come again (a fetch that was given up and
//     repeated, a reader that begins anew before where it stood), none is left
//     out. DoPrefetch may name tasks that the instance shall only follow.
//   - Uploads are tried a few times under new names; then EvDeclined.
//   - DoDecided: Aligner.Decided on every task, Pool Aborted if not completed.
//     With Stop or Halt, tasks halted behind the barrier go on only after an
//     abort, or when DoDecided names them in Stay.
//   - DoCommit for the own instance is Pool Completed{N, handles}; for another
//     a Finisher. WriteCommitted becomes EvCommitted. ReadLog: ask for the end
//     of the log, remember it, answer LogRead{Committed: false}; should Lost
//     follow, EvCommitLost carries that end and the machine judges (R23).
//   - DoRelease is Pool CommittedRead. A decided commit goes on through a
//     rollback of the tasks.
//   - DoFence, DoCheckOffsets, DoWriteOffsets, DoLookForLoss, DoStoreZero,
//     DoStoreManifest, DoMark, DoClean are retried until a definite answer;
//     EvManifestFailed only after several tries. DoPurge is tried once, DoTrim a few
//     times. A fetch of the control log below its start is EvLogTrimmed.
//   - DoCheckOffsets replaces an earlier one, whose answer is dropped. Its
//     answer and that of DoLookForLoss carry the end of the control log, asked
//     for after the look: a stalled coordinator must not judge by an old log.
//     DoWriteOffsets commits as a member, with the member id and generation of
//     the newest join, and is repeated only while Machine.Leading: with
//     generation −1 a coordinator that stalled and was replaced would move the
//     offsets back. (That would harm the mirror only, R28 allows it.)
//   - DoExit, DoFatal, DoBecomeNew: Pool Shutdown (not RolledBack: a listed
//     transaction may be decided and outlives the instance), and some time until
//     Pool.Idle.
//   - DoBecomeNew: drop machine, pool and every answer still under way, leave
//     the group, begin again with a new number; exit instead if a clean stop
//     was asked for.
//   - A fetch below the log start of a repartition partition is EvTaskFailed,
//     not the end of the process: the reader may be a zombie that does not know
//     yet. A restore that finds a position below the start moves it up (R29).
//   - A whole record batch goes into the SegmentReader even where the position
//     is in its middle: records inherit the header of the first. The aligner
//     cuts off what was taken.
//
// # What it does not do
//
// It tests neither codecs of Kafka nor files nor goroutines: the runtime's
// tests and the crash test do.
package sim
