// Command bigstate measures incremental checkpoints of a large state without
// Kafka: the engine on disk, the upload and the restore, as the runtime drives
// them, on one directory store.
//
// So many keys of 8 bytes are spread over the engines of so many tasks and
// written once. Then, round after round, a share of the keys, drawn uniformly, is
// changed over the interval, a snapshot is taken and uploaded. Per round it
// prints the bytes uploaded as a share of the bytes of a full checkpoint, how
// long the snapshot (in which a task stands still) and the upload took, the time
// of a random read that no cache of rows answers, and the processor seconds of
// the whole round, compactions included. At the end one task after another is
// restored from the store, and read.
//
//	go run ./bigstate -keys 1000000 -rounds 40 -interval 500ms
//	go run ./bigstate -keys 10000000 -tune l0=4,base=64MiB,table=8MiB
//
// The first rounds warm up: right behind the fill the levels are not what they
// become. The shares of the rounds in a row matter, not those of single ones:
// most upload little more than what changed, and those after a compaction of a
// large level upload much.
package main
