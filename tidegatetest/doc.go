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
// The tasks: the code that runs here is the code that an App runs, from the
// choice of the next input by timestamp through steps, serdes, typed stores and
// their caches, timers and event time to batches, channels and barriers. Every
// task of every subtopology exists, one per partition: with WithPartitions(3) a
// topology has the tasks that it would have on topics of three partitions, and
// partition counts are checked as for an App. The state engine is the one in
// memory unless WithEngine says otherwise. Restart is a checkpoint with barriers
// and a restore from it. Memory of a record is overwritten after the record, so
// that a step that keeps a part of it shows.
//
// # What is not
//
// There is no broker: no fetches, transactions or failures, and nothing runs side
// by side. What is written is there at once. A topology's guarantees under
// crashes are the App's business; for a test with a broker use package embedded.
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
