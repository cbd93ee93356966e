// Package harness runs a whole topology in process, synchronously and without a
// broker, with the tasks of production (package tasks). It is for tests;
// package tidegatetest is its face for users.
//
// # The idea
//
// A partition is a list of records in memory. Every task of every subtopology
// exists, one per partition, owned by a worker without a goroutine
// (tasks.Manual). Who pipes a record appends it to its partition; Run then gives
// each task in turn what is new in its partitions, until there is nothing new.
// What a task writes comes back through the Protocol seam as the batches that a
// broker would get, with channel headers, time records and barriers, and is
// appended to the partition that it is for.
//
//	Queue ──► partition ──► task ──► Protocol.Send ──┬─► partition ──► task …
//	              ▲           │ snapshot             └─► output, for Take
//	              │           ▼
//	              └── Restart: positions, state, times and timers of a barrier
//
// Restart is a checkpoint and a restore: the tasks without repartitioned inputs
// are triggered, barriers travel behind the data, every task aligns its channels
// and snapshots, and a later incarnation starts from that.
//
// # Invariants
//
//	H1  The order in which tasks have their turns is fixed: by task id, so that
//	    what is up the stream comes first and a task downstream finds all of it
//	    when it chooses the smallest timestamp. Same input, same output.
//	H2  After Run nothing is under way: every record is processed to its last
//	    consequence, and every reader was told its writers' stream times.
//	H3  Time is the test's: no task looks at the machine's clock.
//	H4  The memory of a record is overwritten when nothing of it is under way, so
//	    that a step which kept a part of it shows. Nobody else gets it again.
//
// # What it does not do
//
// There are no transactions and no failures of brokers: output is visible at
// once. Everything belongs to the goroutine of the test.
package harness
