package pebblestore

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

// Options are the settings of one engine.
type Options struct {
	// Memtable is the largest size of a memtable, in bytes. It starts at 256 KiB
	// and doubles while memtables fill up between snapshots, so that many small
	// tasks stay small. Default 8 MiB.
	Memtable int64
	// Kept opens a folder as its last user left it, even if that was killed: the
	// state then is that of some flush, with everything written before it and
	// nothing after. Without it only a sealed folder is opened. The caller makes
	// sure that the machine was not started anew since (state.BootID).
	Kept bool
	// Tune changes Pebble's options after all others; for tests and experts. It
	// must leave the caches, the file system and the write-ahead log alone.
	Tune func(*pebble.Options)
}

const (
	minMemtable     = 1 << 20
	defaultMemtable = 8 << 20

	// formatVersion is fixed so that a newer Pebble does not change what is
	// stored by itself; see docs/format/state.md.
	formatVersion = pebble.FormatTableFormatV6

	blockSize     = 16 << 10
	tableSize     = 4 << 20
	baseLevelSize = 1 << 30
	bloomBits     = 10

	// compactAt is twice the number of sublevels in L0 from which they may be
	// compacted; the gate says when it is worth it.
	compactAt = 8
	// waitAt is the number from which writers wait for a compaction.
	waitAt = 64
	// maxMemtables is the number of full memtables from which writers wait for a
	// flush. Pebble begins one at half a full memtable.
	maxMemtables = 3
	// never is a threshold that is not reached: see invariant 4.
	never = 1 << 20

	// manifestSize bounds the manifest, which every checkpoint uploads anew.
	manifestSize = 32 << 10
)

func (s *Shared) options(e *Engine, o Options) *pebble.Options {
	if o.Memtable <= 0 {
		o.Memtable = defaultMemtable
	}
	e.memtable = max(o.Memtable, minMemtable)
	log := logger{log: s.log.With("folder", e.dir), fail: e.setFailed}
	p := &pebble.Options{
		FS:                 s.fs,
		Cache:              s.blocks,
		FileCache:          s.tables,
		FormatMajorVersion: formatVersion,
		DisableWAL:         true,
		NoSyncOnClose:      true,
		Logger:             log,

		MemTableSize:                uint64(e.memtable),
		MemTableStopWritesThreshold: never,
		L0CompactionThreshold:       compactAt,
		L0StopWritesThreshold:       never,
		LBaseMaxBytes:               baseLevelSize,
		MaxManifestFileSize:         manifestSize,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
	}
	// Compactions that reads ask for would move data which nobody wrote.
	p.Experimental.ReadCompactionRate = -1
	p.Experimental.ReadSamplingMultiplier = -1
	for i := range p.Levels {
		l := &p.Levels[i]
		l.BlockSize = blockSize
		l.FilterPolicy = bloom.FilterPolicy(bloomBits)
		l.FilterType = pebble.TableFilter
		l.Compression = func() *block.CompressionProfile { return block.FastestCompression }
		p.TargetFileSizes[i] = tableSize << min(i, 4)
	}
	p.Experimental.CompactionScheduler = e.gate
	p.EventListener = e.listener()
	if s.log.Enabled(context.Background(), slog.LevelDebug) {
		all := pebble.TeeEventListener(*p.EventListener, pebble.MakeLoggingEventListener(log))
		p.EventListener = &all
	}
	if o.Tune != nil {
		o.Tune(p)
	}
	return p
}

func sprintf(format string, args []any) string { return fmt.Sprintf(format, args...) }

type fatalError string

func (e fatalError) Error() string { return "pebble: " + string(e) }
