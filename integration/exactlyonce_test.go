package integration

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint/storetest"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/record"
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

// TestEmptyIntervals: without any input checkpoints complete and their
// transactions end. Real Kafka and S3.
func TestEmptyIntervals(t *testing.T) {
	l := newLab(t, "sums", 2)
	a := l.run("a")
	a.awaitRunning()
	first := a.Health().LastCheckpoint
	for range 3 {
		last := a.Health().LastCheckpoint
		l.eventually(20*time.Second, "the next checkpoint completes", func() bool { return a.Health().LastCheckpoint > last })
	}
	instance := a.Health().Instance
	a.close()
	if a.Health().LastCheckpoint <= first {
		t.Fatal("no checkpoint completed")
	}
	states := l.transactions(instance)
	ended := 0
	for id, st := range states {
		switch st {
		case "CompleteCommit", "CompleteAbort":
			ended++
		case "Empty":
		default:
			t.Errorf("transaction %s is %s after a clean stop", id, st)
		}
	}
	if ended == 0 {
		t.Fatalf("no transaction was used: %v", states)
	}
	for p, o := range l.groupOffsets() {
		if o.Offset != 0 {
			t.Errorf("partition %d: the group's offset is %d, want 0", p, o.Offset)
		}
	}
}

// transactions returns the states of an instance's transactional ids.
func (l *lab) transactions(instance string) map[string]string {
	l.Helper()
	life := ""
	for _, o := range l.groupOffsets() {
		life, _, _ = strings.Cut(o.Metadata, "/")
	}
	if life == "" {
		l.Fatal("the group has no offsets")
	}
	states := map[string]string{}
	for k := range 8 {
		id := fmt.Sprintf("%s-%s-%s-%d", l.base.App, life, instance, k)
		found, err := l.client.K.Transactions().Describe(l.ctx, id)
		l.must(err)
		if st := found[id]; st.Found {
			states[id] = st.State
		}
	}
	return states
}

// TestTransactionalInput: behind the last record of transactional input stands
// a marker, behind an aborted transaction nothing visible at all. After a clean
// stop the group's offsets are the ends. Real Kafka and S3.
func TestTransactionalInput(t *testing.T) {
	l := newLab(t, "sums", 2)
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
		if o.Offset != ends[p] || ends[p] != 10+1+3+1+1+1+1+1 {
			t.Errorf("partition %d: the group's offset is %d, the end is %d, want 19", p, o.Offset, ends[p])
		}
	}
}

// produceInTransaction writes records in one transaction.
func (l *lab) produceInTransaction(commit bool, list ...testkit.Message) {
	l.Helper()
	txns := l.client.K.Transactions()
	h, err := txns.Init(l.ctx, l.prefix+"input", time.Minute)
	l.must(err)
	w := l.client.K.NewWriter(kafka.WriterConfig{})
	defer w.Close()
	p := w.NewProducer(kafka.ProducerOptions{ID: h.ProducerID, Epoch: h.ProducerEpoch, TransactionalID: h.TransactionalID})
	open := map[int32]*kafka.Builder{}
	for _, m := range list {
		if open[m.Partition] == nil {
			open[m.Partition] = w.NewBatch(ids.TopicPartition{Topic: l.topic("in"), Partition: m.Partition})
		}
		open[m.Partition].Append(m.Key, m.Value, m.Headers, m.Timestamp)
	}
	for _, b := range open {
		p.Enqueue(b, kafka.Token{})
	}
	l.must(p.Wait(l.ctx))
	l.must(txns.End(l.ctx, h, commit))
}

// TestCrashAfterTheDecision: killed when it read the decision and before it
// committed. The output becomes visible with the next start, once. Real Kafka
// and S3, a real process.
func TestCrashAfterTheDecision(t *testing.T) {
	l := newLab(t, "sums", 2)
	committed := l.read("out", true)
	c := l.start("a")
	c.awaitRunning()
	c.arm("decided", 10, "kill")
	l.produce(l.numbers(0, 10)...)
	c.awaitKilled(60 * time.Second)
	if n := committed.Count(); n != 0 {
		t.Fatalf("%d records are visible before the commit", n)
	}
	c = l.start("a")
	l.awaitCount(committed, 20, 60*time.Second)
	l.produce(l.numbers(10, 5)...)
	l.awaitCount(committed, 30, 60*time.Second)
	c.close()
	l.fold(committed, triangle)
}

