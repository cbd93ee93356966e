package pebblestore

import (
	"context"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// SharedOptions are the limits of all engines of an instance together.
type SharedOptions struct {
	// BlockCache is the size of the cache of uncompressed table blocks, in bytes.
	// Memtables are counted in it. Default 64 MiB. (Kafka Streams users set a
	// shared RocksDB cache by a RocksDBConfigSetter.)
	BlockCache int64
	// OpenTables bounds the tables that are open at a time. Default 1000.
	OpenTables int
	// Logger gets Pebble's messages, at debug level except for errors. Default:
	// none.
	Logger *slog.Logger
}

// Shared is what the engines of an instance have in common. It is safe for
// concurrent use.
type Shared struct {
	blocks *pebble.Cache
	tables *pebble.FileCache
	log    *slog.Logger
	fs     vfs.FS
}

// NewShared makes the shared caches.
func NewShared(o SharedOptions) *Shared {
	if o.BlockCache <= 0 {
		o.BlockCache = 64 << 20
	}
	if o.OpenTables <= 0 {
		o.OpenTables = 1000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Shared{
		blocks: pebble.NewCache(o.BlockCache),
		tables: pebble.NewFileCache(4, o.OpenTables),
		log:    o.Logger,
		fs:     noSync{vfs.Default},
	}
}

// Close frees the caches. Every engine must be closed before.
func (s *Shared) Close() error {
	s.tables.Unref()
	s.blocks.Unref()
	return nil
}

// CacheUsed returns the bytes held by the block cache and the memtables.
func (s *Shared) CacheUsed() int64 { return s.blocks.Size() }

// logger is Pebble's logger for one engine. Pebble calls Fatalf where it cannot
// go on; by default that ends the process, here it is an error of the engine.
type logger struct {
	log  *slog.Logger
	fail func(error)
}

func (l logger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug(sprintf(format, args))
	}
}

func (l logger) Errorf(format string, args ...any) { l.log.Warn(sprintf(format, args)) }

func (l logger) Fatalf(format string, args ...any) {
	l.log.Error(sprintf(format, args))
	l.fail(fatalError(sprintf(format, args)))
}

// noSync is a file system without fsync: see the package comment.
type noSync struct{ vfs.FS }

func (fs noSync) Unwrap() vfs.FS { return fs.FS }

func (fs noSync) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return noSyncFile(fs.FS.Create(name, c))
}

func (fs noSync) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return noSyncFile(fs.FS.OpenReadWrite(name, c, opts...))
}

func (fs noSync) OpenDir(name string) (vfs.File, error) { return noSyncFile(fs.FS.OpenDir(name)) }

func (fs noSync) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return noSyncFile(fs.FS.ReuseForWrite(from, to, c))
}

func noSyncFile(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsynced{f}, nil
}

type unsynced struct{ vfs.File }

func (unsynced) Sync() error                { return nil }
func (unsynced) SyncData() error            { return nil }
func (unsynced) SyncTo(int64) (bool, error) { return false, nil }
