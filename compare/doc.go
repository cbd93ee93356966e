// Command compare measures tidegate's two modes against each other, against
// Kafka Streams and Flink, and against the floor, on one broker in one run, and
// checks every output record. README.md says what is measured and how.
//
// A step is one system at one workload: a rate on an input that is there
// (runner.go), with traffic.go watching what it writes to the broker; a latency
// under a load that comes by the clock; a recovery after a kill (recovery.go), a
// start without local state (restore.go), or checkpoints in a row
// (checkpointsizes.go). Systems are processes: children of this program, or Java
// programs built from peers/ (systems.go). Flags are in settings.go, what sweeps
// vary in sweep.go. The report is package report's.
package main
