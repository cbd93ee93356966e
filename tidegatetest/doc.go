// Package tidegatetest runs a topology inside a test: without a broker, without
// goroutines, and without waiting (Kafka Streams' TopologyTestDriver).
//
//	driver := tidegatetest.New(t, topology)
//	in := driver.Input("words", serde.String(), serde.String())
//	out := driver.Output("counts", serde.String(), serde.Int64())
//	in.Pipe("", "tide", tidegatetest.At(1000))
//	r, ok := out.Read() // r.Key "tide", r.Value 1, r.Timestamp 1000
//
// Everything is synchronous. Pipe, AdvanceWallClock and AdvanceStreamTime return
// when all they caused is done: records went through repartition topics and all
// subtopologies behind them, timers fired, and a topic that the topology both
// writes and reads was read. What goes wrong in the topology fails the test with
// an error that names the step, its line in the program, and the record; TryPipe
// returns that error instead.
//
// # What is the same as in production
//
// Steps, serdes, typed stores and their write-back caches, timers, the clock of
// event time, partitioning, the checks of partition counts, and the state engine
// (in memory unless WithEngine says otherwise) are the code that an App runs. Every task of every subtopology exists, one per
// partition: with WithPartitions(3) a topology has the tasks that it would have
// on topics of three partitions. Restart takes a snapshot of all state and goes
// on from it, as a checkpoint and a restore do. Memory of a record is overwritten
// after the record, so that a step that keeps a part of it shows.
//
// # What is not
//
// There are no fetches, batches, barriers, transactions or failures, and nothing
// runs side by side: records are processed in the order in which they are piped,
// whereas a task with several inputs takes the smallest timestamp first of what it
// has fetched. A topology's guarantees under crashes are the App's business; for
// a test with a broker use package embedded.
//
// # Time
//
// Two clocks, both under the test's control. The wall clock begins at the epoch
// or at WithStart and moves by AdvanceWallClock only. Stream time is each task's
// own, and moves as in production: with one partition it is the largest timestamp
// so far. Behind a repartition topic it is the smallest time among the tasks that
// write it, so with several partitions a window closes when all of them passed
// its end; a partition that gets no record holds time back until it is idle,
// after 5 seconds of the driver's wall clock. AdvanceStreamTime moves all of them.
//
// A Driver belongs to the goroutine of its test.
package tidegatetest
