package integration

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/record"
)

// produceTo writes records to any topic of the application, as they are.
func (l *lab) produceTo(topic string, list ...testkit.Message) {
	l.Helper()
	l.must(l.client.Produce(l.ctx, topic, list))
}

// TestZombie: one of two instances stops in its tracks (SIGSTOP, in the middle
// of a batch, with output that no checkpoint covers) past its session timeout.
// The other takes over. When it goes on, nothing of it becomes visible, what it
// still writes into the repartition topic is skipped, and it joins again by
// itself. Real Kafka and S3, real processes.
func TestZombie(t *testing.T) {
	l := newLab(t, "stall", 2)
	committed := l.read("out", true)
	repartition, err := l.client.Read(l.base.App+"-by-word-repartition", 2, false)
	a, b := l.start("a"), l.start("b")
	l.eventually(90*time.Second, "both run tasks", func() bool {
		return a.now().State == "Running" && b.now().State == "Running" && len(a.now().Tasks) == 2 && len(b.now().Tasks) == 2
	})
	if err != nil {
		t.Fatal(err)
	}
	defer repartition.Close()
	zombie, other := a, b
	if slices.Contains(b.now().Tasks, "0_0") {
		zombie, other = b, a
	}
	was := zombie.now().Instance
	l.produce(l.words(0, 600, 50)...)
	l.awaitCount(committed, 600, 60*time.Second)
	// Partition 0: some records before and many behind the one that stalls.
	var in []testkit.Message
	for i := range 3000 {
		m := testkit.Message{Partition: 0, Value: fmt.Appendf(nil, "w%d", i%50), Timestamp: 1_700_000_000_000 + int64(i)}
		if i == 700 {
			m.Value = []byte(stallWord)
		}
		in = append(in, m)
	}
	l.produce(in...)
	// The other one meets the record that stalls, too; it goes on at once.
	stopResuming := resumeOften(l, other)
	other.await(60*time.Second, "it takes all tasks over", func(h childHealth) bool { return len(h.Tasks) == 4 })
	l.awaitCount(committed, 3600, 60*time.Second)
	stopResuming()
	l.running(committed)
	before := repartition.Count()

	l.must(zombie.p.Resume())
	zombie.await(60*time.Second, "it joins again as another instance", func(h childHealth) bool {
		return h.Instance != was && h.State == "Running"
	})
	// What a zombie writes late, made sure of: its records again, byte by byte,
	// under its old incarnation, and some under another life.
	late := l.lateRecords(repartition)
	if len(late) < 200 {
		t.Fatalf("only %d records of a former incarnation: the test proves nothing", len(late))
	}
	l.produceTo(l.base.App+"-by-word-repartition", late...)
	l.produceTo(l.base.App+"-by-word-repartition", otherLife(late[:50])...)
	more := l.words(0, 1000, 50)
	stopResuming = resumeOften(l, a, b)
	defer stopResuming()
	l.produce(more...)
	l.awaitCount(committed, 4600, 60*time.Second)
	other.await(60*time.Second, "both share the tasks again", func(h childHealth) bool { return len(h.Tasks) == 2 })
	stopResuming()
	a.close()
	b.close()
	if n := l.running(committed); n != 4600 {
		t.Fatalf("%d records, want 4600", n)
	}
	t.Logf("the repartition topic held %d records before the zombie went on, %d in the end", before, repartition.Count())
}

// resumeOften sends SIGCONT again and again until it is called.
func resumeOften(l *lab, list ...*child) func() {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-end:
				tick.Stop()
				return
			case <-tick.C:
				for _, c := range list {
					_ = c.p.Resume()
				}
			}
		}
	}()
	closed := false
	return func() {
		if !closed {
			closed = true
			close(end)
			<-done
		}
	}
}

