// Package state holds what a task remembers: byte-level stores over one engine
// per task, a write-back cache of decoded values above them, and the folders
// they live in.
//
// # The idea
//
// A task owns one [Engine] (package memory or pebblestore) with named byte
// stores ([KV]) in it. Operators never see bytes: they use a [KVStore] or
// another typed store (windows, sessions, versions, lists), most of which keep decoded values in the task's [Cache]. A Get that
// hits costs the serialisation of the key into a scratch buffer and one map
// lookup; a Put marks the entry dirty and writes nothing. Dirty entries reach
// the engine when the task flushes at a barrier (or commit), when the cache
// runs over its budget, and before a scan. Then Engine.Snapshot fixes the
// engine's state as a folder of files which can be uploaded while processing
// goes on.
//
//	record ──> operator ──> KVStore ──(miss, flush, eviction)──> KV ──> Engine
//	                          │                                          │
//	                        Cache (decoded values, byte budget)      Snapshot(dir)
//
// # Life of a cache entry
//
//	         Get miss                Put, Delete
//	(none) ───────────> clean ───────────────────> dirty
//	   │                  ^  │ evicted               │ │
//	   │                  │  └──────> (none) <───────┘ │ window expired
//	   │                  └──────────────────────────  │ Flush, scan, eviction
//	   └────────────────── Put, Delete ───────────────>┘   of any dirty entry
//
// # Invariants
//
//  1. A store and its cache belong to one goroutine. Nothing here locks.
//
//  2. After Flush returned nil, the KV holds exactly what Get would answer.
//
//  3. Entries are written in the order of their keys by a flush, and in the order
//     in which they became dirty by an eviction, never in map order: two runs over
//     the same records make the same writes.
//
//  4. The value that Get returned is the cached one. The owner may change it and
//     must then Put it, also when nothing but its content changed; in between the
//     entry may have been evicted, which loses nothing, because Put brings the
//     value along. A value changed without Put may or may not be stored.
//
//  5. A value from GetOld or PutWithOld is decoded anew and shared with nobody.
//
//  6. A folder is usable exactly when it has a seal (see [WriteSeal]): the seal is
//     written last, and removed before an engine writes into the folder.
//
//  7. A File marked Immutable keeps its content under its name for one engine's
//     life. It does not beyond: an engine opened from an older snapshot uses the
//     numbers again, with other content. Whoever uploads must put something that
//     is unique per engine life into the object's name.
//
//  8. A View shows the KVs as they were at one moment. It is the only thing here
//     that other goroutines may use, and an engine is not closed under a reader.
//
//  9. What a store hides because it is too old does not depend on whether it was
//     dropped already, unless the caller asks for what is left.
//
// # What it does not do
//
// It knows nothing of checkpoints, uploads, Kafka or time: window stores expire
// when told to. It does not survive a crash by itself: local state is restored
// from a checkpoint or changelog, so nothing here pays for an fsync.
package state
