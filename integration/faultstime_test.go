package integration

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/runtime"
	"github.com/tidegate/tidegate/serde"
)

// clockTicks writes a record whenever a wall-clock timer fires.
type clockTicks struct {
	ctx   *tidegate.ProcessorContext[string, string]
	fired *atomic.Int64
}

func (c *clockTicks) Init(ctx *tidegate.ProcessorContext[string, string]) error {
	c.ctx = ctx
	_, err := ctx.Schedule(200*time.Millisecond, tidegate.WallClock, func(int64) error {
		c.fired.Add(1)
		return nil
	})
	return err
}

func (c *clockTicks) Process(k string, v tidegate.Opt[string]) error {
	text, _ := v.Get()
	return c.ctx.Forward(k, text)
}

// TestFaultClockJump: the machine's clock is set an hour forward and two hours
// back while records flow. Sessions, checkpoints and transactions are timed by the
// monotonic clock and do not notice; wall-clock timers go on, once at a jump
// forward, and from the new time at a jump back. The clock is that of the test,
// Kafka and S3 are real.
func TestFaultClockJump(t *testing.T) {
	l := newLab(t, "counts", 2)
	var fired atomic.Int64
	b := tidegate.NewBuilder()
	b.Stream(l.topic("in"), serde.String(), serde.String()).
		Process("ticks", func() tidegate.Processor[string, string, string, string] { return &clockTicks{fired: &fired} }).
		As(serde.String(), serde.String()).
		GroupBy("by-word", func(_, v string) string { return v }, serde.String()).
		Count("counts").
		ToStream().
		To(l.topic("out"))
	topo, err := b.Build()
	l.must(err)
	var ahead atomic.Int64 // of the real clock
	log := &logLines{}
	committed := l.read("out", true)
	a := l.runTopology(topo, "a", log.option(), settingsOf(func(c *runtime.Config) {
		c.TestRules.Tasks.Wall = func(now time.Time) time.Time { return now.Add(time.Duration(ahead.Load())) }
	}))
	f := l.feed(50, 20, 50*time.Millisecond, committed.Count)
	f.progress(60*time.Second, 2)
	timers := func(what string) {
		t.Helper()
		before := fired.Load()
		l.eventually(10*time.Second, what+": wall-clock timers fire", func() bool { return fired.Load() >= before+4 })
	}
	timers("before")
	for _, jump := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
		begun, before := time.Now(), fired.Load()
		ahead.Add(int64(jump))
		timers("after a jump of " + jump.String())
		most := 2 * (2 + int64(time.Since(begun)/(200*time.Millisecond))) // two tasks
		if n := fired.Load() - before; n > most {
			t.Fatalf("after a jump of %v wall-clock timers fired %d times in %v", jump, n, time.Since(begun))
		}
		f.progress(30*time.Second, 2)
		if n := log.count("checkpoint aborted") + log.count("declared dead") + log.count("rolling back"); n > 0 {
			t.Fatalf("after a jump of %v: aborts, deaths or rollbacks: %d", jump, n)
		}
	}
	total := f.end()
	l.awaitCount(committed, total, 60*time.Second)
	a.close()
	l.running(committed)
}

// TestFaultCheckpointTimeout: a user function takes longer than a checkpoint may.
// The checkpoint is aborted, later ones too, up to the tolerated number; when the
// function returns, the next one completes, and nothing was rolled back. Real
// Kafka and S3.
func TestFaultCheckpointTimeout(t *testing.T) {
	l := newLab(t, "counts", 2)
	l.base.Timeout, l.base.Aborts = time.Second, 50
	var slow atomic.Bool
	entered := make(chan struct{}, 1)
	b := tidegate.NewBuilder()
	release := make(chan struct{})
	b.Stream(l.topic("in"), serde.String(), serde.String()).
		Peek(func(_, v string) {
			if slow.CompareAndSwap(true, false) {
				entered <- struct{}{}
				<-release
			}
		}).
		GroupBy("by-word", func(_, v string) string { return v }, serde.String()).
		Count("counts").
		ToStream().
		To(l.topic("out"))
	topo, err := b.Build()
	l.must(err)
	log := &logLines{}
	committed, all := l.read("out", true), l.read("out", false)
	a := l.runTopology(topo, "a", log.option())
	l.produce(l.words(0, 500, 20)...)
	l.awaitCount(committed, 500, 60*time.Second)
	slow.Store(true)
	l.produce(l.words(500, 500, 20)...)
	<-entered
	l.eventually(30*time.Second, "three checkpoints are aborted", func() bool { return log.count("checkpoint aborted") >= 3 })
	if n := committed.Count(); n != 500 {
		t.Fatalf("%d records are visible, want 500", n)
	}
	close(release)
	l.awaitCount(committed, 1000, 60*time.Second)
	a.close()
	l.running(committed)
	if n := all.Count(); n != 1000 {
		t.Fatalf("%d records were written: an abort must repeat nothing", n)
	}
	if log.count("reason=") < 3 {
		t.Fatal("the log does not say why checkpoints were aborted")
	}
}

// TestFaultPausedPastTheTransactionTimeout: the only instance is stopped in its
// tracks with output that no checkpoint covers, until the broker has aborted its
// transaction. When it goes on, it starts again from the last checkpoint, by
// itself; every output appears once. Real Kafka and S3, a real process.
func TestFaultPausedPastTheTransactionTimeout(t *testing.T) {
	onlyMakeFaults(t)
	l := newLab(t, "sums", 2)
	l.base.Interval, l.base.Timeout, l.base.Aborts = 300*time.Millisecond, 3*time.Second, 0
	l.base.Session, l.base.Restart, l.base.Transaction = 2*time.Second, time.Second, 8*time.Second
	committed := l.read("out", true)
	c := l.start("a")
	l.produce(l.numbers(0, 10)...)
	l.awaitCount(committed, 20, 60*time.Second)
	was := c.now().Instance
	c.arm("uploading", 30, "stop")
	l.produce(l.numbers(10, 10)...)
	ongoing := func() (n int) {
		for _, st := range l.transactions(was) {
			if st == "Ongoing" || st == "PrepareAbort" || st == "PrepareEpochFence" {
				n++
			}
		}
		return n
	}
	l.eventually(30*time.Second, "it has an open transaction", func() bool { return ongoing() > 0 })
	paused := time.Now()
	l.eventually(60*time.Second, "the broker aborts the transaction", func() bool {
		return time.Since(paused) > l.base.Transaction && ongoing() == 0
	})
	l.must(c.p.Resume())
	l.awaitCount(committed, 40, 60*time.Second)
	l.produce(l.numbers(20, 10)...)
	l.awaitCount(committed, 60, 60*time.Second)
	c.close()
	l.fold(committed, triangle)
}
