package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
)

// TestStaticMemberComesBack: an instance with WithStaticMembership that is killed,
// or stops, and comes back has its tasks at once, though the session timeout is a
// minute: they are nobody else's meanwhile, the other instance keeps its own, and
// nothing is downloaded. Real Kafka and S3, real processes.
func TestStaticMemberComesBack(t *testing.T) {
	for _, mode := range []tidegate.Mode{tidegate.Barrier, tidegate.Changelog} {
		t.Run(mode.String(), func(t *testing.T) {
			l := newLab(t, "counts", 4)
			l.base.Static, l.base.Session = true, time.Minute
			l.base.Mode, l.base.Commit, l.base.Transaction = mode, 200*time.Millisecond, 5*time.Minute
			if mode == tidegate.Changelog {
				l.base.Transaction = 10 * time.Second
			}
			committed := l.read("out", true)
			a, b := l.start("a"), l.start("b")
			halves := func(h childHealth) bool { return h.State == "Running" && len(h.Tasks) == 4 }
			a.await(60*time.Second, "it has its half", halves)
			b.await(60*time.Second, "it has its half", halves)
			sent := 0
			send := func() {
				l.produce(l.words(sent, 2000, 100)...)
				sent += 2000
			}
			send()
			l.awaitCount(committed, sent, 30*time.Second)
			was, other := a.now(), b.now()
			for _, how := range []string{"kill -9", "SIGTERM", "kill -9"} {
				begun := time.Now()
				if how == "SIGTERM" {
					a.close()
				} else {
					l.must(a.p.Kill())
				}
				send()
				a = l.start("a")
				l.awaitCount(committed, sent, 40*time.Second)
				now, others := a.now(), b.now()
				t.Logf("%s: back, with all output, after %v", how, time.Since(begun).Round(time.Millisecond))
				if !slices.Equal(now.Tasks, was.Tasks) || !slices.Equal(others.Tasks, other.Tasks) || others.Instance != other.Instance {
					t.Errorf("%s: it had %v and has %v, the other one %v as %s and %v as %s", how, was.Tasks, now.Tasks, other.Tasks, other.Instance, others.Tasks, others.Instance)
				}
				if now.Downloaded > 0 || others.Downloaded > other.Downloaded {
					t.Errorf("%s: %d and %d bytes were downloaded", how, now.Downloaded, others.Downloaded-other.Downloaded)
				}
			}
			l.running(committed)
		})
	}
}
