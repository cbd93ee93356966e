package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tidegate/tidegate/state"
)

// layoutVersion is the version of how stores lie in a database.
const layoutVersion = 1

// prefixSize is the length of the store number before every key. Number 0 holds
// the layout version and the numbers of the stores.
const prefixSize = 2

const maxStores = 1<<16 - 2

// Engine is a [state.Engine] on one Pebble database.
type Engine struct {
	dir      string
	db       *pebble.DB
	gate     *gate
	memtable int64

	stores map[string]*store
	ids    map[string]uint16
	lastID uint16

	views     state.Views
	changed   bool // since the last snapshot
	version   uint64
	last      state.Snapshot
	unchecked int64 // bytes written since admit looked
	scans     int   // since the last snapshot

	failure atomic.Pointer[error]
	failed  chan struct{} // closed with the first failure
	events  chan struct{} // a flush or compaction ended

	mu     sync.RWMutex // Metrics against Close
	closed bool

	stalls, snapshots, nanos atomic.Int64
	flushed                  atomic.Bool
}

var _ state.Engine = (*Engine)(nil)

// OpenFunc returns Open with these settings, as the runtime wants it.
func (s *Shared) OpenFunc(o Options) state.OpenFunc {
	return func(dir string) (state.Engine, error) {
		e, err := Open(s, dir, o)
		if err != nil {
			return nil, err
		}
		return e, nil
	}
}

// Open opens an engine over a folder: a missing or empty one for a fresh state,
// else one with the sealed files of a snapshot. Errors: [state.ErrCorrupted],
// [state.ErrUnsealed], [state.ErrDiskFull], [state.ErrLocked].
func Open(s *Shared, dir string, o Options) (*Engine, error) {
	fresh, err := openFolder(dir, o.Kept)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		dir: dir, stores: make(map[string]*store), ids: make(map[string]uint16),
		failed: make(chan struct{}), events: make(chan struct{}, 1), gate: newGate(),
	}
	opts := s.options(e, o)
	// A folder that was filled from a snapshot holds a database.
	opts.ErrorIfExists = fresh
	if !fresh {
		if err := ours(dir, opts); err != nil {
			return nil, err
		}
	}
	e.db, err = pebble.Open(dir, opts)
	if err != nil {
		return nil, e.openError(err)
	}
	if err := e.readStores(); err != nil {
		_ = e.db.Close()
		return nil, err
	}
	e.gate.set(worthwhile(e.db.Metrics(), 0))
	return e, nil
}

