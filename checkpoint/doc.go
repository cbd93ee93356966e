// Package checkpoint keeps checkpoints in shared storage: the seam to a store,
// the names of objects, the formats of parts and manifests, upload and restore
// of state files, and the decision what may be deleted.
//
// # The idea
//
// At a barrier every task's state is a folder of files, most of which (SSTs)
// never change. A checkpoint is a tree of immutable objects:
//
//	marker ──▶ manifest ──▶ part (one per instance) ──▶ state files
//	                             │                      ▲
//	                             └──▶ pack of small files│ files of earlier
//	                                                     │ checkpoints
//
// An instance uploads the files that its base, the last checkpoint completed
// before the Trigger, does not hold, writes one part that refers to new and old
// files alike, and names the part in its ack. The coordinator collects the
// parts in a manifest, stored under (life, checkpoint, term) with put-if-absent,
// and then lets the control log decide. Nothing in a store is ever a decision:
// a manifest without Complete is no checkpoint. The marker, written when all
// output is committed, makes a checkpoint restorable without the log.
//
// A name is never put twice with different bytes, because it holds life,
// checkpoint, task, incarnation and attempt. So a delayed put of a dead
// instance harms nothing, and whether an object may be deleted follows from its
// name, the control log and the retained manifests, with no clock (R30).
//
// # Invariants
//
//  1. Names: at most one content ever under one key (R15).
//  2. A reference in a part points to an object that this attempt stored or the
//     base's part references (R15); FileTable keeps it so.
//  3. Every reference has size and CRC-32C, and a restore believes neither the
//     store nor the network: ErrCorrupted names the object.
//  4. Of one (life, checkpoint, term) there is at most one manifest (R17).
//  5. A marker is there only while manifest, parts and files are: they are
//     written in the order files, part, manifest, marker, and deleted in the
//     opposite one.
//  6. PlanClean deletes nothing that a retained, undecided or not yet read
//     checkpoint needs (R30).
//  7. A state folder with a restore marker was filled completely.
//  8. A local copy of a file is used only where its object's name, size and
//     checksum are those of the reference; the checksum of what another process
//     wrote is computed.
//
// # Goroutines
//
// None outlives a call. Uploader and Restorer run transfers in parallel within
// a call, bounded over all calls. Stores may be called from any goroutine.
//
// # What it does not do
//
// It does not know the control log, Kafka or the state engine; it takes no
// snapshot, decides no checkpoint, retires none. It does not use object
// metadata, versions, lifecycle rules or clocks of a store.
package checkpoint
