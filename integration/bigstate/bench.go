package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/dir"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/state/pebblestore"
)

// bench is the state of all tasks, its store, and what was measured.
type bench struct {
	settings
	dir      string
	tune     func(*pebble.Options)
	shared   *pebblestore.Shared
	store    checkpoint.Store
	uploader *checkpoint.Uploader
	restorer *checkpoint.Restorer
	names    checkpoint.Names
	all      []*task
	next     ids.CheckpointID
	filled   int64 // bytes of the full checkpoint behind the fill
	rounds   []sum
	restored []time.Duration
	bytes    int64 // of one restore of all tasks
}

// sum is a round over all tasks: bytes added, times the longest.
type sum struct {
	got
	whole time.Duration // snapshot and upload, all tasks
	cpu   float64
}

func newBench(s settings, root string, tune func(*pebble.Options)) (*bench, error) {
	var opts []dir.Option
	if !s.sync {
		opts = append(opts, dir.WithoutSync())
	}
	store, err := dir.New(filepath.Join(root, "store"), opts...)
	if err != nil {
		return nil, err
	}
	b := &bench{
		settings: s, dir: root, tune: tune, names: checkpoint.Names{App: "bigstate", Life: 1}, next: 1, store: store,
		shared:   pebblestore.NewShared(pebblestore.SharedOptions{BlockCache: s.blockCache}),
		uploader: checkpoint.NewUploader(store, checkpoint.UploadOptions{}),
		restorer: checkpoint.NewRestorer(store, checkpoint.RestoreOptions{}),
	}
	for i := range s.tasks {
		t, err := b.newTask(i)
		if err != nil {
			b.close()
			return nil, err
		}
		b.all = append(b.all, t)
	}
	return b, nil
}

func (b *bench) close() {
	for _, t := range b.all {
		_ = t.engine.Close() // its folder is removed next
	}
	_ = b.shared.Close()
}

// each runs f for all tasks at once and waits.
func (b *bench) each(f func(i int, t *task) error) error {
	errs := make([]error, len(b.all))
	var wg sync.WaitGroup
	for i, t := range b.all {
		wg.Go(func() { errs[i] = f(i, t) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (b *bench) fill(ctx context.Context) error {
	if err := b.store.Check(ctx); err != nil {
		return err
	}
	begin := time.Now()
	if err := b.each(func(_ int, t *task) error { return t.fill(ctx) }); err != nil {
		return err
	}
	filled := time.Since(begin)
	s, err := b.checkpoint(ctx)
	if err != nil {
		return err
	}
	b.filled = s.full
	fmt.Printf("%d keys of 8 and %d bytes in %d tasks: filled in %s, full checkpoint %s in %d objects in %s\n", b.keys, b.valueBytes, b.tasks,
		filled.Round(time.Millisecond), mb(s.full), s.objects, s.whole.Round(time.Millisecond))
	return nil
}

// round changes keys and takes a checkpoint. Rounds up to 0 are the warm-up.
func (b *bench) round(ctx context.Context, number int) error {
	begin, cpu := time.Now(), cpuSeconds()
	if err := b.each(func(_ int, t *task) error { return t.change(ctx, begin) }); err != nil {
		return err
	}
	s, err := b.checkpoint(ctx)
	if err != nil {
		return err
	}
	s.cpu = cpuSeconds() - cpu
	label := "warm"
	if number > 0 {
		b.rounds = append(b.rounds, s)
		label = fmt.Sprint(number)
	}
	if !b.quiet {
		fmt.Printf("%-4s uploaded %9s of %9s = %5.2f %%  objects %3d of %4d tables  snapshot %4d ms  upload %5d ms  read %6.1f us  amp %2d  cpu %.2f s\n",
			label, mb(s.uploaded), mb(s.full), s.share(), s.objects, s.tables, s.snapshot.Milliseconds(), s.upload.Milliseconds(),
			micros(s.read), s.amp, s.cpu)
	}
	return nil
}

func (b *bench) checkpoint(ctx context.Context) (sum, error) {
	n := b.next
	b.next++
	all := make([]got, len(b.all))
	begin := time.Now()
	err := b.each(func(i int, t *task) (err error) {
		all[i], err = t.checkpoint(ctx, n)
		return err
	})
	s := sum{whole: time.Since(begin)}
	for _, g := range all {
		s.uploaded, s.full, s.objects, s.tables = s.uploaded+g.uploaded, s.full+g.full, s.objects+g.objects, s.tables+g.tables
		s.snapshot, s.upload = max(s.snapshot, g.snapshot), max(s.upload, g.upload)
		s.read += g.read / time.Duration(len(all))
		s.amp = max(s.amp, g.amp)
	}
	return s, err
}

// restore restores all tasks, one after another, a few times.
func (b *bench) restore(ctx context.Context) error {
	for round := range b.restoreRounds {
		var whole time.Duration
		b.bytes = 0
		for _, t := range b.all {
			took, bytes, err := t.restore(ctx, round)
			if err != nil {
				return err
			}
			whole += took
			b.bytes += bytes
		}
		b.restored = append(b.restored, whole)
	}
	return nil
}

func (b *bench) summary() {
	value := func(f func(sum) float64) (mean, most float64) {
		for _, s := range b.rounds {
			mean += f(s) / float64(len(b.rounds))
			most = max(most, f(s))
		}
		return mean, most
	}
	mean, most := value(sum.share)
	fmt.Printf("uploaded per checkpoint: mean %.2f %%, max %.2f %% of its full size, with %g %% of the keys changed\n", mean, most, 100*b.change)
	mean, most = value(func(s sum) float64 { return 100 * float64(s.uploaded) / float64(b.filled) })
	fmt.Printf("  of the full checkpoint behind the fill (%s): mean %.2f %%, max %.2f %%\n", mb(b.filled), mean, most)
	raw := int64(b.keys) * int64(8+b.valueBytes)
	mean, most = value(func(s sum) float64 { return 100 * float64(s.uploaded) / float64(raw) })
	fmt.Printf("  of keys and values (%s): mean %.2f %%, max %.2f %%\n", mb(raw), mean, most)
	mean, most = value(func(s sum) float64 { return float64(s.full) / 1e6 })
	fmt.Printf("full size: mean %.1f MB, max %.1f MB\n", mean, most)
	for _, m := range []struct {
		name, unit string
		of         func(sum) float64
	}{
		{"snapshot", "ms", func(s sum) float64 { return s.snapshot.Seconds() * 1000 }},
		{"upload", "ms", func(s sum) float64 { return s.upload.Seconds() * 1000 }},
		{"read", "us", func(s sum) float64 { return micros(s.read) }},
		{"cpu of a round", "s", func(s sum) float64 { return s.cpu }},
	} {
		mean, most := value(m.of)
		fmt.Printf("%s: mean %.2f %s, max %.2f %s\n", m.name, mean, m.unit, most, m.unit)
	}
	if len(b.restored) > 0 {
		slices.Sort(b.restored)
		median := b.restored[len(b.restored)/2]
		fmt.Printf("restore of %s, tasks one after another, until a read is answered: median %s, %.0f MB/s\n", mb(b.bytes), median.Round(time.Millisecond),
			float64(b.bytes)/1e6/median.Seconds())
	}
}

func (s sum) share() float64 { return 100 * float64(s.uploaded) / float64(max(s.full, 1)) }

func mb(n int64) string { return fmt.Sprintf("%.2f MB", float64(n)/1e6) }

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
