// Package pebblestore is the state engine on disk: one Pebble database per task,
// with the caches shared by all tasks of an instance.
//
// # The idea
//
// The database has no write-ahead log. What it holds is made durable by
// checkpoints elsewhere, so a crash costs a restore and no write pays for a log
// or an fsync. A snapshot flushes the memtable and hard-links the tables (SSTs)
// into a folder. Tables never change, so a checkpoint uploads only those that it
// has not uploaded before, and a snapshot of an unchanged engine is the previous
// one.
//
//	store "a"  ─┐  2-byte prefix each                     ┌─ snapshot 1: 1.sst 2.sst MANIFEST …
//	store "b"  ─┴────────> memtable ──flush──> *.sst ─────┤
//	                                  (compaction)        └─ snapshot 2: 1.sst 2.sst 3.sst MANIFEST …
//
// # Invariants
//
//  1. The block cache and the file cache belong to [Shared] and outlive every
//     engine: close it last.
//  2. A table's content never changes under its name within one engine life.
//     Pebble numbers tables upwards from what the manifest says, so an engine
//     opened from an older snapshot uses numbers again that a later life had
//     used, with other content. Whoever stores tables under their names elsewhere
//     adds what tells the lives apart.
//  3. Engine errors of the background (a flush that finds no space, a damaged
//     table) stay: every later call returns them. Pebble itself would repeat the
//     flush for ever and let writers wait.
//  4. Pebble never delays a write of its own accord; the engine waits, so that it
//     can stop waiting when the background has failed.
//  5. A folder in use has no seal (package state), so what a killed process left
//     behind is never opened again.
//
// # Goroutines
//
// An engine belongs to its task's goroutine, except for Metrics. Pebble flushes
// and compacts on goroutines of its own, at most one compaction per engine at a
// time and only when the gate says that it is worth an upload; they end with
// Close.
package pebblestore
