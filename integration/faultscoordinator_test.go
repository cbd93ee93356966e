package integration

import (
	"slices"
	"testing"
	"time"
)

// TestFaultCoordinator: of two instances the one that coordinates is killed at
// each step of a checkpoint: when it begins, while files are stored, when its
// own part is ready, before and after the manifest is stored, when it read the
// decision, while it commits. The other one becomes coordinator and finishes or
// aborts what it finds; every output appears once. Real Kafka and S3, real
// processes.
func TestFaultCoordinator(t *testing.T) {
	onlyMakeFaults(t)
	l := newLab(t, "counts", 4)
	l.extend(5 * time.Minute)
	committed := l.read("out", true)
	a, b := l.start("a"), l.start("b")
	f := l.feed(100, 50, 100*time.Millisecond, committed.Count)
	for _, phase := range []string{"aligning", "uploading", "prepared", "manifest", "stored", "decided", "committing", "marked"} {
		l.eventually(90*time.Second, "both run tasks", func() bool {
			return len(a.now().Tasks) == 4 && len(b.now().Tasks) == 4 && a.now().State == "Running" && b.now().State == "Running"
		})
		f.progress(30*time.Second, 1)
		f.longest()
		leader := a
		if slices.Contains(b.now().Tasks, "0_0") {
			leader = b
		}
		leader.arm(phase, 0, "kill")
		leader.awaitKilled(30 * time.Second)
		f.progress(60*time.Second, 2)
		t.Logf("killed at %q: output stood still for at most %v, the session timeout is %v", phase, f.longest(), l.base.Session)
		if leader == a {
			a = l.start("a")
		} else {
			b = l.start("b")
		}
	}
	total := f.end()
	l.awaitCount(committed, total, 60*time.Second)
	a.close()
	b.close()
	l.running(committed)
}
