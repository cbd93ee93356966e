package memory

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/state"
)

// Engine is a [state.Engine] in memory.
type Engine struct {
	dir        string
	stores     []*store
	byName     map[string]*store
	generation uint64 // of the newest file
	version    uint64
	views      state.Views

	memory, disk, files, flushes, flushed, snapshots, nanos atomic.Int64
	hadChanges                                              atomic.Bool
}

var _ state.OpenFunc = func(dir string) (state.Engine, error) { return Open(dir) }

// Open returns an engine over a folder: a missing or empty one for a fresh
// state, else the sealed files of a snapshot, which are read into memory.
func Open(dir string) (*Engine, error) {
	fresh, err := state.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	e := &Engine{dir: dir, byName: make(map[string]*store)}
	if fresh {
		return e, nil
	}
	if err := e.read(); err != nil {
		return nil, err
	}
	e.count()
	return e, nil
}

// read loads the folder's files.
func (e *Engine) read() error {
	entries, err := os.ReadDir(e.dir)
	if err != nil {
		return fmt.Errorf("open state folder: %w", err)
	}
	if !slices.ContainsFunc(entries, func(entry os.DirEntry) bool { _, _, ok := parseName(entry.Name()); return ok }) && len(entries) > 0 {
		return state.OtherEngine(e.dir, "memory")
	}
	for _, entry := range entries {
		path := filepath.Join(e.dir, entry.Name())
		index, generation, ok := parseName(entry.Name())
		if !ok {
			return state.Corrupted(e.dir, fmt.Errorf("%s is no file of a memory store", entry.Name()))
		}
		// Files come in the order of their store's number, which is also the
		// store's place.
		if index != len(e.stores) {
			return state.Corrupted(e.dir, fmt.Errorf("%s found where a file of store %d was expected", entry.Name(), len(e.stores)))
		}
		s, err := readStore(path)
		if err != nil {
			return state.Corrupted(e.dir, fmt.Errorf("read %s: %w", entry.Name(), err))
		}
		info, err := entry.Info()
		if err != nil {
			return fmt.Errorf("open state folder: %w", err)
		}
		if e.byName[s.name] != nil {
			return state.Corrupted(e.dir, fmt.Errorf("%s is a second file of store %q", entry.Name(), s.name))
		}
		s.index, s.file, s.size = index, entry.Name(), info.Size()
		e.stores, e.byName[s.name] = append(e.stores, s), s
		e.generation = max(e.generation, generation)
	}
	return nil
}

// Store returns the store of that name.
func (e *Engine) Store(name string) (state.KV, error) {
	if s := e.byName[name]; s != nil {
		return s, nil
	}
	s := newStore(name)
	// A new store is written even while it is empty: numbers have no gaps.
	s.index, s.changed = len(e.stores), true
	e.stores, e.byName[name] = append(e.stores, s), s
	return s, nil
}

// Snapshot writes the changed stores and links the newest files of all into dir.
func (e *Engine) Snapshot(dir string) (state.Snapshot, error) {
	begin := time.Now()
	changed := false
	for _, s := range e.stores {
		if !s.changed {
			continue
		}
		if err := e.save(s); err != nil {
			return state.Snapshot{}, state.Wrap(e.dir, fmt.Errorf("snapshot of store %q: %w", s.name, err))
		}
		changed = true
	}
	if changed || e.version == 0 {
		e.version++
	}
	snap := state.Snapshot{Dir: dir, Version: e.version, Unchanged: !changed && e.snapshots.Load() > 0}
	if err := e.link(&snap); err != nil {
		_ = os.RemoveAll(dir)
		return state.Snapshot{}, state.Wrap(dir, fmt.Errorf("snapshot of memory stores: %w", err))
	}
	e.count()
	e.snapshots.Add(1)
	e.nanos.Store(int64(time.Since(begin)))
	e.hadChanges.Store(changed)
	return snap, nil
}

// save writes a store's next file.
func (e *Engine) save(s *store) error {
	name := fileName(s.index, e.generation+1)
	size, err := writeStore(filepath.Join(e.dir, name), s)
	if err != nil {
		return err
	}
	e.generation++
	old := s.file
	s.file, s.size, s.changed = name, size, false
	e.flushes.Add(1)
	e.flushed.Add(size)
	if old == "" {
		return nil
	}
	return os.Remove(filepath.Join(e.dir, old))
}

func (e *Engine) link(snap *state.Snapshot) error {
	if err := os.MkdirAll(filepath.Dir(snap.Dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(snap.Dir, 0o700); err != nil {
		return err
	}
	for _, s := range e.stores {
		to := filepath.Join(snap.Dir, s.file)
		if err := state.LinkOrCopy(filepath.Join(e.dir, s.file), to, true); err != nil {
			return err
		}
		snap.Files = append(snap.Files, state.File{Name: s.file, Path: to, Size: s.size, Immutable: true})
	}
	return nil
}

// count renews the figures that other goroutines may read.
func (e *Engine) count() {
	var memory, disk int64
	for _, s := range e.stores {
		memory += s.bytes + perEntry*int64(s.tree.Len())
		disk += s.size
	}
	e.memory.Store(memory)
	e.disk.Store(disk)
	e.files.Store(int64(len(e.stores)))
}

// Metrics returns the figures as of the last snapshot.
func (e *Engine) Metrics() state.EngineMetrics {
	return state.EngineMetrics{
		MemoryBytes: e.memory.Load(), DiskBytes: e.disk.Load(), Files: e.files.Load(),
		Flushes: e.flushes.Load(), FlushedBytes: e.flushed.Load(),
		Snapshots: e.snapshots.Load(), SnapshotNanos: e.nanos.Load(), SnapshotFlushed: e.hadChanges.Load(),
	}
}

// Close frees the memory, after the last reader of a view has ended.
func (e *Engine) Close() error {
	e.stores, e.byName = nil, nil
	return e.views.Close()
}
