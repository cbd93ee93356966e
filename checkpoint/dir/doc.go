// Package dir keeps checkpoints in a directory that all instances see: a
// shared file system, or a local one when all instances run on one machine.
//
// A Put writes a temporary file beside its target, syncs it, renames it into
// place and syncs the folder, so that an object is there whole or not at all,
// also after a power failure. PutIfAbsent makes the name with link(2), which
// fails if it exists; on a file system without hard links it creates the name
// with O_EXCL and then writes, and a crash in between leaves an object that its
// reader finds to be damaged.
//
// Temporary names begin with ".tmp-", which no key may; List leaves them out,
// and ListIncomplete shows them to the cleaner.
//
// Emptied folders are removed. A Put that finds its folder gone makes it again.
//
// The store cannot know whether another machine sees the same directory: where it
// does not, the coordinator cannot read the parts that the others acked, and says
// so.
package dir
