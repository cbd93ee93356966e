// Command crash kills real instances of a test application on real Kafka and a
// real S3 server, and checks every record of its output.
//
//	go run ./crash -duration 600s -seed 7 [-break commit-early|no-lineage|offsets-ahead]
//	go run ./crash -mode changelog -duration 600s -seed 7 [-break offsets-ahead|store-early]
//	go run ./crash -standbys 1 …
//	go run ./crash -guarantee at-least-once …
//
// # The application
//
// Input records name a group of numbers "lo-hi" and one number of it; each
// number of a group is written once. The application re-keys by group and keeps
// count, sum, minimum and maximum, writing every running value (topic
// "running"); re-keys those by a bucket of groups and counts them in tumbling
// windows, writing every update (topic "windows"): two repartition hops.
//
// # The oracle
//
// A read_committed consumer checks each record as it comes. The i-th record of
// a group must have count i. Groups with an even number have all their input in
// one partition, in order, so their i-th running value is known exactly; the
// others are spread over all partitions, and their last value must be the
// closed-form answer. The i-th record of a window must be i, and in the end its
// count is known from the input. A count that was there before is a duplicate;
// one that leaves a gap is a loss.
//
// With at-least-once records may come again, and state may have counted some of
// them twice. Repeated counts are shown, and only these fail the run: a group of
// which no running value includes every number (it has a bit for each), windows
// that count less than there is, and values that no input can lead to.
//
// # The chaos
//
// One root seed decides what happens: kill -9 of a random instance, of one that
// reaches a given phase of a checkpoint (it kills itself there, with SIGKILL),
// of the coordinator, of all; SIGSTOP longer than the session timeout and
// SIGCONT; a clean stop and start; one instance more that joins and leaves again;
// a clean stop in which the leaving instance, or one that gets its tasks, is
// killed in the middle of the handover; an outage of the S3 server; a broker that
// is stopped for a while, or killed with SIGKILL and started again. In changelog
// mode the phases are those of a commit, and there is neither coordinator nor
// store.
// In the end all is mended, and the whole output must appear.
package main
