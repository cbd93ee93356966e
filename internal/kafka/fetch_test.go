package kafka

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

func TestRoundTripKeepsKeysNullsHeadersTimestampsAndBatchStarts(t *testing.T) {
	e := start(t)
	e.topic("t", 2)
	w := e.c.NewWriter(WriterConfig{BatchBytes: 1})
	p := e.idempotent(w)
	at := tp("t", 1)

	b := w.NewBatch(at)
	b.AppendTagged(record.Header{Key: "tg", Value: []byte{1, 2}}, []byte("a"), []byte("1"), record.Headers{{Key: "h", Value: nil}, {Key: "", Value: []byte{}}}, 1700000000123)
	b.Append(nil, nil, nil, 5)
	b.Append([]byte{}, []byte{}, nil, 0)
	p.Enqueue(b, Token{})
	b = w.NewBatch(at)
	b.Append([]byte("b"), []byte("2"), record.Headers{{Key: "h", Value: []byte("x")}}, 7)
	p.Enqueue(b, Token{})
	e.must(p.Wait(e.ctx))

	f := e.c.NewFetcher(FetcherConfig{})
	_, c := e.subscribe(f, at, ReadUncommitted, 0)
	e.eventually("all records", func() bool { return c.caughtUp(4) })

	want := []record.Raw{
		{Key: []byte("a"), Value: []byte("1"), Headers: record.Headers{{Key: "tg", Value: []byte{1, 2}}, {Key: "h"}, {Key: "", Value: []byte{}}}, Timestamp: 1700000000123, Offset: 0},
		{Timestamp: 5, Offset: 1},
		{Key: []byte{}, Value: []byte{}, Timestamp: 0, Offset: 2},
		{Key: []byte("b"), Value: []byte("2"), Headers: record.Headers{{Key: "h", Value: []byte("x")}}, Timestamp: 7, Offset: 3},
	}
	c.get(func(c *collector) {
		if got, want := fmt.Sprintf("%#v", c.records), fmt.Sprintf("%#v", want); got != want {
			t.Errorf("records\n%s\nwant\n%s", got, want)
		}
		if !slices.Equal(c.starts, []int64{0, 3}) {
			t.Errorf("batches begin at %v, want 0 and 3", c.starts)
		}
	})
}

func TestSubscribingInTheMiddleOfARecordBatchShowsWhatWasSkipped(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	w := e.c.NewWriter(WriterConfig{BatchBytes: 1})
	p := e.idempotent(w)
	put(w, p, tp("t", 0), Token{}, "a", "b", "c")
	put(w, p, tp("t", 0), Token{}, "d")
	e.must(p.Wait(e.ctx))
	f := e.c.NewFetcher(FetcherConfig{})
	_, c := e.subscribe(f, tp("t", 0), ReadUncommitted, 2)
	e.eventually("all records", func() bool { return c.caughtUp(4) })
	c.get(func(c *collector) {
		if c.skipped != 2 || !slices.Equal(c.starts, []int64{3}) {
			t.Errorf("skipped %d, batches begin at %v; want 2 and [3]", c.skipped, c.starts)
		}
	})
	if got := c.values(); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("values %v", got)
	}
}

