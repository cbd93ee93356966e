package checkpoint_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/storetest"
	"github.com/tidegate/tidegate/internal/ids"
)

func sampleFiles(w *world) (*engine, []checkpoint.FileRef) {
	e := newEngine()
	e.write("1.sst", large, 1)
	e.write("2.sst", small, 1)
	e.write("MANIFEST", small, 1)
	return e, w.upload(e, 10, ids.NoCheckpoint).Files
}

func TestRestoreMarker(t *testing.T) {
	w := newWorld(t, nil)
	_, files := sampleFiles(w)
	dir := filepath.Join(t.TempDir(), "state")
	want := checkpoint.RestoreMarker{App: "app", Life: names.Life, Checkpoint: 10, Task: task}
	if _, err := checkpoint.ReadRestoreMarker(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	out, err := w.down.Restore(t.Context(), checkpoint.TaskRestore{Marker: want, Dir: dir, Files: files})
	w.ok(err)
	if out.Bytes != large+2*small || out.Objects != 2 {
		t.Errorf("%+v", out)
	}
	if got, err := checkpoint.ReadRestoreMarker(dir); err != nil || got != want {
		t.Fatal(got, err)
	}
	if _, err := w.down.Restore(t.Context(), checkpoint.TaskRestore{Marker: want, Dir: dir, Files: files}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Fatal(err)
	}
}

func TestRestoreLeavesNothingBehindOnError(t *testing.T) {
	w := newWorld(t, nil)
	_, files := sampleFiles(w)
	w.ok(w.mem.Delete(t.Context(), []string{files[0].Key}))
	parent := t.TempDir()
	_, err := w.down.Restore(t.Context(), checkpoint.TaskRestore{Dir: filepath.Join(parent, "state"), Files: files})
	if !errors.Is(err, checkpoint.ErrNotFound) || !strings.Contains(err.Error(), files[0].Key) || !strings.Contains(err.Error(), "RestoreFrom") {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 {
		t.Fatal(entries, err)
	}
}

// A restore waits for an object that is missing; a prefetch does not (R25).
func TestRestoreWaitsForVanished(t *testing.T) {
	w := newWorld(t, nil)
	e, files := sampleFiles(w)
	b := e.files["1.sst"]
	w.ok(w.mem.Delete(t.Context(), []string{files[0].Key}))
	done := make(chan error)
	go func() {
		_, err := w.down.Restore(t.Context(), checkpoint.TaskRestore{Dir: filepath.Join(t.TempDir(), "state"), Files: files, Vanished: time.Minute})
		done <- err
	}()
	w.ok(w.mem.Put(t.Context(), files[0].Key, checkpoint.BytesSource(b)))
	w.ok(<-done)
}

// A damaged object is named, with the way out.
func TestCorrupted(t *testing.T) {
	w := newWorld(t, nil)
	_, files := sampleFiles(w)
	for i, f := range files {
		at := int(f.Offset) + 7
		if !w.mem.Damage(f.Key, at) {
			t.Fatal("nothing to damage")
		}
		_, err := w.down.Restore(t.Context(), checkpoint.TaskRestore{Dir: filepath.Join(t.TempDir(), "state"), Files: files})
		if !errors.Is(err, checkpoint.ErrCorrupted) || !strings.Contains(err.Error(), f.Key) || !strings.Contains(err.Error(), "RestoreFrom(n, AllowDuplicates)") {
			t.Errorf("file %d: %v", i, err)
		}
		w.mem.Damage(f.Key, at)
	}
}

func TestForgedPart(t *testing.T) {
	w := newWorld(t, nil)
	_, files := sampleFiles(w)
	for _, name := range []string{"../x", "a/b", "..", "", checkpoint.RestoreMarkerName} {
		forged := append([]checkpoint.FileRef(nil), files...)
		forged[0].Name = name
		if _, err := w.down.Restore(t.Context(), checkpoint.TaskRestore{Dir: filepath.Join(t.TempDir(), "state"), Files: forged}); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

// Everything works through a store that fails one request in ten, loses
// answers, breaks off reads and flips bits.
func TestUnreliableStore(t *testing.T) {
	w := newWorld(t, &storetest.Faults{Fail: 0.1, Lost: 0.1, Cut: 0.1, Flip: 0.02})
	e := newEngine()
	base := ids.NoCheckpoint
	var refs []checkpoint.CheckpointRef
	for n := ids.CheckpointID(1); n <= 30; n++ {
		e.write(strings.Repeat("x", int(n))+".sst", large, int(n))
		e.write("MANIFEST", small, int(n))
		ref := w.take(e, n, base)
		base = n
		refs = append(refs, ref)
		w.same(w.restore(ref), e)
		w.clean(checkpoint.CleanRequest{ReadTo: n + 1, Retained: refs[max(0, len(refs)-2):]})
	}
	if c := w.store.(*storetest.Faulty).Counts(); c.Failed == 0 || c.Lost == 0 || c.Cut == 0 {
		t.Errorf("%+v", c)
	}
}