// lateRecords returns what the first incarnation of each upstream task wrote,
// each record with its own channel header.
func (l *lab) lateRecords(r *testkit.Reader) (out []testkit.Message) {
	l.Helper()
	all := r.All()
	first := map[ids.TaskID]ids.Incarnation{}
	last := map[ids.TaskID]ids.Incarnation{}
	for _, collect := range []bool{false, true} {
		for _, p := range slices.Sorted(maps.Keys(all)) {
			var reader barrier.SegmentReader
			list := all[p]
			raw := make([]record.Raw, len(list))
			for i, m := range list {
				raw[i] = record.Raw{Offset: m.Offset, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value, Headers: m.Headers}
			}
			reader.Reset(raw)
			for {
				seg, ok, err := reader.Next()
				l.must(err)
				if !ok {
					break
				}
				if seg.Kind != barrier.HeaderData {
					continue
				}
				c := seg.Channel
				if !collect {
					if first[c.Task] == 0 {
						first[c.Task] = c.Inc
					}
					first[c.Task], last[c.Task] = min(first[c.Task], c.Inc), max(last[c.Task], c.Inc)
					continue
				}
				if c.Inc != first[c.Task] || c.Inc == last[c.Task] {
					continue
				}
				header := record.Header{Key: barrier.HeaderKey, Value: barrier.AppendDataHeader(nil, seg.Life, c)}
				for _, rec := range seg.Records {
					out = append(out, testkit.Message{
						Partition: p, Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp, Headers: record.Headers{header},
					})
				}
			}
		}
	}
	return out
}

func otherLife(list []testkit.Message) (out []testkit.Message) {
	for _, m := range list {
		m.Headers = record.Headers{{Key: barrier.HeaderKey, Value: barrier.AppendDataHeader(nil, 4711, barrier.Channel{Inc: 1 << 40})}}
		out = append(out, m)
	}
	return out
}

// TestEmittedAtTheBarrier: a timer writes what a store collected, and forgets
// it; the process is killed between decision and commit, and again in every
// other phase. Every input is in exactly one output. Real Kafka and S3, real
// processes.
func TestEmittedAtTheBarrier(t *testing.T) {
	l := newLab(t, "late", 2)
	committed := l.read("out", true)
	sum := func() (sum int64) {
		for _, list := range committed.All() {
			for _, m := range list {
				sum += int64(binary.BigEndian.Uint64(m.Value))
			}
		}
		return sum
	}
	want := int64(0)
	n := 0
	feed := func(count int) {
		var in []testkit.Message
		for range count {
			n++
			want += int64(n)
			in = append(in, testkit.Message{
				Partition: int32(n % 2), Key: fmt.Appendf(nil, "k%d", n%7), Value: fmt.Append(nil, n), Timestamp: 1_700_000_000_000 + int64(n),
			})
		}
		l.produce(in...)
	}
	c := l.start("a")
	for _, phase := range []string{"decided", "aligning", "uploading", "prepared", "decided", "committing"} {
		c.awaitRunning()
		feed(333)
		c.arm(phase, 0, "kill")
		feed(333)
		c.awaitKilled(60 * time.Second)
		c = l.start("a")
	}
	c.awaitRunning()
	feed(500)
	// A record of each partition far ahead fires the timer for what is left.
	for p := range int32(2) {
		l.produce(testkit.Message{Partition: p, Key: []byte("end"), Value: []byte("0"), Timestamp: 1_800_000_000_000})
	}
	l.eventually(60*time.Second, "all input is in the output", func() bool { return sum() >= want })
	c.close()
	if got := sum(); got != want {
		t.Fatalf("the outputs add up to %d, the inputs to %d", got, want)
	}
}

// TestAlignmentBoundOfOneByte: what waits behind a barrier is dropped and read
// again, since next to nothing may wait in memory; three instances, kills in
// every phase. Real Kafka and S3, real processes.
func TestAlignmentBoundOfOneByte(t *testing.T) {
	l := newLab(t, "counts", 3)
	l.base.AlignmentBytes = 1
	l.base.Interval = 300 * time.Millisecond
	committed := l.read("out", true)
	list := []*child{l.start("i0"), l.start("i1"), l.start("i2")}
	total := 0
	for k, phase := range []string{"aligning", "uploading", "prepared", "decided", "committing"} {
		c := list[k%3]
		c.awaitRunning()
		for range 5 {
			l.produce(l.words(total, 1000, 40)...)
			total += 1000
		}
		c.arm(phase, 0, "kill")
		c.awaitKilled(60 * time.Second)
		list[k%3] = l.start(c.name)
	}
	l.awaitCount(committed, total, 90*time.Second)
	for _, c := range list {
		c.close()
	}
	l.running(committed)
}