func TestReadCommittedLeavesOutAbortedAndOpenTransactionsAndMovesPastMarkers(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	at := tp("t", 0)
	w := e.c.NewWriter(WriterConfig{})
	x := e.c.Transactions()

	p1, h1 := e.transactional(w, "one")
	put(w, p1, at, Token{}, "a1", "a2") // 0, 1
	e.must(p1.Wait(e.ctx))
	p2, h2 := e.transactional(w, "two")
	put(w, p2, at, Token{}, "b1") // 2
	e.must(p2.Wait(e.ctx))
	e.must(x.End(e.ctx, h1, false)) // 3
	e.must(x.End(e.ctx, h2, true))  // 4
	plain := e.idempotent(w)
	put(w, plain, at, Token{}, "c1") // 5
	e.must(plain.Wait(e.ctx))
	p3, h3 := e.transactional(w, "one")
	put(w, p3, at, Token{}, "d1") // 6, open
	e.must(p3.Wait(e.ctx))

	f := e.c.NewFetcher(FetcherConfig{})
	_, committed := e.subscribe(f, at, ReadCommitted, 0)
	_, raw := e.subscribe(f, at, ReadUncommitted, 0)
	e.eventually("committed reader at the last stable offset", func() bool { return committed.caughtUp(6) })
	e.eventually("uncommitted reader at the high watermark", func() bool { return raw.caughtUp(7) })
	if got := committed.values(); !slices.Equal(got, []string{"b1", "c1"}) {
		t.Errorf("committed %v", got)
	}
	if got := raw.values(); !slices.Equal(got, []string{"a1", "a2", "b1", "c1", "d1"}) {
		t.Errorf("uncommitted %v", got)
	}
	committed.get(func(c *collector) {
		if c.aborted != 2 || c.last.HighWatermark != 7 {
			t.Errorf("aborted %d, high watermark %d; want 2 and 7", c.aborted, c.last.HighWatermark)
		}
	})

	// The last thing in the log is a marker: the position moves past it.
	e.must(x.End(e.ctx, h3, true)) // 7
	e.eventually("committed reader behind the last marker", func() bool { return committed.caughtUp(8) })
	e.eventually("uncommitted reader behind the last marker", func() bool { return raw.caughtUp(8) })
	if got := committed.values(); !slices.Equal(got, []string{"b1", "c1", "d1"}) {
		t.Errorf("committed %v", got)
	}
}

func TestWantIsAnsweredThoughNothingChanged(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	f := e.c.NewFetcher(FetcherConfig{MaxWait: 10 * time.Millisecond})
	s, c := e.subscribe(f, tp("t", 0), ReadUncommitted, 0)
	e.eventually("the first answer", func() bool { var n int; c.get(func(c *collector) { n = c.batches }); return n == 1 })
	asked := time.Now()
	s.Want()
	e.eventually("an answer after Want", func() bool {
		var ok bool
		c.get(func(c *collector) { ok = c.last.FetchedAt.After(asked) && c.last.CaughtUp() })
		return ok
	})
	var n int
	c.get(func(c *collector) { n = c.batches })
	if n != 2 {
		t.Errorf("%d batches, want 2: nothing else changed", n)
	}
}

func TestCreditBoundsWhatIsHandedOut(t *testing.T) {
	e := start(t)
	e.topic("t", 2)
	at := tp("t", 0)
	w := e.c.NewWriter(WriterConfig{BatchBytes: 1})
	p := e.idempotent(w)
	for i := range 20 {
		put(w, p, at, Token{}, fmt.Sprintf("%d-%01000d", i, 0))
	}
	e.must(p.Wait(e.ctx))
	f := e.c.NewFetcher(FetcherConfig{MaxWait: 10 * time.Millisecond, PartitionMaxBytes: 1100})
	clock := e.rounds(f, tp("t", 1))
	c := &collector{hold: true}
	s, err := f.Subscribe(SubscribeOptions{TP: at, MaxBytes: 3000, Sink: c.sink})
	e.must(err)
	count := func() (n int) { c.get(func(c *collector) { n = len(c.records) }); return n }
	e.eventually("some records", func() bool { return count() >= 3 })
	s.Want()
	clock(5)
	if n := count(); n > 4 {
		t.Fatalf("%d records of 1000 bytes handed out with a bound of 3000", n)
	}
	e.eventually("the rest, as credit comes back", func() bool {
		c.get(func(c *collector) {
			for _, b := range c.held {
				b.Credit()
				b.Release()
			}
			c.held = nil
		})
		return count() == 20
	})
}