// openFolder takes a folder over and reports whether it is empty.
func openFolder(dir string, kept bool) (fresh bool, err error) {
	if !kept {
		return state.OpenFolder(dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, state.Wrap(dir, fmt.Errorf("make state folder: %w", err))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("open state folder: %w", err)
	}
	return len(entries) == 0, nil
}

// ours refuses files that are no database: Pebble would make an empty one beside
// them, and the state would be lost without a word.
func ours(dir string, opts *pebble.Options) error {
	desc, err := pebble.Peek(dir, opts.FS)
	if err != nil || desc.Exists {
		return nil //nolint:nilerr // Open meets the same error and judges it
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		return state.OtherEngine(dir, "Pebble")
	}
	return err
}

// openError tells a damaged folder from an unlucky moment.
func (e *Engine) openError(err error) error {
	wrapped := state.Wrap(e.dir, fmt.Errorf("open database: %w", err))
	switch {
	case errors.Is(wrapped, state.ErrDiskFull):
		return wrapped
	case strings.Contains(err.Error(), "lock held"), errors.Is(err, errAgain):
		return &state.FolderError{Kind: state.ErrLocked, Dir: e.dir, Detail: err,
			Help: "another process, or another task of this one, has it open"}
	case errors.Is(err, os.ErrPermission), errors.Is(err, errTooManyFiles):
		return fmt.Errorf("open state folder %s: %w", e.dir, err)
	}
	return state.Corrupted(e.dir, err)
}

// readStores learns the stores' numbers.
func (e *Engine) readStores() error {
	it, err := e.db.NewIter(&pebble.IterOptions{UpperBound: []byte{0, 1}})
	if err != nil {
		return e.wrap("read store numbers", err)
	}
	n, layout := 0, -1
	for ok := it.First(); ok; ok = it.Next() {
		n++
		key, value := it.Key(), it.Value()
		if len(key) == prefixSize && len(value) == 1 {
			layout = int(value[0])
			continue
		}
		if len(key) < prefixSize || len(value) != prefixSize {
			_ = it.Close()
			return state.Corrupted(e.dir, fmt.Errorf("entry %x of the store numbers has %d bytes", key, len(value)))
		}
		id := binary.BigEndian.Uint16(value)
		e.ids[string(key[prefixSize:])] = id
		e.lastID = max(e.lastID, id)
	}
	if err := it.Close(); err != nil {
		return e.wrap("read store numbers", err)
	}
	switch {
	case layout == layoutVersion:
		return nil
	case layout >= 0:
		return fmt.Errorf("state folder %s has layout version %d, this program reads version %d", e.dir, layout, layoutVersion)
	case n > 0:
		return state.Corrupted(e.dir, errors.New("the layout version is missing"))
	}
	e.changed = true
	return e.wrap("write the layout version", e.db.Set([]byte{0, 0}, []byte{layoutVersion}, pebble.NoSync))
}

// Store returns the store of that name, which must not be empty.
func (e *Engine) Store(name string) (state.KV, error) {
	if s := e.stores[name]; s != nil {
		return s, nil
	}
	if err := e.err(); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, errors.New("a store needs a name")
	}
	id, ok := e.ids[name]
	if !ok {
		if e.lastID == maxStores {
			return nil, fmt.Errorf("state folder %s holds %d stores, which is the most", e.dir, maxStores)
		}
		id = e.lastID + 1
		key := append([]byte{0, 0}, name...)
		if err := e.db.Set(key, binary.BigEndian.AppendUint16(nil, id), pebble.NoSync); err != nil {
			return nil, e.wrap("write a store number", err)
		}
		e.changed, e.lastID, e.ids[name] = true, id, id
	}
	s := newStore(e, id)
	e.stores[name] = s
	return s, nil
}

// Snapshot flushes what is in memory and links the database's files into dir.
// Where nothing was written since the last snapshot and its folder is still
// there, its very files are linked.
func (e *Engine) Snapshot(dir string) (state.Snapshot, error) {
	begin := time.Now()
	if err := e.err(); err != nil {
		return state.Snapshot{}, err
	}
	changed := e.changed || e.version == 0
	if changed {
		if err := e.flush(); err != nil {
			return state.Snapshot{}, err
		}
		e.gate.set(worthwhile(e.db.Metrics(), e.scans))
		e.changed, e.scans = false, 0
		e.version++
	}
	snap := state.Snapshot{Dir: dir, Version: e.version, Unchanged: !changed}
	ok := false
	var err error
	if !changed {
		ok, err = e.repeat(dir)
	}
	if err == nil && !ok {
		err = e.checkpoint(dir)
	}
	if err == nil {
		snap.Files, err = state.ListFiles(dir, isTable)
	}
	if err != nil {
		return state.Snapshot{}, e.wrap("snapshot", err)
	}
	e.last = snap
	e.snapshots.Add(1)
	e.nanos.Store(int64(time.Since(begin)))
	e.flushed.Store(changed)
	return snap, nil
}

