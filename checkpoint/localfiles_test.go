package checkpoint_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
)

// place is a machine with a folder of copies.
type place struct {
	*world
	dir   string
	local *checkpoint.LocalFiles
}

func newPlace(w *world) *place {
	p := &place{world: w, dir: filepath.Join(w.TempDir(), "files")}
	p.open()
	return p
}

// open is a start of the process.
func (p *place) open() {
	p.Helper()
	var err error
	p.local, err = checkpoint.OpenLocalFiles(p.dir, names)
	p.ok(err)
}

// take uploads the engine as n, keeps its files and completes it.
func (p *place) take(e *engine, n, base ids.CheckpointID) []checkpoint.FileRef {
	p.Helper()
	req := p.request(e, n, base, 0)
	up, err := p.up.Upload(p.Context(), req)
	p.ok(err)
	paths := map[string]string{}
	for _, f := range req.Files {
		paths[f.Name] = f.Path
	}
	p.ok(p.local.Keep(task, n, up.Files, paths))
	e.table.Completed(n, n)
	p.local.Completed(task, n)
	return up.Files
}

func (p *place) restored(n ids.CheckpointID, files []checkpoint.FileRef) (checkpoint.Restored, string) {
	p.Helper()
	dir := filepath.Join(p.TempDir(), "state")
	out, err := p.down.Restore(p.Context(), checkpoint.TaskRestore{
		Marker: checkpoint.RestoreMarker{App: names.App, Life: names.Life, Checkpoint: n, Task: task},
		Dir:    dir, Files: files, Copies: p.local,
	})
	p.ok(err)
	return out, dir
}

// same compares a restored folder with the engine.
func (p *place) sameFolder(dir string, e *engine) {
	p.Helper()
	for name, want := range e.files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		p.ok(err)
		if string(got) != string(want) {
			p.Errorf("%s differs", name)
		}
	}
}

// copies are the files of the folder of copies.
func (p *place) copies() (list []string) {
	p.Helper()
	p.ok(filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	}))
	return list
}

func sampleEngine() *engine {
	e := newEngine()
	e.write("1.sst", large, 1)
	e.write("2.sst", small, 1)
	e.write("MANIFEST", small, 1)
	return e
}

// A restarted process downloads nothing that it uploaded, and only the rest of
// what others did since.
func TestRestoreReusesLocalFiles(t *testing.T) {
	p := newPlace(newWorld(t, nil))
	e := sampleEngine()
	p.take(e, 10, ids.NoCheckpoint)
	e.write("3.sst", large, 2)
	e.write("MANIFEST", small, 2)
	delete(e.files, "1.sst")
	files := p.take(e, 20, 10)
	if got := len(p.copies()); got != 3 {
		t.Fatalf("%d copies, want those of the last checkpoint: %v", got, p.copies())
	}
	p.open()
	held := p.local.Held()
	if len(held) != 1 || held[0] != (checkpoint.LocalState{Task: task, Newest: 20, Bytes: large + 2*small}) {
		t.Fatalf("%+v", held)
	}
	out, dir := p.restored(20, files)
	if out.Downloaded != 0 || out.Objects != 0 || out.Bytes != large+2*small {
		t.Fatalf("%+v", out)
	}
	p.sameFolder(dir, e)

	// Another instance goes on for a while.
	e.write("4.sst", large, 4)
	e.write("MANIFEST", small, 4)
	files = p.upload(e, 30, 20).Files
	out, dir = p.restored(30, files)
	if out.Downloaded != large+small {
		t.Fatalf("%+v", out)
	}
	p.sameFolder(dir, e)
	if out, _ = p.restored(30, files); out.Downloaded != 0 {
		t.Fatalf("%+v: what was downloaded is kept", out)
	}
}

// An engine writes to its folder; that must not reach the copies.
func TestLocalFilesAreNotTheEnginesFiles(t *testing.T) {
	p := newPlace(newWorld(t, nil))
	e := sampleEngine()
	files := p.take(e, 10, ids.NoCheckpoint)
	_, dir := p.restored(10, files)
	for range 2 {
		p.ok(os.WriteFile(filepath.Join(dir, "MANIFEST"), []byte("changed"), 0o600))
		out, again := p.restored(10, files)
		if out.Downloaded != 0 {
			t.Fatalf("%+v", out)
		}
		p.sameFolder(again, e)
		// The second time the copy comes from a download.
		p.local.Forget(func(ids.TaskID) bool { return false })
		if len(p.copies()) != 0 {
			t.Fatal(p.copies())
		}
		_, dir = p.restored(10, files)
	}
}

