package elastic

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate"
)

// Somebody removes the copies of checkpoint files, or the whole state folder, of
// instances that run: they go on, and tasks still move and are taken over.
func TestFolderRemovedWhileRunning(t *testing.T) {
	c := newCluster(t)
	a := c.start("a", tidegate.WithStandbys(1))
	c.running(a)
	remove := func(name, what string) {
		t.Helper()
		c.eventually("it is removed", func() bool { return os.RemoveAll(filepath.Join(c.folder(name), what)) == nil })
	}
	c.produce(1000, 300)
	c.settled(a)
	c.checkpoints(a, 1)
	remove("a", "files")
	b := c.start("b", tidegate.WithStandbys(1))
	c.eventually("it has copies, or tasks", func() bool { return len(c.copies("b"))+len(b.Health().Tasks) > 0 })
	remove("b", "files")
	c.balanced(a, b)
	remove("a", "")
	c.produce(1000, 300)
	c.settled(a, b)
	a.end()
	c.produce(1000, 300)
	c.settled(b)
}

// What does not belong among the copies is removed, whatever it is, and the
// instance starts.
func TestForeignThingsInFolder(t *testing.T) {
	c := newCluster(t)
	a := c.start("a")
	c.running(a)
	c.produce(1000, 300)
	c.settled(a)
	c.checkpoints(a, 2)
	a.end()
	var task string
	for name := range c.copies("a") {
		task = filepath.Dir(filepath.Join(c.folder("a"), "files", name))
	}
	life := filepath.Dir(task)
	outside := filepath.Join(c.dir, "outside")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(outside, 0o755))
	must(os.WriteFile(filepath.Join(outside, "precious"), []byte("x"), 0o600))
	for _, dir := range []string{filepath.Dir(life), life, task} {
		must(os.WriteFile(filepath.Join(dir, "note.txt"), []byte("x"), 0o600))
		must(os.MkdirAll(filepath.Join(dir, "folder", "deep"), 0o700))
		must(os.Symlink(outside, filepath.Join(dir, "link")))
	}
	must(os.Symlink(outside, filepath.Join(life, "7_7")))
	must(os.MkdirAll(filepath.Join(task, "5-1.1-d-000001.sst"), 0o700))
	must(os.Symlink(filepath.Join(outside, "precious"), filepath.Join(task, "5-1.1-d-000002.sst")))
	must(os.WriteFile(filepath.Join(task, "999999-1.1-d-000002.sst"), nil, 0o600))
	must(os.WriteFile(filepath.Join(task, "9223372036854775807-1.1-d-000003.sst"), nil, 0o600))
	must(os.WriteFile(filepath.Join(life, "1_99"), nil, 0o600))
	// Copies that were being written when the machine went down.
	for name := range c.copies("a") {
		if strings.Contains(name, ".sst") {
			must(os.Truncate(filepath.Join(c.folder("a"), "files", name), 1))
		}
	}
	must(os.WriteFile(filepath.Join(c.folder("a"), "instance"), slices.Repeat([]byte{0}, 16), 0o600))
	must(os.WriteFile(filepath.Join(c.folder("a"), "note.txt"), []byte("x"), 0o600))
	a = c.start("a")
	c.running(a)
	c.produce(1000, 300)
	c.settled(a)
	c.checkpoints(a, 2)
	a.end()
	if _, err := os.ReadFile(filepath.Join(outside, "precious")); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(c.folder("a"), "instance")); err != nil || strings.ContainsRune(string(b), 0) {
		t.Errorf("the name is %q, %v", b, err)
	}
	for name := range c.copies("a") {
		if strings.Contains(name, "note") || strings.Contains(name, "999999") {
			t.Error(name)
		}
	}
}
