package integration

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/kafka"
)

// newLogLab is a lab in changelog mode, which needs no store.
func newLogLab(t *testing.T, topology string, parts int32) *lab {
	t.Helper()
	l := newLabOn(t, servers.RequireKafka(t), nil, "", topology, parts)
	l.base.Mode, l.base.Commit, l.base.Transaction = tidegate.Changelog, 200*time.Millisecond, 10*time.Second
	return l
}

// TestChangelogRunningSumsOverAKill: kill -9 in each phase of a commit, with one
// hop and without. Every running value appears once. Real Kafka, a real process.
func TestChangelogRunningSumsOverAKill(t *testing.T) {
	for _, phase := range []string{"passing", "flushing", "offsets", "ending", "applying"} {
		t.Run(phase, func(t *testing.T) {
			l := newLogLab(t, "sums", 2)
			committed, all := l.read("out", true), l.read("out", false)
			l.produce(l.numbers(0, 10)...)
			c := l.start("a")
			l.awaitCount(committed, 20, 60*time.Second)
			c.arm(phase, 30, "kill")
			l.produce(l.numbers(10, 5)...)
			c.awaitKilled(30 * time.Second)
			if phase == "ending" {
				l.eventually(10*time.Second, "the aborted records are there", func() bool { return all.Count() >= 30 })
			}
			l.produce(l.numbers(15, 5)...)
			c = l.start("a")
			l.awaitCount(committed, 40, 60*time.Second)
			c.close()
			if n := l.fold(committed, triangle); n != 40 {
				t.Fatalf("%d records, want 40", n)
			}
		})
	}
}

// TestChangelogZombie: one of two instances stalls with pending output past its
// session; the other takes over. When it goes on, nothing of it becomes visible,
// its repartition records are aborted with it, and it joins again by itself. Real
// Kafka, real processes.
func TestChangelogZombie(t *testing.T) {
	for _, phase := range []string{"offsets", "ending"} {
		t.Run(phase, func(t *testing.T) {
			l := newLogLab(t, "counts", 4)
			committed := l.read("out", true)
			a, b := l.start("a"), l.start("b")
			both := func() bool { return len(a.now().Tasks) == 4 && len(b.now().Tasks) == 4 }
			l.eventually(60*time.Second, "both have four tasks", both)
			l.produce(l.words(0, 400, 20)...)
			l.awaitCount(committed, 400, 30*time.Second)
			a.arm(phase, a.now().Records+1, "stop")
			l.produce(l.words(400, 400, 20)...)
			l.eventually(30*time.Second, "the other has all tasks", func() bool { return len(b.now().Tasks) == 8 })
			l.awaitCount(committed, 800, 30*time.Second)
			l.must(a.p.Resume())
			l.eventually(60*time.Second, "it is back", both)
			l.produce(l.words(800, 400, 20)...)
			l.awaitCount(committed, 1200, 30*time.Second)
			a.close()
			b.close()
			if n := l.running(committed); n != 1200 {
				t.Fatalf("%d records, want 1200", n)
			}
		})
	}
}

// TestChangelogTransactionalInput: after a clean stop the group's offsets are the
// ends, trailing markers included. Real Kafka.
func TestChangelogTransactionalInput(t *testing.T) {
	l := newLogLab(t, "sums", 2)
	l.produceInTransaction(true, l.numbers(0, 10)...)
	l.produceInTransaction(false, l.numbers(1000, 3)...)
	l.produceInTransaction(true, l.numbers(10, 1)...)
	l.produceInTransaction(false, l.numbers(1000, 1)...)
	committed := l.read("out", true)
	a := l.run("a")
	l.awaitCount(committed, 22, 60*time.Second)
	a.close()
	l.fold(committed, triangle)
	ends := l.offsets(kafka.Latest, "in")
	for p, o := range l.groupOffsets() {
		if o.Offset != ends[p] || ends[p] != 19 {
			t.Errorf("partition %d: the group's offset is %d, the end is %d, want 19", p, o.Offset, ends[p])
		}
	}
}

// TestChangelogRestore: state comes back on a machine that had none, while the
// other tasks go on. Real Kafka.
func TestChangelogRestore(t *testing.T) {
	l := newLogLab(t, "counts", 4)
	committed := l.read("out", true)
	a := l.run("a")
	l.produce(l.words(0, 5000, 500)...)
	l.awaitCount(committed, 5000, 60*time.Second)
	b := l.run("b")
	l.eventually(60*time.Second, "both have tasks", func() bool {
		return a.State() == tidegate.Running && b.State() == tidegate.Running && len(b.Health().Tasks) == 4 && len(b.Health().Restoring) == 0
	})
	l.produce(l.words(5000, 1000, 500)...)
	l.awaitCount(committed, 6000, 60*time.Second)
	a.close()
	l.produce(l.words(6000, 1000, 500)...)
	l.awaitCount(committed, 7000, 60*time.Second)
	b.close()
	l.running(committed)
}
