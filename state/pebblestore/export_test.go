package pebblestore

import "github.com/cockroachdb/pebble/v2/vfs"

// SetFS puts a file system below every engine that is opened later.
func (s *Shared) SetFS(wrap func(vfs.FS) vfs.FS) { s.fs = wrap(s.fs) }
