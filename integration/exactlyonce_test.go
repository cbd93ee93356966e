package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testkit"
)

// numbers makes records key→1…n behind from, for one key in each partition.
func (l *lab) numbers(from, n int) (out []testkit.Message) {
	for p := range l.parts {
		for i := range n {
			out = append(out, testkit.Message{
				Partition: p, Key: fmt.Appendf(nil, "key-%d", p), Value: fmt.Append(nil, from+i+1), Timestamp: 1_700_000_000_000 + int64(from+i),
			})
		}
	}
	return out
}

// triangle is the running sum of 1, 2, 3, …: the value behind last.
func triangle(_ string, last int64) int64 {
	n := int64(0)
	for s := int64(0); s < last; s += n {
		n++
	}
	return last + n + 1
}

// TestRunningSumsOverAKill: ten records each committed, five more and kill -9
// before their checkpoint completes, five more: twenty running sums each, once.
// Real Kafka and S3, a real process.
func TestRunningSumsOverAKill(t *testing.T) {
	l := newLab(t, "sums", 2)
	committed, all := l.read("out", true), l.read("out", false)
	l.produce(l.numbers(0, 10)...)
	c := l.start("a")
	l.awaitCount(committed, 20, 60*time.Second)

	c.arm("prepared", 30, "kill")
	l.produce(l.numbers(10, 5)...)
	c.awaitKilled(30 * time.Second)
	l.eventually(10*time.Second, "the aborted records are there", func() bool { return all.Count() >= 30 })
	if n := committed.Count(); n != 20 {
		t.Fatalf("%d records are visible before their checkpoint completed, want 20", n)
	}
	l.produce(l.numbers(15, 5)...)
	c = l.start("a")
	l.awaitCount(committed, 40, 60*time.Second)
	c.close()
	if n := l.fold(committed, triangle); n != 40 {
		t.Fatalf("%d records, want 40", n)
	}
	if all.Count() <= 40 {
		t.Fatalf("a read_uncommitted reader sees %d records, want more than 40", all.Count())
	}
}
