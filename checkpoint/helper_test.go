package checkpoint_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/storetest"
	"github.com/tidegate/tidegate/internal/ids"
)

var (
	names = checkpoint.Names{App: "app", Life: 0xa1}
	inst  = ids.InstanceID{Name: "host", Rand: 1}
	task  = ids.TaskID{Sub: 1, Partition: 2}
	quick = checkpoint.Retry{Attempts: 20, Base: time.Microsecond, Max: 10 * time.Microsecond}
)

const (
	small = 100
	large = 1000
)

// testUpload scales the sizes down: large files are objects of their own.
var testUpload = checkpoint.UploadOptions{Retry: quick, SmallFile: 512, PackSize: 4096}

// engine stands for a task's state engine: files by name.
type engine struct {
	files map[string][]byte
	table *checkpoint.FileTable
}

func newEngine() *engine {
	return &engine{files: map[string][]byte{}, table: checkpoint.NewFileTable()}
}

// write makes a file whose bytes depend on seed.
func (e *engine) write(name string, size, seed int) {
	b := bytes.Repeat([]byte(fmt.Sprintf("%s %d;", name, seed)), size/4+1)
	e.files[name] = b[:size]
}

// snapshot writes the files to a folder; *.sst are immutable.
func (e *engine) snapshot(t testing.TB) []checkpoint.LocalFile {
	t.Helper()
	dir := t.TempDir()
	var out []checkpoint.LocalFile
	for _, name := range slices.Sorted(maps.Keys(e.files)) {
		b := e.files[name]
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		out = append(out, checkpoint.LocalFile{Name: name, Path: path, Size: int64(len(b)), Immutable: filepath.Ext(name) == ".sst"})
	}
	return out
}

// world is a store and what stands around it.
type world struct {
	testing.TB
	mem     *storetest.Memory
	store   checkpoint.Store
	up      *checkpoint.Uploader
	down    *checkpoint.Restorer
	catalog *checkpoint.Catalog
	cleaner *checkpoint.Cleaner
	attempt int64
}

func newWorld(t testing.TB, f *storetest.Faults) *world {
	w := &world{TB: t, mem: storetest.NewMemory()}
	w.store = w.mem
	if f != nil {
		w.store = storetest.NewFaulty(w.mem, 1, *f)
	}
	w.up = checkpoint.NewUploader(w.store, testUpload)
	w.down = checkpoint.NewRestorer(w.store, checkpoint.RestoreOptions{Retry: quick})
	w.catalog = checkpoint.NewCatalog(w.store, names, quick)
	w.cleaner = checkpoint.NewCleaner(w.catalog)
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) request(e *engine, n, base ids.CheckpointID, inc ids.Incarnation) checkpoint.TaskUpload {
	w.attempt++
	return checkpoint.TaskUpload{
		Names:  names,
		Writer: checkpoint.Writer{Checkpoint: n, Task: task, Incarnation: inc, Attempt: w.attempt},
		Files:  e.snapshot(w), Table: e.table, Base: base,
	}
}

// upload stores the engine's snapshot as checkpoint n.
func (w *world) upload(e *engine, n, base ids.CheckpointID) checkpoint.Uploaded {
	w.Helper()
	out, err := w.up.Upload(w.Context(), w.request(e, n, base, 0))
	w.ok(err)
	return out
}

// finish stores part, manifest and marker and returns the reference that a
// Complete would hold.
func (w *world) finish(n ids.CheckpointID, files []checkpoint.FileRef) checkpoint.CheckpointRef {
	w.Helper()
	ctx := w.Context()
	p := checkpoint.Part{App: names.App, Life: names.Life, Checkpoint: n, Instance: inst, Tasks: []checkpoint.TaskPart{{Task: task, Files: files}}}
	w.attempt++
	key, err := w.up.PutPart(ctx, names, w.attempt, p)
	w.ok(err)
	m := checkpoint.Manifest{App: names.App, Life: names.Life, Checkpoint: n, Term: 1}
	w.ok(m.AddPart(key, p))
	manifest, err := w.catalog.PutManifest(ctx, m)
	w.ok(err)
	w.ok(w.catalog.Mark(ctx, n, manifest))
	return checkpoint.CheckpointRef{Checkpoint: n, Manifest: manifest}
}

// take is upload, finish and completion.
func (w *world) take(e *engine, n, base ids.CheckpointID) checkpoint.CheckpointRef {
	w.Helper()
	ref := w.finish(n, w.upload(e, n, base).Files)
	e.table.Completed(n, n)
	return ref
}

// restore builds a new engine from checkpoint ref, through part and manifest.
func (w *world) restore(ref checkpoint.CheckpointRef) *engine {
	w.Helper()
	m, err := w.catalog.Load(w.Context(), ref.Manifest)
	w.ok(err)
	entry, ok := m.Task(task)
	if !ok {
		w.Fatal("no entry for the task")
	}
	p, err := w.catalog.LoadPart(w.Context(), entry.Part)
	w.ok(err)
	part, ok := p.Task(task)
	if !ok {
		w.Fatal("no part for the task")
	}
	dir := filepath.Join(w.TempDir(), "state")
	_, err = w.down.Restore(w.Context(), checkpoint.TaskRestore{
		Marker: checkpoint.RestoreMarker{App: names.App, Life: names.Life, Checkpoint: ref.Checkpoint, Task: task},
		Dir:    dir, Files: part.Files,
	})
	w.ok(err)
	e := newEngine()
	entries, err := os.ReadDir(dir)
	w.ok(err)
	for _, f := range entries {
		if f.Name() == checkpoint.RestoreMarkerName {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		w.ok(err)
		e.files[f.Name()] = b
	}
	e.table.Restored(ref.Checkpoint, part.Files)
	return e
}

func (w *world) clean(r checkpoint.CleanRequest) checkpoint.Cleaned {
	w.Helper()
	out, err := w.cleaner.Clean(w.Context(), r)
	w.ok(err)
	return out
}

func (w *world) same(e, want *engine) {
	w.Helper()
	if !maps.EqualFunc(e.files, want.files, bytes.Equal) {
		w.Fatalf("files %v, want %v", slices.Sorted(maps.Keys(e.files)), slices.Sorted(maps.Keys(want.files)))
	}
}

func (e *engine) copy() *engine { return &engine{files: maps.Clone(e.files)} }
