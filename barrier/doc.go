// Package barrier is the checkpoint protocol as pure state machines: the
// control log and its fold, the participant and coordinator of each instance,
// and what a task does with barriers, lineages and times of its input
// channels. It performs no I/O, reads no clock and starts no goroutine.
package barrier
