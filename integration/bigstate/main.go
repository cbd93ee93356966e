package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	keys, reads   int
	valueBytes    int
	random        bool
	change        float64
	rounds, warm  int
	interval      time.Duration
	tasks         int
	sequential    bool
	memtable      int64
	blockCache    int64
	tune          string
	sync, quiet   bool
	dir           string
	seed          uint64
	restoreRounds int
}

func main() {
	var s settings
	flag.IntVar(&s.keys, "keys", 1_000_000, "keys over all tasks")
	flag.IntVar(&s.valueBytes, "value-bytes", 32, "bytes of a value, at least 8")
	flag.BoolVar(&s.random, "random-values", true, "values of random bytes, which no compression shortens; false: a counter and zeros")
	flag.Float64Var(&s.change, "change", 0.01, "share of the keys that change between two checkpoints")
	flag.IntVar(&s.rounds, "rounds", 40, "checkpoints that count")
	flag.IntVar(&s.warm, "warm", 10, "checkpoints before them that do not")
	flag.DurationVar(&s.interval, "interval", time.Second, "checkpoint interval, over which the changes are spread; 0: as fast as it goes")
	flag.IntVar(&s.tasks, "tasks", 4, "tasks, each with an engine of its own")
	flag.BoolVar(&s.sequential, "sequential", false, "fill in the order of the keys")
	flag.IntVar(&s.reads, "reads", 4000, "random reads per round")
	flag.Int64Var(&s.memtable, "memtable", 0, "largest memtable in bytes; 0: the engine's default")
	flag.Int64Var(&s.blockCache, "block-cache", 0, "bytes of the block cache of all tasks; 0: the engine's default")
	flag.StringVar(&s.tune, "tune", "", "settings of the engine to try, e.g. \"l0=4,base=64MiB,table=8MiB\"; see -help-tune")
	flag.BoolVar(&s.sync, "sync", true, "the store syncs, as it does by default")
	flag.BoolVar(&s.quiet, "quiet", false, "print the summary only")
	flag.StringVar(&s.dir, "dir", "", "folder for state and store; default: a temporary one")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the changes")
	flag.IntVar(&s.restoreRounds, "restores", 3, "restores of every task at the end")
	help := flag.Bool("help-tune", false, "list what -tune takes, and end")
	flag.Parse()
	if *help {
		for _, k := range knobs {
			fmt.Printf("%-12s %s\n", k.name, k.about)
		}
		return
	}
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "bigstate:", err)
		os.Exit(1)
	}
}

func (s settings) check() error {
	switch {
	case s.tasks < 1, s.keys < s.tasks:
		return fmt.Errorf("%d keys over %d tasks: want at least one task, and a key for each", s.keys, s.tasks)
	case s.valueBytes < 8:
		return fmt.Errorf("-value-bytes %d: want at least 8", s.valueBytes)
	case s.change <= 0 || s.change > 1:
		return fmt.Errorf("-change %g: want a share above 0 and up to 1", s.change)
	case s.rounds < 1 || s.warm < 0:
		return fmt.Errorf("-rounds %d -warm %d: want at least one round, and no negative warm-up", s.rounds, s.warm)
	}
	return nil
}

func run(s settings) error {
	if err := s.check(); err != nil {
		return err
	}
	tune, err := parseTune(s.tune)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp(s.dir, "tidegate-bigstate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the measurement counts
	b, err := newBench(s, dir, tune)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.fill(ctx); err != nil {
		return err
	}
	for n := range s.warm + s.rounds {
		if err := b.round(ctx, n-s.warm+1); err != nil {
			return err
		}
	}
	if err := b.restore(ctx); err != nil {
		return err
	}
	b.summary()
	return nil
}