// TestDecidedTransactionThatTimedOut: as before, but the application stays down
// until the broker aborted the decided transaction. That output is lost, and it
// says so: R23. Real Kafka and S3, a real process.
func TestDecidedTransactionThatTimedOut(t *testing.T) {
	t.Parallel()
	l := newLab(t, "sums", 2)
	l.base.Interval, l.base.Timeout, l.base.Aborts = 300*time.Millisecond, 3*time.Second, 0
	l.base.Session, l.base.Restart, l.base.Transaction = 2*time.Second, time.Second, 8*time.Second
	committed := l.read("out", true)
	c := l.start("a")
	c.awaitRunning()
	c.arm("decided", 10, "kill")
	l.produce(l.numbers(0, 10)...)
	c.awaitKilled(60 * time.Second)
	n := c.now().Checkpoint
	instance := c.now().Instance
	l.eventually(60*time.Second, "the broker aborts the transaction", func() bool {
		for _, st := range l.transactions(instance) {
			if st == "Ongoing" || st == "PrepareAbort" || st == "PrepareEpochFence" {
				return false
			}
		}
		return true
	})
	c = l.start("a")
	err := c.awaitFailed(60 * time.Second)
	l.wantError(err, "output of completed checkpoint", "is lost", instance, l.topic("out"), "WithTransactionTimeout")
	if got := committed.Count(); got != 0 {
		t.Errorf("%d records of checkpoint %d are visible", got, n)
	}
}

// TestFailureInTheAsyncPart: the store fails in the middle of a checkpoint,
// which is aborted while processing goes on. What is visible is always what
// completed checkpoints cover; the next one that completes covers all. The
// aborted one leaves no object behind. Real Kafka; S3 behind a store that fails
// on demand.
func TestFailureInTheAsyncPart(t *testing.T) {
	l := newLab(t, "counts", 4)
	l.base.Timeout = 4 * time.Second
	faulty := storetest.NewFaulty(l.store(), 1, storetest.Faults{})
	committed, all := l.read("out", true), l.read("out", false)
	var aborts atomic.Int64
	var aborted sync.Map
	a := l.run("a", tidegate.WithCheckpointStore(faulty), tidegate.WithToleratedAborts(20), tidegate.WithLogger(
		slog.New(logHook(func(msg string, attrs map[string]string) {
			if msg == "checkpoint aborted" {
				aborted.Store(attrs["checkpoint"], true)
				aborts.Add(1)
			}
		}))))
	l.produce(l.words(0, 500, 20)...)
	l.awaitCount(committed, 500, 60*time.Second)

	faulty.Set(storetest.Faults{Down: true})
	before := aborts.Load()
	l.produce(l.words(500, 500, 20)...)
	l.eventually(40*time.Second, "two checkpoints are aborted", func() bool { return aborts.Load() >= before+2 })
	last := a.Health().LastCheckpoint
	l.produce(l.words(1000, 500, 20)...)
	l.eventually(20*time.Second, "records go on while the store is down", func() bool { return all.Count() >= 1500 })
	if committed.Count() != 500 || a.Health().LastCheckpoint != last {
		t.Fatalf("%d records are visible without a completed checkpoint, want 500", committed.Count())
	}
	faulty.Set(storetest.Faults{})
	l.awaitCount(committed, 1500, 60*time.Second)
	l.eventually(60*time.Second, "nothing of aborted checkpoints stays in the store", func() bool {
		for _, n := range l.objects() {
			if _, ok := aborted.Load(fmt.Sprint(int64(n.Checkpoint))); ok {
				return false
			}
		}
		return true
	})
	a.close()
	if n := l.running(committed); n != 1500 || all.Count() != 1500 {
		t.Fatalf("%d records are visible, %d were written: an abort of a checkpoint must repeat nothing", n, all.Count())
	}
}

// TestAbortedThenCompletedThenCrash: checkpoint n is aborted after transactions
// were prepared, a later one completes, its owner dies before committing: the
// output of both intervals becomes visible, in order, once. Real Kafka, an S3
// server that goes away, a real process.
func TestAbortedThenCompletedThenCrash(t *testing.T) {
	server, bucket := servers.RequireOwnS3(t)
	l := newLabOn(t, servers.RequireKafka(t), server, bucket, "counts", 2)
	l.base.Timeout, l.base.Aborts = 3*time.Second, 10
	committed, all := l.read("out", true), l.read("out", false)
	c := l.start("a")
	l.produce(l.words(0, 200, 10)...)
	l.awaitCount(committed, 200, 60*time.Second)
	l.must(server.Kill())
	l.produce(l.words(200, 200, 10)...)
	l.eventually(20*time.Second, "records go on", func() bool { return all.Count() >= 400 })
	l.eventually(60*time.Second, "a checkpoint is aborted", func() bool { return c.logged("checkpoint aborted") })
	l.produce(l.words(400, 200, 10)...)
	l.eventually(20*time.Second, "records go on", func() bool { return all.Count() >= 600 })
	c.arm("decided", 800, "kill") // both hops count
	l.must(server.Start(l.ctx))
	c.awaitKilled(60 * time.Second)
	if n := committed.Count(); n != 200 {
		t.Fatalf("%d records are visible, want 200", n)
	}
	c = l.start("a")
	l.awaitCount(committed, 600, 60*time.Second)
	c.close()
	l.running(committed)
}

