package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
)

// TestFaultDiskFull: the local disk, a file system of 24 MB, fills up with state.
// The application ends with an error that names the folder; with more space it
// goes on from the last checkpoint, and every output appears once. Real Kafka and
// S3, a real file system.
func TestFaultDiskFull(t *testing.T) {
	l := newLab(t, "counts", 2)
	disk := filepath.Join(l.dir, "disk")
	l.must(os.Mkdir(disk, 0o755))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a small file system cannot be mounted here, which needs root (%v): TestDiskFull of the root package and TestWrapKnowsAFullDisk of package state cover the same with an engine that says so", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	folder := filepath.Join(disk, "state")
	committed := l.read("out", true)
	rng := rand.New(rand.NewPCG(1, 2))
	total := 0
	words := func(n int) (out []testkit.Message) {
		for range n {
			noise := make([]byte, 1000)
			for i := range noise {
				noise[i] = byte('!' + rng.IntN(90))
			}
			out = append(out, testkit.Message{
				Partition: int32(total % 2), Value: fmt.Appendf(nil, "%d %s", total, noise), Timestamp: 1_700_000_000_000 + int64(total),
			})
			total++
		}
		return out
	}
	l.produce(words(1000)...)
	a := l.run("a", tidegate.WithStateDir(folder))
	l.awaitCount(committed, total, 60*time.Second)
	l.produce(words(60_000)...) // 60 MB
	l.wantError(a.wait(90*time.Second), "no space left", folder, "free space")
	t.Logf("it ended: %v", a.err)
	l.must(syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=400m"))
	a = l.run("a", tidegate.WithStateDir(folder))
	l.awaitCount(committed, total, 90*time.Second)
	a.close()
	l.running(committed)
}
