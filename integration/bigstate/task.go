package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/pebblestore"
)

// task is one engine with the keys that fall to it: i, i+tasks, i+2*tasks, …
type task struct {
	b      *bench
	id     ids.TaskID
	n      int // keys
	first  uint64
	engine *pebblestore.Engine
	kv     state.KV
	table  *checkpoint.FileTable
	base   ids.CheckpointID
	files  []checkpoint.FileRef // of the last checkpoint
	rand   *rand.Rand
	taken  []bool // keys changed in this round
	key    []byte
	value  []byte
}

// got is what a checkpoint of a task came to.
type got struct {
	uploaded, full   int64
	objects, tables  int
	snapshot, upload time.Duration
	read             time.Duration // of one random read
	amp              int64
}

func (b *bench) newTask(i int) (*task, error) {
	n := (b.keys - i + b.tasks - 1) / b.tasks
	t := &task{
		b: b, id: ids.TaskID{Partition: int32(i)}, n: n, first: uint64(i), table: checkpoint.NewFileTable(),
		base: ids.NoCheckpoint, rand: rand.New(rand.NewPCG(b.seed, uint64(i))), taken: make([]bool, n),
		key: make([]byte, 8), value: make([]byte, b.valueBytes),
	}
	return t, t.open(filepath.Join(b.dir, fmt.Sprintf("state-%d", i)))
}

func (t *task) open(dir string) (err error) {
	t.engine, err = pebblestore.Open(t.b.shared, dir, pebblestore.Options{Memtable: t.b.memtable, Tune: t.b.tune})
	if err != nil {
		return err
	}
	t.kv, err = t.engine.Store("big")
	return err
}

func (t *task) keyOf(i int) []byte {
	binary.BigEndian.PutUint64(t.key, t.first+uint64(i)*uint64(t.b.tasks))
	return t.key
}

func (t *task) put(w state.Batch, i int) error {
	binary.BigEndian.PutUint64(t.value, t.rand.Uint64())
	for j := 8; t.b.random && j+8 <= len(t.value); j += 8 {
		binary.BigEndian.PutUint64(t.value[j:], t.rand.Uint64())
	}
	return w.Set(t.keyOf(i), t.value)
}

// fill writes every key once.
func (t *task) fill(ctx context.Context) error {
	w := t.kv.(state.Batcher).Batch()
	step := 1
	if !t.b.sequential {
		step = stride(t.n)
	}
	for i, k := 0, 0; i < t.n; i, k = i+1, (k+step)%t.n {
		if i%10_000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := t.put(w, k); err != nil {
			return err
		}
	}
	return w.Commit()
}

// stride visits n numbers in an order that looks random: a step near the golden
// ratio that has no divisor in common with n.
func stride(n int) int {
	gcd := func(a, b int) int {
		for b != 0 {
			a, b = b, a%b
		}
		return a
	}
	for s := max(int(float64(n)*0.618), 1); ; s++ {
		if gcd(s, n) == 1 {
			return s
		}
	}
}

// change changes so many different keys, in pieces over the interval.
func (t *task) change(ctx context.Context, begin time.Time) error {
	const pieces = 20
	clear(t.taken)
	n := max(int(float64(t.n)*t.b.change), 1)
	w := t.kv.(state.Batcher).Batch()
	for piece := range pieces {
		for range n*(piece+1)/pieces - n*piece/pieces {
			k := t.rand.IntN(t.n)
			for t.taken[k] {
				k = t.rand.IntN(t.n)
			}
			t.taken[k] = true
			if err := t.put(w, k); err != nil {
				return err
			}
		}
		if err := w.Commit(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Until(begin.Add(t.b.interval * time.Duration(piece+1) / pieces))):
		}
	}
	return nil
}

// checkpoint takes a snapshot and stores it as checkpoint n.
func (t *task) checkpoint(ctx context.Context, n ids.CheckpointID) (g got, err error) {
	begin := time.Now()
	dir := filepath.Join(t.b.dir, fmt.Sprintf("snapshot-%s-%d", t.id, n))
	snap, err := t.engine.Snapshot(dir)
	if err != nil {
		return g, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the folder above goes at the end
	g.snapshot = time.Since(begin)
	up := checkpoint.TaskUpload{
		Names: t.b.names, Writer: checkpoint.Writer{Checkpoint: n, Task: t.id, Incarnation: 1}, Table: t.table, Base: t.base,
	}
	for _, f := range snap.Files {
		up.Files = append(up.Files, checkpoint.LocalFile{Name: f.Name, Path: f.Path, Size: f.Size, Immutable: f.Immutable})
		if f.Immutable {
			g.tables++
		}
	}
	done, err := t.b.uploader.Upload(ctx, up)
	if err != nil {
		return g, err
	}
	g.upload = time.Since(begin) - g.snapshot
	t.table.Completed(n, n)
	t.base, t.files = n, done.Files
	g.uploaded, g.full, g.objects = done.Bytes, done.Bytes+done.Referenced, done.Objects
	g.read, err = t.reads(t.b.reads / t.b.tasks)
	g.amp = t.engine.Metrics().ReadAmp
	return g, err
}

// reads returns the mean time of random reads, and fails if a key is missing.
func (t *task) reads(n int) (time.Duration, error) {
	if n < 1 {
		return 0, nil
	}
	begin := time.Now()
	for range n {
		k := t.rand.IntN(t.n)
		v, ok, err := t.kv.Get(t.keyOf(k))
		if err != nil {
			return 0, err
		}
		if !ok || len(v) != t.b.valueBytes {
			return 0, fmt.Errorf("task %s: key %d is missing or short", t.id, k)
		}
	}
	return time.Since(begin) / time.Duration(n), nil
}

// restore fills a new folder from the last checkpoint and opens it; it returns
// the time until the first read was answered.
func (t *task) restore(ctx context.Context, round int) (time.Duration, int64, error) {
	dir := filepath.Join(t.b.dir, fmt.Sprintf("restored-%s-%d", t.id, round))
	defer os.RemoveAll(dir) //nolint:errcheck // the folder above goes at the end
	begin := time.Now()
	done, err := t.b.restorer.Restore(ctx, checkpoint.TaskRestore{
		Marker: checkpoint.RestoreMarker{App: t.b.names.App, Life: t.b.names.Life, Checkpoint: t.base, Task: t.id},
		Dir:    dir, Files: t.files,
	})
	if err != nil {
		return 0, 0, err
	}
	if err := os.Remove(filepath.Join(dir, checkpoint.RestoreMarkerName)); err != nil {
		return 0, 0, err
	}
	if err := state.WriteSeal(dir, "bigstate"); err != nil {
		return 0, 0, err
	}
	old := *t
	defer func() { t.engine, t.kv = old.engine, old.kv }()
	if err := t.open(dir); err != nil {
		return 0, 0, err
	}
	_, err = t.reads(1)
	took := time.Since(begin)
	if err == nil {
		_, err = t.reads(1000)
	}
	if e := t.engine.Close(); err == nil {
		err = e
	}
	return took, done.Bytes, err
}
