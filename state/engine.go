package state

// File is one file of a snapshot.
type File struct {
	// Name is the file's name within the snapshot, without a folder.
	Name string
	// Path is where it lies now. It stays readable until the snapshot's folder
	// is removed, whatever the engine does.
	Path string
	// Size is in bytes.
	Size int64
	// Immutable: the content never changes under this name within one engine
	// life, so a file uploaded once can be referenced by later checkpoints.
	Immutable bool
}

// Snapshot is an engine's state at one moment, as files. All of them, put into
// one folder and sealed, can be opened again by the same kind of engine.
type Snapshot struct {
	Dir   string
	Files []File // sorted by name
	// Version counts the different contents that this engine has had at a
	// snapshot, from 1. Two snapshots of one engine life with the same Version
	// hold the same state, and a checkpoint may refer to the files of the earlier
	// one instead of uploading anything.
	Version uint64
	// Unchanged: nothing was written since the previous snapshot of this engine,
	// so Version is the same as there.
	Unchanged bool
}

// Engine is the storage of one task. Like its stores it belongs to the task's
// goroutine; only Metrics may be called from another one.
type Engine interface {
	// Store returns the store of that name, which it makes when there is none.
	// The same name gives the same KV.
	Store(name string) (KV, error)
	// Snapshot fixes the present state as files in dir, which must not exist yet
	// and must be on the engine's file system. Typed stores must be flushed
	// before. The caller removes dir when the files are no longer needed.
	Snapshot(dir string) (Snapshot, error)
	Metrics() EngineMetrics
	// Close frees everything; the folder stays, unsealed. Iterators must be
	// closed before.
	Close() error
}

// OpenFunc opens an engine over a folder: a missing or empty one for a fresh
// state, else one that holds the files of a snapshot and is sealed. The engine
// owns the folder from then on. Errors: [ErrCorrupted], [ErrDiskFull],
// [ErrUnsealed].
type OpenFunc func(dir string) (Engine, error)

// EngineMetrics are an engine's figures since it was opened; sizes in bytes.
type EngineMetrics struct {
	MemoryBytes     int64 // held by the engine itself, without shared caches
	DiskBytes       int64
	Files           int64
	Flushes         int64
	FlushedBytes    int64
	Compactions     int64
	CompactedBytes  int64
	ReadAmp         int64 // files or levels that a missing key may look into
	WriteStalls     int64
	Snapshots       int64
	SnapshotNanos   int64 // of the last snapshot
	SnapshotFlushed bool  // whether the last snapshot had something to flush
}
