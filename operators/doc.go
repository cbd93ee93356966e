// Package operators is the runtime of the DSL's steps: typed generic functions
// that call each other directly.
//
// # The idea
//
// Package topology holds the graph with one opaque [Factory] per node. When a
// task starts, [Instantiate] builds its subtopology from the sinks up: a
// factory gets the functions of its children and returns its own. What comes
// out is one [SourceFunc] per input topic; a record runs down the graph as
// plain nested calls, without a channel, a goroutine, an interface conversion
// or an allocation of the library:
//
//	source(raw) ─▶ Next[K,V] ─▶ Next[K2,V] ─▶ Output.Append
//
// Streams carry (key, value, [record.Null]); tables carry ([Change]). An edge
// is of type [Next] or [NextChange]; the types on both ends agree because the
// DSL's methods are typed, so the assertions made while building cannot fail
// for a topology that the DSL described.
//
// # Failures
//
// An error is one of two things. The record's fault (it cannot be decoded or
// encoded, a user function failed, the output refuses it) becomes a
// [RecordError] and goes to [Env.Fail] at the step where it happened: nil means
// that this step drops the record, and branches beside it go on. Anything else
// (a store, the network) is returned to the task and is no record's fault.
// Panics are not caught step by step: the task has one deferred recover around
// its walk over a batch and hands the value to [Graph.RecoverError], which
// knows the step that was running.
//
// # Invariants
//
//  1. A graph belongs to one goroutine, that of the task.
//  2. No step reads a clock. Time is [Context.StreamTime] and the argument of
//     [Graph.Punctuate] and [Graph.PunctuateWallClock].
//  3. After a step returned, timestamp and headers of the context may be
//     anything; who calls twice restores them in between.
//  4. What a store keeps never aliases a fetch buffer.
//  5. A failed aggregator leaves the stored aggregate as it was, or the error
//     is marked Fatal and cannot be skipped.
//  6. What a step remembers from one record to the next is in its stores, or is
//     found again from them when the task starts.
//
// # What it does not do
//
// It does not fetch, produce, open engines, take snapshots or keep stream time:
// that is the task's work, through [Env].
package operators
