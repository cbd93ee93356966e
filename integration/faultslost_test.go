package integration

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
)

// TestFaultLostOutput: the only instance is killed between the decision of a
// checkpoint and the commit of its output, and nobody starts again before the
// broker has aborted it. The next start ends with an error that names the
// checkpoint; with AllowLostOutput it goes on without that output, with state and
// offsets behind it. Real Kafka and S3, a real process.
func TestFaultLostOutput(t *testing.T) {
	onlyMakeFaults(t)
	l := newLab(t, "sums", 2)
	l.base.Interval, l.base.Timeout, l.base.Aborts = 300*time.Millisecond, 3*time.Second, 0
	l.base.Session, l.base.Restart, l.base.Transaction = 2*time.Second, time.Second, 8*time.Second
	committed, all := l.read("out", true), l.read("out", false)
	c := l.start("a")
	l.produce(l.numbers(0, 10)...)
	l.awaitCount(committed, 20, 60*time.Second)
	was := c.now().Instance
	c.arm("decided", 30, "kill")
	l.produce(l.numbers(10, 10)...)
	c.awaitKilled(60 * time.Second)
	written := all.Count()
	if written == committed.Count() {
		t.Fatal("it was killed with nothing to commit")
	}
	dead := time.Now()
	l.eventually(60*time.Second, "the broker aborts the transaction", func() bool {
		for _, st := range l.transactions(was) {
			if st == "Ongoing" || st == "PrepareAbort" || st == "PrepareEpochFence" {
				return false
			}
		}
		return time.Since(dead) > l.base.Transaction
	})
	visible := committed.Count()
	err := l.run("b").wait(60 * time.Second)
	l.wantError(err, "output of completed checkpoint", "is lost", l.topic("out"), "AllowLostOutput(")
	found := regexp.MustCompile(`AllowLostOutput\((\d+)\)`).FindStringSubmatch(err.Error())
	n, perr := strconv.ParseInt(found[1], 10, 64)
	l.must(perr)
	l.wantError(l.run("b", tidegate.AllowLostOutput(n+1)).wait(60*time.Second), "is lost")

	b := l.run("b", tidegate.AllowLostOutput(n))
	b.awaitRunning()
	l.produce(l.numbers(20, 10)...)
	l.awaitCount(committed, visible+20, 60*time.Second)
	b.close()
	// What was lost is missing, and only that: the next sums go on behind it.
	if got, want := committed.Count(), all.Count()-(written-visible); got != want {
		t.Fatalf("%d outputs are visible, want %d", got, want)
	}
	for p, list := range committed.All() {
		if v := binary.BigEndian.Uint64(list[len(list)-1].Value); v != 30*31/2 {
			t.Fatalf("the last sum of partition %d is %d: state must be that of all input", p, v)
		}
	}
}