// rounds returns a clock: it waits for n answers to another partition of the
// same leader, which had to be asked for in the same requests.
func (e *env) rounds(f *Fetcher, at ids.TopicPartition) func(n int) {
	s, c := e.subscribe(f, at, ReadUncommitted, 0)
	seen := func() (n int) { c.get(func(c *collector) { n = c.batches }); return n }
	return func(n int) {
		for range n {
			before := seen()
			s.Want()
			e.eventually("another answer", func() bool { return seen() > before })
		}
	}
}

func TestSeekGivesAGenerationAndDropsWhatCameBefore(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	at := tp("t", 0)
	w := e.c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	put(w, p, at, Token{}, seq("v", 0, 5)...)
	e.must(p.Wait(e.ctx))
	f := e.c.NewFetcher(FetcherConfig{MaxWait: 10 * time.Millisecond})
	s, c := e.subscribe(f, at, ReadUncommitted, 0)
	e.eventually("all records", func() bool { return c.caughtUp(5) })
	c.get(func(c *collector) {
		c.gen = s.SeekTo(3)
		c.records, c.next = nil, 0
		if c.gen != 2 {
			t.Errorf("generation %d, want 2", c.gen)
		}
	})
	e.eventually("all records again", func() bool { return c.caughtUp(5) })
	if got := c.values(); !slices.Equal(got, []string{"v3", "v4"}) {
		t.Errorf("values %v", got)
	}
}

func TestPauseAndResume(t *testing.T) {
	e := start(t)
	e.topic("t", 2)
	at := tp("t", 0)
	w := e.c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	put(w, p, at, Token{}, "a")
	e.must(p.Wait(e.ctx))
	f := e.c.NewFetcher(FetcherConfig{MaxWait: 5 * time.Millisecond})
	c := &collector{}
	s, err := f.Subscribe(SubscribeOptions{TP: at, Paused: true, Sink: c.sink})
	e.must(err)
	s.Want()
	e.rounds(f, tp("t", 1))(5)
	if got := c.values(); got != nil {
		t.Fatalf("a paused subscription got %v", got)
	}
	s.Resume()
	e.eventually("records after Resume", func() bool { return c.caughtUp(1) })
	s.Close()
	if _, err := f.Subscribe(SubscribeOptions{TP: at, Sink: c.sink}); err != nil {
		t.Fatalf("subscribe again after Close: %v", err)
	}
}

func TestOffsetOutOfRangeNamesBothEndsAndSeekGoesOn(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	at := tp("t", 0)
	w := e.c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	for _, v := range seq("v", 0, 6) {
		put(w, p, at, Token{}, v)
	}
	e.must(p.Wait(e.ctx))
	e.must(e.cluster.DeleteRecords("t", 0, 4))
	f := e.c.NewFetcher(FetcherConfig{MaxWait: 5 * time.Millisecond})
	s, c := e.subscribe(f, at, ReadUncommitted, 1)
	e.eventually("the error", func() bool { return c.err() != nil })
	var oor *OffsetOutOfRangeError
	if !errors.As(c.err(), &oor) || oor.Offset != 1 || oor.LogStart != 4 || oor.End != 6 {
		t.Fatalf("error %v", c.err())
	}
	s.SeekTo(oor.LogStart)
	e.eventually("the rest", func() bool { return c.caughtUp(6) })
	s.SeekTo(99)
	e.eventually("the error above the end", func() bool { var n int; c.get(func(c *collector) { n = len(c.errs) }); return n == 2 })
	c.get(func(c *collector) {
		if !errors.As(c.errs[1], &oor) || oor.Offset != 99 || oor.End != 6 {
			t.Errorf("error %v", c.errs[1])
		}
	})
}