// What is damaged, torn or foreign is found and fetched again.
func TestDamagedLocalFiles(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"other bytes": func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil {
				b[len(b)/2] ^= 1
				err = os.WriteFile(path, b, 0o600)
			}
			return err
		},
		"torn":    func(path string) error { return os.Truncate(path, 1) },
		"missing": os.Remove,
		"folder":  func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(newWorld(t, nil))
			e := sampleEngine()
			files := p.take(e, 10, ids.NoCheckpoint)
			list := p.copies()
			for _, path := range list {
				p.ok(damage(path))
			}
			// Files of others, and of another life.
			for _, stray := range []string{"stray", "0000000000000009/1_2/5-0.1-d-x", filepath.Base(filepath.Dir(filepath.Dir(list[0]))) + "/notatask/x", "README"} {
				p.ok(os.MkdirAll(filepath.Dir(filepath.Join(p.dir, stray)), 0o700))
				p.ok(os.WriteFile(filepath.Join(p.dir, stray), []byte("?"), 0o600))
			}
			p.open()
			out, dir := p.restored(10, files)
			if out.Downloaded != large+2*small {
				t.Fatalf("%+v", out)
			}
			if (name == "other bytes" || name == "torn") && out.Damaged != 3 {
				t.Errorf("%+v", out)
			}
			p.sameFolder(dir, e)
			if got := p.copies(); len(got) != 3 {
				t.Errorf("copies %v", got)
			}
		})
	}
}

// A checkpoint that was aborted leaves nothing; one that is undecided keeps what
// both hold.
func TestLocalFilesOfUndecidedCheckpoints(t *testing.T) {
	p := newPlace(newWorld(t, nil))
	e := sampleEngine()
	files := p.take(e, 10, ids.NoCheckpoint)
	before := len(p.copies())
	e.write("5.sst", large, 5)
	req := p.request(e, 20, 10, 0)
	up, err := p.up.Upload(t.Context(), req)
	p.ok(err)
	paths := map[string]string{}
	for _, f := range req.Files {
		paths[f.Name] = f.Path
	}
	p.ok(p.local.Keep(task, 20, up.Files, paths))
	if len(p.copies()) != before+2 { // and a MANIFEST of its own
		t.Fatal(p.copies())
	}
	if h := p.local.Held(); h[0].Newest != 10 {
		t.Fatalf("%+v: an undecided checkpoint does not count", h)
	}
	p.local.Aborted(task, 20)
	p.local.Completed(task, 20)
	if len(p.copies()) != before {
		t.Fatal(p.copies())
	}
	if out, _ := p.restored(10, files); out.Downloaded != 0 {
		t.Fatalf("%+v", out)
	}
}

// A standby fetches each checkpoint's new files, drops what is no longer
// referenced, and can take over without a download. An object that is gone is
// an error at once.
func TestCopyFollows(t *testing.T) {
	for _, rate := range []int64{0, 300} {
		w := newWorld(t, nil)
		w.down = checkpoint.NewRestorer(w.store, checkpoint.RestoreOptions{Retry: quick, BytesPerSecond: rate * 1000})
		p := newPlace(w)
		e := sampleEngine()
		prefetch := func(n ids.CheckpointID, files []checkpoint.FileRef) (checkpoint.Restored, error) {
			return w.down.Copy(t.Context(), checkpoint.TaskCopy{Task: task, Checkpoint: n, Files: files, Copies: p.local})
		}
		files := w.upload(e, 10, ids.NoCheckpoint).Files
		e.table.Completed(10, 10)
		out, err := prefetch(10, files)
		w.ok(err)
		if out.Downloaded != large+2*small {
			t.Fatalf("%+v", out)
		}
		e.write("3.sst", large, 2)
		delete(e.files, "1.sst")
		files = w.upload(e, 20, 10).Files
		e.table.Completed(20, 20)
		out, err = prefetch(20, files)
		w.ok(err)
		if out.Downloaded != large+small {
			t.Fatalf("%+v", out)
		}
		if len(p.copies()) != 3 {
			t.Fatal(p.copies())
		}
		out, dir := p.restored(20, files)
		if out.Downloaded != 0 {
			t.Fatalf("%+v", out)
		}
		p.sameFolder(dir, e)

		e.write("6.sst", large, 6)
		files = w.upload(e, 30, 20).Files
		gone := ""
		for _, f := range files {
			if f.Name == "6.sst" {
				gone = f.Key
			}
		}
		w.ok(w.mem.Delete(t.Context(), []string{gone}))
		if _, err := prefetch(30, files); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Fatal(err)
		}
		p.open()
		if len(p.copies()) < 3 {
			t.Fatal(p.copies())
		}
	}
}
