package checkpoint_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
)

// A prefetch is incremental, and a restore reads only what it does not hold.
func TestPrefetch(t *testing.T) {
	w := newWorld(t, nil)
	e := newEngine()
	e.write("1.sst", large, 1)
	e.write("MANIFEST", small, 1)
	first := w.upload(e, 10, ids.NoCheckpoint).Files
	e.table.Completed(10, 10)
	p := checkpoint.NewPrefetched(filepath.Join(t.TempDir(), "ahead"))
	got, err := w.down.Prefetch(t.Context(), p, first)
	w.ok(err)
	if got.Bytes != large+small {
		t.Errorf("first: %+v", got)
	}
	got, err = w.down.Prefetch(t.Context(), p, first)
	w.ok(err)
	if got.Objects != 0 {
		t.Errorf("nothing new: %+v", got)
	}

	e.write("2.sst", small, 2)
	e.write("MANIFEST", small, 2)
	second := w.upload(e, 20, 10).Files
	e.table.Completed(20, 20)
	have, all := p.Holds(second)
	if have != large || all != large+2*small {
		t.Errorf("holds %d of %d", have, all)
	}
	got, err = w.down.Prefetch(t.Context(), p, second)
	w.ok(err)
	if got.Bytes != 2*small {
		t.Errorf("second: %+v", got)
	}

	// The handover's checkpoint has more; only that is read.
	e.write("3.sst", small, 3)
	third := w.upload(e, 30, 20).Files
	dir := filepath.Join(t.TempDir(), "state")
	out, err := w.down.Restore(t.Context(), checkpoint.TaskRestore{Dir: dir, Files: third, Local: p})
	w.ok(err)
	if out.Objects != 1 || out.Bytes != large+3*small {
		t.Errorf("restore: %+v", out)
	}
	for name, want := range e.files {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != string(want) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	if _, err := w.down.Prefetch(t.Context(), p, third); err == nil {
		t.Error("fetched into what a restore took")
	}
}

// What vanished ends a prefetch, and what it got before stays.
func TestPrefetchVanished(t *testing.T) {
	w := newWorld(t, nil)
	_, files := sampleFiles(w)
	p := checkpoint.NewPrefetched(filepath.Join(t.TempDir(), "ahead"))
	w.ok(w.mem.Delete(t.Context(), []string{files[0].Key}))
	begun := time.Now()
	if _, err := w.down.Prefetch(t.Context(), p, files); err == nil || time.Since(begun) > 10*time.Second {
		t.Fatal(err, time.Since(begun))
	}
	if have, all := p.Holds(files[1:]); have > all {
		t.Errorf("holds %d of %d", have, all)
	}
	p.Remove()
}