func TestFetchFollowsALeaderAndSurvivesErrors(t *testing.T) {
	e := start(t, kfake.NumBrokers(3))
	e.topic("t", 1)
	at := tp("t", 0)
	w := e.c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	f := e.c.NewFetcher(FetcherConfig{MaxWait: 5 * time.Millisecond})
	_, c := e.subscribe(f, at, ReadUncommitted, 0)
	var want []string
	for i := range 6 {
		want = append(want, fmt.Sprint(i))
		put(w, p, at, Token{}, fmt.Sprint(i))
		e.must(p.Wait(e.ctx))
		e.eventually("record after move", func() bool { return c.caughtUp(int64(i + 1)) })
		e.must(e.cluster.MoveTopicPartition("t", 0, (e.cluster.LeaderFor("t", 0)+1)%3))
		e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.OffsetNotAvailable, Count: 2})
	}
	if got := c.values(); !slices.Equal(got, want) {
		t.Errorf("values %v", got)
	}
}

func TestFetchOfAnUnknownTopicIsReportedAfterAWhile(t *testing.T) {
	e := start(t)
	f := e.c.NewFetcher(FetcherConfig{MaxWait: 5 * time.Millisecond, UnknownTopicFor: 100 * time.Millisecond})
	s, c := e.subscribe(f, tp("nowhere", 0), ReadCommitted, 0)
	e.eventually("the error", func() bool { return c.err() != nil })
	if Classify(c.err()) != ClassInvalid {
		t.Errorf("class %v of %v", Classify(c.err()), c.err())
	}
	e.topic("nowhere", 1)
	s.SeekTo(0)
	e.eventually("the topic once it is there", func() bool {
		var n int
		c.get(func(c *collector) { n = c.batches - len(c.errs) })
		return n > 0
	})
}

func TestABrokerThatIsAwayForAWhile(t *testing.T) {
	dir := t.TempDir()
	first, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(listenLoopback), kfake.DataDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(first.ListenAddrs()[0])
	number, _ := strconv.Atoi(port)
	if err := first.CreateTopic("t", 1, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := contextFor(60 * time.Second)
	defer cancel()
	c, err := NewClient(Config{Brokers: first.ListenAddrs(), Guard: Loopback})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, ctx: ctx, cluster: first, c: c}
	var down, up atomic.Int32
	state := func(_ string, err error) {
		if err != nil {
			down.Add(1)
		} else if down.Load() > 0 {
			up.Add(1)
		}
	}
	at := tp("t", 0)
	f := c.NewFetcher(FetcherConfig{MaxWait: 5 * time.Millisecond, OnState: state})
	w := c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	_, got := e.subscribe(f, at, ReadUncommitted, 0)
	put(w, p, at, Token{}, "a")
	e.must(p.Wait(ctx))
	e.eventually("the first record", func() bool { return got.caughtUp(1) })

	first.Close()
	put(w, p, at, Token{}, "b")
	e.eventually("the report", func() bool { return down.Load() > 0 })
	if err := p.Err(); err != nil {
		t.Fatalf("a broker that is away failed the producer: %v", err)
	}
	second, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(listenLoopback), kfake.DataDir(dir), kfake.Ports(number))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	e.must(p.Wait(ctx))
	e.eventually("the second record", func() bool { return got.caughtUp(2) })
	if up.Load() == 0 {
		t.Error("the broker's return was not reported")
	}
	if v := got.values(); !slices.Equal(v, []string{"a", "b"}) {
		t.Errorf("values %v", v)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	noGoroutines(t)
}

func TestCloseDoesNotWaitForABrokerThatIsSilent(t *testing.T) {
	e := start(t, kfake.SleepOutOfOrder())
	e.topic("t", 1)
	release := make(chan struct{})
	defer close(release)
	e.cluster.ControlKey(1, func(kmsg.Request) (kmsg.Response, error, bool) {
		e.cluster.KeepControl()
		e.cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	f := e.c.NewFetcher(FetcherConfig{})
	e.subscribe(f, tp("t", 0), ReadUncommitted, 0)
	e.eventually("a fetch under way", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.loops) == 1
	})
	begin := time.Now()
	e.must(f.Close())
	if d := time.Since(begin); d > 3*time.Second {
		t.Errorf("Close took %v", d)
	}
}
