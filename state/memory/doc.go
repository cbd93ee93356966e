// Package memory is a state engine that keeps everything in memory: for tests,
// small states, and where no disk is at hand.
//
// Each store is a B-tree. A snapshot writes the stores that changed since the
// last one, each as one immutable file, and refers to the earlier files of the
// others: a store of N bytes costs N bytes of upload whenever one key of it
// changed. That is the price against package pebblestore, whose uploads follow
// the changes.
//
// Invariants:
//
//  1. A file is never changed after it was written; a changed store gets a file
//     with the next generation number.
//  2. Generation numbers go up within one engine life and start behind those of
//     the snapshot it was opened from. Two lives opened from the same snapshot
//     use the same numbers for different content.
//  3. The engine's folder holds the newest file of each store, so that the folder
//     of a snapshot may be removed at any time.
//
// An engine belongs to one goroutine and starts none. It does not bound its
// memory.
package memory