// checkpoint makes dir a copy of the database.
func (e *Engine) checkpoint(dir string) error {
	if err := e.db.Checkpoint(dir); err != nil {
		return err
	}
	// Pebble makes a log, and copies it, even where nothing is logged.
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if err == nil && strings.HasSuffix(entry.Name(), ".log") {
			err = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
	return err
}

// Flush waits until everything written so far is in files, from which Open with
// Options.Kept goes on.
func (e *Engine) Flush() error {
	if err := e.err(); err != nil {
		return err
	}
	return e.flush()
}

// flush waits until every memtable is in a table.
func (e *Engine) flush() error {
	done, err := e.db.AsyncFlush()
	if err != nil {
		return e.wrap("flush", err)
	}
	select {
	case <-done:
		return e.err()
	case <-e.failed:
		return e.err()
	}
}

// repeat makes dir the same as the last snapshot's folder. It reports false
// when that is gone.
func (e *Engine) repeat(dir string) (bool, error) {
	if len(e.last.Files) == 0 {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return false, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return false, err
	}
	for _, f := range e.last.Files {
		err := state.LinkOrCopy(f.Path, filepath.Join(dir, f.Name), true)
		if errors.Is(err, os.ErrNotExist) {
			return false, os.RemoveAll(dir)
		}
		if err != nil {
			_ = os.RemoveAll(dir)
			return false, err
		}
	}
	return true, nil
}

// isTable says which of a database's files never change under their name.
func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// Close stops the background and closes the database. What was not part of a
// snapshot is lost.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	for _, s := range e.stores {
		s.batch.close()
	}
	views := e.views.Close() // the database does not close over them
	if err := errors.Join(views, e.db.Close()); err != nil && e.failure.Load() == nil {
		return fmt.Errorf("close state folder %s: %w", e.dir, err)
	}
	return nil
}

// wrote counts bytes that went into the memtable and waits where the background
// has fallen far behind.
func (e *Engine) wrote(n int) error {
	e.changed = true
	e.unchecked += int64(n)
	if e.unchecked < e.memtable/4 {
		return e.err()
	}
	e.unchecked = 0
	return e.admit()
}

func (e *Engine) admit() error {
	for waited := false; ; waited = true {
		if err := e.err(); err != nil {
			return err
		}
		m := e.db.Metrics()
		e.gate.set(worthwhile(m, e.scans))
		if m.MemTable.Size <= maxMemtables*uint64(e.memtable) && m.Levels[0].Sublevels <= waitAt {
			return nil
		}
		if !waited {
			e.stalls.Add(1)
		}
		select {
		case <-e.events:
		case <-e.failed:
		}
	}
}

// err returns the failure of the background, if there was one.
func (e *Engine) err() error {
	if p := e.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// setFailed is called by Pebble's goroutines, with Pebble's locks held.
func (e *Engine) setFailed(err error) {
	err = e.wrap("background work", err)
	if e.failure.CompareAndSwap(nil, &err) {
		close(e.failed)
	}
}

// wrap names the folder and gives an error its kind.
func (e *Engine) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	var known *state.FolderError
	if errors.As(err, &known) {
		return err
	}
	if pebble.IsCorruptionError(err) {
		return state.Corrupted(e.dir, fmt.Errorf("%s: %w", what, err))
	}
	err = fmt.Errorf("%s: %w", what, err)
	if w := state.Wrap(e.dir, err); errors.Is(w, state.ErrDiskFull) {
		return w
	}
	return fmt.Errorf("state folder %s: %w", e.dir, err)
}

func (e *Engine) listener() *pebble.EventListener {
	wake := func() {
		select {
		case e.events <- struct{}{}:
		default:
		}
	}
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if !errors.Is(err, pebble.ErrCancelledCompaction) && !errors.Is(err, context.Canceled) && !errors.Is(err, pebble.ErrClosed) {
				e.setFailed(err)
			}
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			e.setFailed(state.Corrupted(e.dir, fmt.Errorf("%s: %w", i.Path, i.Details)))
		},
		FlushEnd:      func(pebble.FlushInfo) { wake() },
		CompactionEnd: func(pebble.CompactionInfo) { wake() },
	}
}

// Metrics may be called from any goroutine.
func (e *Engine) Metrics() state.EngineMetrics {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return state.EngineMetrics{}
	}
	m := e.db.Metrics()
	total := m.Total()
	out := state.EngineMetrics{
		MemoryBytes: int64(m.MemTable.Size), DiskBytes: int64(m.DiskSpaceUsage()),
		Files: total.TablesCount, Flushes: m.Flush.Count,
		FlushedBytes: int64(m.Levels[0].TableBytesFlushed), Compactions: m.Compact.Count,
		CompactedBytes: int64(total.TableBytesCompacted), ReadAmp: int64(m.ReadAmp()),
		WriteStalls: e.stalls.Load(), Snapshots: e.snapshots.Load(),
		SnapshotNanos: e.nanos.Load(), SnapshotFlushed: e.flushed.Load(),
	}
	return out
}
