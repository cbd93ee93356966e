package checkpoint

import (
	"sync"

	"github.com/tidegate/tidegate/internal/ids"
)

// FileTable remembers, for one life of one task's state engine, which object
// holds which immutable local file, by checkpoint. A new engine life (a
// restore, an opened folder) needs a new table: local names may be given again
// to other bytes (R15).
//
// The schedule it prevents: checkpoint 1 holds 1.sst; checkpoint 2 uploads
// 2.sst and dies; the task is restored from 1 and its engine writes a
// different 2.sst. The new table holds only what came from checkpoint 1, so
// checkpoint 3 uploads its own 2.sst, under another object name.
//
// Invariants:
//  1. A file is found only in the set of the checkpoint that is the base, and
//     only once that checkpoint is known to be completed. What an aborted or
//     undecided checkpoint uploaded is never referenced by another: it may be
//     deleted as soon as that checkpoint is decided (R30).
//  2. Local name, size and life must agree.
//
// A FileTable may be used from several goroutines.
type FileTable struct {
	mu   sync.Mutex
	sets map[ids.CheckpointID]*fileSet
}

type fileSet struct {
	files     map[string]FileRef
	all       []FileRef
	completed bool
}

// NewFileTable returns an empty table.
func NewFileTable() *FileTable { return &FileTable{sets: map[ids.CheckpointID]*fileSet{}} }

// Restored notes that the engine's folder was filled from checkpoint n.
func (t *FileTable) Restored(n ids.CheckpointID, files []FileRef) {
	t.put(n, files)
	t.Completed(n, n)
}

// Completed notes that checkpoint n completed, and forgets what is below
// oldestBase: the base of the oldest checkpoint that this task may still
// upload (n itself, unless others are undecided).
func (t *FileTable) Completed(n, oldestBase ids.CheckpointID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sets[n]; s != nil {
		s.completed = true
	}
	for id := range t.sets {
		if id < oldestBase {
			delete(t.sets, id)
		}
	}
}

// Aborted forgets checkpoint n.
func (t *FileTable) Aborted(n ids.CheckpointID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sets[n]; s != nil && !s.completed {
		delete(t.sets, n)
	}
}

func (t *FileTable) put(n ids.CheckpointID, files []FileRef) {
	if t == nil {
		return
	}
	s := &fileSet{files: make(map[string]FileRef, len(files)), all: files}
	for _, f := range files {
		if f.Immutable {
			s.files[f.Name] = f
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sets[n] = s
}

// base returns the completed checkpoint's set, or nil. Sets are not changed
// after put but for the completed flag.
func (t *FileTable) base(n ids.CheckpointID) *fileSet {
	if t == nil || n == ids.NoCheckpoint {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sets[n]; s != nil && s.completed {
		return s
	}
	return nil
}
