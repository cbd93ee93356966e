package tidegate_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stateObjects lists what a directory store holds of state files.
func stateObjects(t *testing.T, dir string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && (strings.Contains(path, "/data/") || strings.Contains(path, "/pack/")) {
			out[path] = true
		}
		return nil // cleaning removes files meanwhile
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Checkpoints of state that does not change upload no state file.
func TestIdleCheckpointsUploadNothing(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": 2, "out": 2})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	const n = 3000
	if err := c.client.Produce(ctx, "in", words(n, 100, 2)); err != nil {
		t.Fatal(err)
	}
	app := c.app(counting(t, "in", "out"), "a")
	c.run(app)
	out, err := c.client.Read("out", 2, true)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := out.Await(ctx, func() bool { return out.Count() >= n }); err != nil {
		t.Fatal(err)
	}
	later := func(checkpoints int) {
		last, seen := app.Health().LastCheckpoint, 0
		if err := out.Await(ctx, func() bool {
			if now := app.Health().LastCheckpoint; now != last {
				last = now
				seen++
			}
			return seen >= checkpoints
		}); err != nil {
			t.Fatal(err)
		}
	}
	later(2) // the last records are in
	before := stateObjects(t, filepath.Join(c.dir, "checkpoints"))
	later(5)
	for path := range stateObjects(t, filepath.Join(c.dir, "checkpoints")) {
		if !before[path] {
			t.Errorf("an idle checkpoint uploaded %s", path)
		}
	}
	if len(before) == 0 {
		t.Error("no state was uploaded at all")
	}
}