// TestFiveInstancesToOne: four of five instances are killed before the first
// checkpoint. Their open transactions are aborted at once, long before their
// timeout, so consumers are not held up. Real Kafka and S3, real processes.
func TestFiveInstancesToOne(t *testing.T) {
	l := newLab(t, "counts", 10)
	l.base.Interval, l.base.Timeout = 30*time.Second, 10*time.Second
	committed, all := l.read("out", true), l.read("out", false)
	var list []*child
	for i := range 5 {
		list = append(list, l.start(fmt.Sprint("i", i)))
	}
	l.eventually(90*time.Second, "all five run tasks", func() bool {
		for _, c := range list {
			if h := c.now(); h.State != "Running" || len(h.Tasks) == 0 {
				return false
			}
		}
		return true
	})
	l.produce(l.words(0, 2000, 100)...)
	l.eventually(20*time.Second, "all output is written", func() bool { return all.Count() >= 2000 })
	if committed.Count() != 0 {
		t.Fatal("a checkpoint came before the kills: the test proves nothing")
	}
	var killed []string
	for _, c := range list[1:] {
		killed = append(killed, c.now().Instance)
		l.must(c.p.Kill())
	}
	open := func() (n int) {
		for _, inst := range killed {
			for _, st := range l.transactions(inst) {
				if st == "Ongoing" {
					n++
				}
			}
		}
		return n
	}
	if open() == 0 {
		t.Fatal("the killed instances had no open transaction: the test proves nothing")
	}
	begun := time.Now()
	l.eventually(30*time.Second, "the open transactions of the dead are aborted", func() bool { return open() == 0 })
	t.Logf("aborted %v after the kill; the transaction timeout is %v", time.Since(begun).Round(time.Millisecond), l.base.Transaction)
	list[0].await(60*time.Second, "it runs all tasks", func(h childHealth) bool { return h.State == "Running" && len(h.Tasks) == 20 })
	l.eventually(30*time.Second, "it wrote all again", func() bool { return all.Count() >= 4000 })
	list[0].close() // takes a checkpoint
	l.awaitCount(committed, 2000, 10*time.Second)
	l.running(committed)
}

// TestOrderAndHeaders: through a hop and three instances, one of which is
// killed, records of a key keep their order and everything of them: value,
// timestamp, headers. Real Kafka and S3, real processes.
func TestOrderAndHeaders(t *testing.T) {
	l := newLab(t, "copy", 3)
	committed := l.read("out", true)
	var list []*child
	for i := range 3 {
		list = append(list, l.start(fmt.Sprint("i", i)))
	}
	const keys, rounds, perRound = 30, 4, 600
	message := func(i int) testkit.Message {
		k := i % keys
		m := testkit.Message{
			Partition: int32(k % 3), Value: fmt.Appendf(nil, "key%d %d", k, i/keys), Timestamp: 1_700_000_000_000 + int64(i),
			Headers: record.Headers{{Key: "n", Value: fmt.Append(nil, i)}, {Key: "empty"}, {Key: "n", Value: []byte("again")}},
		}
		return m
	}
	for r := range rounds {
		var in []testkit.Message
		for i := range perRound {
			in = append(in, message(r*perRound+i))
		}
		l.produce(in...)
		if r == 1 {
			list[0].awaitRunning()
			l.must(list[0].p.Kill())
		}
	}
	l.awaitCount(committed, rounds*perRound, 90*time.Second)
	next := map[string]int{}
	for _, part := range committed.All() {
		for _, m := range part {
			k, n, _ := strings.Cut(string(m.Value), " ")
			i, _ := strconv.Atoi(n)
			if k != string(m.Key) || i != next[k] {
				t.Fatalf("key %s at offset %d: %q, want number %d", m.Key, m.Offset, m.Value, next[k])
			}
			next[k]++
			key, _ := strconv.Atoi(strings.TrimPrefix(k, "key"))
			want := message(i*keys + key)
			if m.Timestamp != want.Timestamp || fmt.Sprint(m.Headers) != fmt.Sprint(want.Headers) {
				t.Fatalf("key %s at offset %d: timestamp %d headers %q, want %d %q", m.Key, m.Offset, m.Timestamp, m.Headers, want.Timestamp, want.Headers)
			}
		}
	}
}
