package elastic

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
)

// open counts what a process can leak.
func open(t *testing.T) (goroutines, files int) {
	t.Helper()
	runtime.GC()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		list = nil // there is no such folder on this system
	}
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "/") {
			files++
		}
	}
	return runtime.NumGoroutine(), files
}

// size counts the files and bytes below a folder.
func size(dir string) (files int, bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				files, bytes = files+1, bytes+info.Size()
			}
		}
		return nil
	})
	return files, bytes
}

// Instances that start, take tasks over, hand them over, roll back, stop and are
// killed, in whatever state, leave no goroutine, no open file, and on disk what one
// checkpoint needs.
func TestCyclesLeaveNothing(t *testing.T) {
	c := newCluster(t)
	names := []string{"a", "b", "c"}
	cycle := func(i int) {
		a := c.start(names[i%3], tidegate.WithStandbys(i%3), tidegate.WithRetainedCheckpoints(1))
		opts := []tidegate.Option{tidegate.WithStandbys(1), tidegate.WithRetainedCheckpoints(1)}
		if i%2 == 0 {
			opts = append(opts, killed())
		}
		b := c.start(names[(i+1)%3], opts...)
		switch i % 4 {
		case 0: // in whatever state
			time.Sleep(time.Duration(i*37%200) * time.Millisecond)
		case 1:
			c.running(a)
		default:
			c.running(a, b)
		}
		c.produce(400, 100)
		b.end()
		c.produce(400, 100)
		c.settled(a)
		c.checkpoints(a, 2)
		a.end()
	}
	cycle(2)
	goroutines, files := open(t)
	for i := range 4 {
		cycle(i)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		g, f := open(t)
		if g <= goroutines+2 && f <= files {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, before %d; %d open files, before %d", g, goroutines, f, files)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, name := range names {
		if n, _ := size(filepath.Join(c.folder(name), "run")); n > 0 {
			t.Errorf("%s: %d files of tasks stay", name, n)
		}
		if n, bytes := size(filepath.Join(c.folder(name), "files")); n > 60 {
			t.Errorf("%s keeps %d files, %d bytes", name, n, bytes)
		}
	}
	if n, bytes := size(filepath.Join(c.dir, "checkpoints")); n > 100 {
		t.Errorf("the store has %d objects, %d bytes", n, bytes)
	}
}

// Run ends at once where there is nothing to do, and is called once.
func TestRunOnce(t *testing.T) {
	c := newCluster(t)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	app, err := tidegate.New(c.topo, tidegate.WithApplicationID("app"), tidegate.WithBrokers(c.broker.Addr()),
		tidegate.WithCheckpointDir(filepath.Join(c.dir, "checkpoints")), tidegate.WithStateDir(c.folder("x")))
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := app.Run(gone); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := app.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "called before") {
		t.Error(err)
	}
	if s := app.State(); s != tidegate.Stopped {
		t.Error(s)
	}
	a := c.start("x")
	c.running(a)
	if err := a.Run(context.Background()); err == nil {
		t.Error("it runs twice")
	}
	a.end()
	if err := a.Run(context.Background()); err == nil || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
