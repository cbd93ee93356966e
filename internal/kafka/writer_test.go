package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/ids"
)

// readAll returns the visible values of a partition, in order.
func (e *env) readAll(at ids.TopicPartition, iso Isolation) []string {
	e.t.Helper()
	place := Latest
	if iso == ReadCommitted {
		place = LastStable
	}
	ends, err := e.c.Admin().ListOffsets(e.ctx, place, at)
	e.must(err)
	f := e.c.NewFetcher(FetcherConfig{MaxWait: 5 * time.Millisecond})
	defer f.Close()
	_, c := e.subscribe(f, at, iso, 0)
	e.eventually("reading all", func() bool { return c.caughtUp(ends[at]) })
	return c.values()
}

// K1: errors of all kinds and moves of the leader neither lose, double nor
// reorder batches.
func TestRetriedBatchesStayInOrderOnceEach(t *testing.T) {
	e := start(t, kfake.NumBrokers(3))
	e.topic("t", 4)
	w := e.c.NewWriter(WriterConfig{MaxRequestBytes: 300, BatchBytes: 150})
	p := e.idempotent(w)
	errs := []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.KafkaStorageError, kerr.UnknownTopicOrPartition}
	want := map[int32][]string{}
	for i := range 400 {
		part := int32(i % 4)
		v := fmt.Sprint(i)
		want[part] = append(want[part], v)
		put(w, p, tp("t", part), Token{}, v)
		if i%7 == 0 {
			e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: errs[i/7%len(errs)]})
		}
		if i%50 == 0 {
			e.must(e.cluster.MoveTopicPartition("t", part, int32(i/50%3)))
			e.must(p.Wait(e.ctx))
		}
	}
	e.must(p.Wait(e.ctx))
	for part, w := range want {
		if got := e.readAll(tp("t", part), ReadUncommitted); !slices.Equal(got, w) {
			t.Errorf("partition %d: %v\nwant %v", part, got, w)
		}
	}
	if n := w.InFlight(); n != 0 {
		t.Errorf("%d bytes in flight after everything is acknowledged", n)
	}
}

// What waits behind a batch in flight is merged: same order, every callback and
// token as if each had gone alone, fewer batches in the log; and nothing goes
// together that a limit or a token keeps apart.
func TestWaitingBatchesAreMerged(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	e.topic("other", 1)
	w := e.c.NewWriter(WriterConfig{BatchBytes: 2000})
	p, q := e.idempotent(w), e.idempotent(w)
	var held atomic.Bool
	held.Store(true)
	open := make(chan struct{})
	e.cluster.ControlKey(0, func(kmsg.Request) (kmsg.Response, error, bool) {
		e.cluster.KeepControl()
		if held.Load() {
			e.cluster.SleepControl(func() { <-open })
		}
		return nil, nil, false
	})
	want := seq("v", 0, 200)
	var answers atomic.Int64
	var last Token
	enqueue := func(v string, after Token, limit int) Token {
		b := w.NewBatch(tp("t", 0))
		b.Limit(limit)
		b.Append([]byte("k"), []byte(v), nil, 1000+int64(len(v)))
		return p.EnqueueThen(b, after, func(err error) {
			if err == nil {
				answers.Add(1)
			}
		})
	}
	other := put(w, q, tp("other", 0), Token{}, "x")
	for i, v := range want {
		after, limit := Token{}, 0
		if i == 100 {
			after = other
		}
		if i >= 150 {
			limit = 300
		}
		last = enqueue(v, after, limit)
	}
	if last.Acked() || answers.Load() > 0 {
		t.Fatal("answered while the broker holds the first request")
	}
	held.Store(false)
	close(open)
	e.must(p.Wait(e.ctx))
	if !last.Acked() || answers.Load() != 200 {
		t.Errorf("%d of 200 batches were answered", answers.Load())
	}
	if got := e.readAll(tp("t", 0), ReadUncommitted); !slices.Equal(got, want) {
		t.Errorf("read %v", got)
	}
	f := e.c.NewFetcher(FetcherConfig{MaxWait: 5 * time.Millisecond})
	defer f.Close()
	_, c := e.subscribe(f, tp("t", 0), ReadUncommitted, 0)
	e.eventually("reading all", func() bool { return c.caughtUp(200) })
	if n := len(c.starts); n > 40 || n < 4 {
		t.Errorf("%d batches for 200 that were handed over", n)
	}
	for i, r := range c.records {
		if r.Timestamp != 1000+int64(len(want[i])) {
			t.Fatalf("record %d has timestamp %d", i, r.Timestamp)
		}
	}
	if n := w.InFlight(); n != 0 {
		t.Errorf("%d bytes in flight after everything is acknowledged", n)
	}
}

// cutAgainAndAgain cuts the writer's connections until the result is called.
func cutAgainAndAgain(w *Writer) (stop func()) {
	ended, cut := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(cut)
		for {
			select {
			case <-ended:
				return
			case <-time.After(3 * time.Millisecond):
			}
			w.pool.mu.Lock()
			var conns []*conn
			for _, c := range w.pool.conns {
				conns = append(conns, c)
			}
			w.pool.mu.Unlock()
			for _, c := range conns {
				w.pool.drop(c)
			}
		}
	}()
	return func() { close(ended); <-cut }
}

// A connection that ends with requests under way leaves them in doubt; repeated
// with the same sequences they are appended once.
func TestBatchesInDoubtAreAppendedOnce(t *testing.T) {
	e := start(t, kfake.NumBrokers(2))
	e.topic("t", 1)
	e.must(e.cluster.MoveTopicPartition("t", 0, 0))
	w := e.c.NewWriter(WriterConfig{MaxRequestBytes: 100, BatchBytes: 1})
	p := e.idempotent(w)
	stop := cutAgainAndAgain(w)
	want := seq("v", 0, 300)
	for _, v := range want {
		put(w, p, tp("t", 0), Token{}, v)
	}
	err := p.Wait(e.ctx)
	stop()
	e.must(err)
	if got := e.readAll(tp("t", 0), ReadUncommitted); !slices.Equal(got, want) {
		t.Errorf("%d values, want %d: %v", len(got), len(want), got)
	}
}

// A broker that starts again has forgotten the producers whose last batch has an
// old timestamp, so that one in doubt must not be repeated; a young one may be.
func TestOldBatchesInDoubtEndAProducerOfOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		age  time.Duration
		fail bool
	}{
		{"a day", 30 * time.Hour, true}, {"too old", repeatedFor + time.Minute, true},
		{"young enough", repeatedFor - time.Minute, false}, {"ahead of the clock", -time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) { testOnce(t, c.age, c.fail) })
	}
}

func testOnce(t *testing.T, age time.Duration, fail bool) {
	e := start(t, kfake.NumBrokers(1))
	e.topic("t", 1)
	w := e.c.NewWriter(WriterConfig{MaxRequestBytes: 100, BatchBytes: 1})
	id, epoch, err := e.c.Transactions().InitProducer(e.ctx)
	e.must(err)
	heard := make(chan error, 1)
	p := w.NewProducer(ProducerOptions{ID: id, Epoch: epoch, Once: true, OnFail: func(err error) { heard <- err }})
	stop := cutAgainAndAgain(w)
	for range 300 {
		b := w.NewBatch(tp("t", 0))
		b.Append(nil, []byte("v"), nil, time.Now().Add(-age).UnixMilli())
		p.Enqueue(b, Token{})
	}
	err = p.Wait(e.ctx)
	stop()
	if !fail {
		e.must(err)
		return
	}
	if err == nil || !InDoubt(err) || !strings.Contains(err.Error(), "may have been written or not") {
		t.Fatalf("error %v", err)
	}
	if err := <-heard; err == nil {
		t.Error("OnFail heard of no error")
	}
	if got := e.readAll(tp("t", 0), ReadUncommitted); len(got) == 300 {
		t.Error("all were written, so nothing was in doubt")
	}
}

// K2: to a partition that does not know the producer id any first sequence is
// acceptable, so nothing may follow the first batch before it is acknowledged.
func TestOneInFlightUntilTheFirstAcknowledgement(t *testing.T) {
	e := start(t, kfake.SleepOutOfOrder())
	e.topic("t", 1)
	var requests atomic.Int32
	release := make(chan struct{})
	e.cluster.ControlKey(0, func(kmsg.Request) (kmsg.Response, error, bool) {
		e.cluster.KeepControl()
		if requests.Add(1) == 1 {
			e.cluster.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	w := e.c.NewWriter(WriterConfig{MaxRequestBytes: 1})
	p := e.idempotent(w)
	for _, v := range seq("v", 0, 10) {
		put(w, p, tp("t", 0), Token{}, v)
	}
	e.eventually("the first request", func() bool { return requests.Load() == 1 })
	w.mu.Lock()
	for _, q := range p.queues {
		if len(q.sent) != 1 {
			t.Errorf("%d batches in flight before the first acknowledgement", len(q.sent))
		}
	}
	w.mu.Unlock()
	close(release)
	e.must(p.Wait(e.ctx))
	if got := e.readAll(tp("t", 0), ReadUncommitted); !slices.Equal(got, seq("v", 0, 10)) {
		t.Errorf("values %v", got)
	}
}

func TestTokensOrderBatchesOfTwoProducers(t *testing.T) {
	e := start(t)
	e.topic("t", 2)
	w := e.c.NewWriter(WriterConfig{})
	p1 := e.idempotent(w)
	p2 := e.idempotent(w)
	at := tp("t", 0)
	held := e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Partitions: []int32{0}, Err: kerr.NotEnoughReplicas, Count: -1})
	tok := put(w, p1, at, Token{}, "1a")
	tok = put(w, p1, at, tok, "1b")
	put(w, p2, at, tok, "2a")
	put(w, p2, at, Token{}, "2b")
	put(w, p2, tp("t", 1), Token{}, "other")
	e.eventually("the other partition is not held up", func() bool { return e.end(tp("t", 1)) == 1 })
	if tok.Acked() {
		t.Error("the token is satisfied although nothing was acknowledged")
	}
	held.Remove()
	e.must(p2.Wait(e.ctx))
	if !tok.Acked() || p1.Wait(e.ctx) != nil {
		t.Error("the first producer is not acknowledged")
	}
	if got := e.readAll(at, ReadUncommitted); !slices.Equal(got, []string{"1a", "1b", "2a", "2b"}) {
		t.Errorf("order %v", got)
	}
}

func (e *env) end(at ids.TopicPartition) int64 {
	e.t.Helper()
	ends, err := e.c.Admin().ListOffsets(e.ctx, Latest, at)
	e.must(err)
	return ends[at]
}

func TestAProducerThatWaitsForAFailedOneFailsToo(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	w := e.c.NewWriter(WriterConfig{})
	p1, p2 := e.idempotent(w), e.idempotent(w)
	held := e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	defer held.Remove()
	tok := put(w, p1, tp("t", 0), Token{}, "1")
	put(w, p2, tp("t", 0), tok, "2")
	p1.Close()
	if err := p2.Wait(e.ctx); err == nil || !errors.Is(err, ErrClosed) {
		t.Errorf("error %v, want that of the closed producer", err)
	}
	// A batch enqueued at a dead producer gives a token that is never satisfied.
	p3 := e.idempotent(w)
	put(w, p3, tp("t", 0), put(w, p1, tp("t", 0), Token{}, "x"), "3")
	if err := p3.Wait(e.ctx); err == nil {
		t.Error("a batch behind one that was thrown away was sent")
	}
	e.eventually("no bytes left", func() bool { return w.InFlight() == 0 })
}

func TestDefiniteErrorsAreReportedOnceWithTheirPartition(t *testing.T) {
	for _, c := range []struct {
		err   *kerr.Error
		class Class
	}{
		{kerr.MessageTooLarge, ClassInvalid},
		{kerr.TopicAuthorizationFailed, ClassAuthorization},
		{kerr.InvalidProducerEpoch, ClassFenced},
		{kerr.ProducerFenced, ClassFenced},
		{kerr.InvalidTimestamp, ClassInvalid},
		{kerr.InvalidTxnState, ClassAbortable},
		{kerr.OutOfOrderSequenceNumber, ClassCorrupted},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			e := start(t)
			e.topic("t", 3)
			w := e.c.NewWriter(WriterConfig{MaxRequestBytes: 1})
			id, epoch, err := e.c.Transactions().InitProducer(e.ctx)
			e.must(err)
			failed := make(chan error, 10)
			p := w.NewProducer(ProducerOptions{ID: id, Epoch: epoch, OnFail: func(err error) { failed <- err }})
			e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Partitions: []int32{1}, Err: c.err, Count: -1})
			for i := range 30 {
				put(w, p, tp("t", int32(i%3)), Token{}, "v")
			}
			if err := p.Wait(e.ctx); err == nil {
				t.Fatal("no error")
			}
			var ke *Error
			if err := <-failed; !errors.As(err, &ke) || ke.TP != tp("t", 1) || ke.Class != c.class {
				t.Errorf("error %v, class %v, partition %v", err, Classify(err), ke.TP)
			}
			if !errors.Is(p.Err(), ke) {
				t.Errorf("Err() is %v", p.Err())
			}
			e.eventually("no bytes left", func() bool { return w.InFlight() == 0 })
			p.Close()
			if len(failed) != 0 {
				t.Error("reported more than once")
			}
		})
	}
}

func TestAnUnknownTopicIsDefiniteAfterAWhile(t *testing.T) {
	e := start(t)
	w := e.c.NewWriter(WriterConfig{UnknownTopicFor: 50 * time.Millisecond})
	p := e.idempotent(w)
	put(w, p, tp("nowhere", 0), Token{}, "v")
	err := p.Wait(e.ctx)
	var ke *Error
	if !errors.As(err, &ke) || ke.Class != ClassInvalid || ke.TP != tp("nowhere", 0) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("error %v", err)
	}
}

func TestATopicThatAppearsInTimeIsWritten(t *testing.T) {
	e := start(t)
	w := e.c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	put(w, p, tp("soon", 0), Token{}, "v")
	e.eventually("an attempt that did not find it", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return p.queues[tp("soon", 0)].tries > 0
	})
	e.topic("soon", 1)
	e.must(p.Wait(e.ctx))
}

func TestTimestampsThatCannotBeStoredFailTheProducer(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	w := e.c.NewWriter(WriterConfig{})
	for _, ts := range []int64{-1, MaxTimestamp + 1} {
		p := e.idempotent(w)
		b := w.NewBatch(tp("t", 0))
		b.Append(nil, nil, nil, ts)
		p.Enqueue(b, Token{})
		if err := p.Wait(e.ctx); Classify(err) != ClassInvalid {
			t.Errorf("timestamp %d: %v", ts, err)
		}
	}
}

func TestCompressionRoundTrip(t *testing.T) {
	e := start(t)
	e.topic("t", 5)
	want := seq(strings.Repeat("long ", 20), 0, 500)
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		w := e.c.NewWriter(WriterConfig{Compression: codec, CompressionLevel: sarama.CompressionLevelDefault})
		p := e.idempotent(w)
		at := tp("t", int32(codec))
		put(w, p, at, Token{}, want...)
		e.must(p.Wait(e.ctx))
		if got := e.readAll(at, ReadUncommitted); !slices.Equal(got, want) {
			t.Errorf("%v: %d values", codec, len(got))
		}
	}
}

func TestFullAndRoom(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	w := e.c.NewWriter(WriterConfig{MaxInFlightBytes: 1000})
	p := e.idempotent(w)
	select {
	case <-w.Room():
	default:
		t.Fatal("an empty writer has no room")
	}
	held := e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	for range 3 {
		put(w, p, tp("t", 0), Token{}, strings.Repeat("x", 400))
	}
	if !w.Full() {
		t.Fatal("the writer is not full")
	}
	room := w.Room()
	select {
	case <-room:
		t.Fatal("there is room")
	default:
	}
	held.Remove()
	select {
	case <-room:
	case <-e.ctx.Done():
		t.Fatal("room was never reported")
	}
	e.must(p.Wait(e.ctx))
}

func TestBarrierAndCloseOrder(t *testing.T) {
	e := start(t)
	e.topic("t", 3)
	w := e.c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	e.must(p.Wait(e.ctx)) // of nothing
	held := e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{2}, Topic: "t", Err: kerr.NotEnoughReplicas, Count: -1})
	for i := range int32(3) {
		put(w, p, tp("t", i), Token{}, "a")
	}
	got := make(chan error, 2)
	p.Barrier(func(err error) { got <- err })
	short, cancel := context.WithTimeout(e.ctx, 30*time.Millisecond)
	defer cancel()
	if err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait with a held partition: %v", err)
	}
	held.Remove()
	e.must(<-got)
	p.Close()
	p.Barrier(func(err error) { got <- err })
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("barrier after Close: %v", err)
	}
}

func TestEnqueueThenTellsOfEachBatch(t *testing.T) {
	e := start(t)
	e.topic("t", 2)
	w := e.c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	held := e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{1}, Topic: "t", Err: kerr.NotEnoughReplicas, Count: -1})
	defer held.Remove()
	told := make(chan string, 10)
	then := func(at ids.TopicPartition, name string) {
		b := w.NewBatch(at)
		if name != "empty" {
			b.Append(nil, []byte(name), nil, 0)
		}
		p.EnqueueThen(b, Token{}, func(err error) { told <- fmt.Sprintf("%s %v", name, err) })
	}
	then(tp("t", 1), "held")
	then(tp("t", 0), "empty")
	then(tp("t", 0), "free")
	for _, want := range []string{"empty <nil>", "free <nil>"} {
		if got := <-told; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	p.Close()
	then(tp("t", 0), "late")
	for _, want := range []string{"held " + ErrClosed.Error(), "late " + ErrClosed.Error()} {
		if got := <-told; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	e.eventually("no bytes left", func() bool { return w.InFlight() == 0 })
	if len(told) != 0 {
		t.Error("told twice")
	}
}

func TestEmptyBuildersAndDiscard(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	w := e.c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	p.Enqueue(w.NewBatch(tp("t", 0)), Token{})
	w.NewBatch(tp("t", 0)).Discard()
	e.must(p.Wait(e.ctx))
	if n := e.end(tp("t", 0)); n != 0 {
		t.Errorf("end %d, want 0", n)
	}
}

func TestSequenceNumbersWrap(t *testing.T) {
	q := &queue{p: &Producer{w: &Writer{}}, seq: 1<<31 - 2}
	b := &Builder{ptrs: make([]*sarama.Record, 3)}
	q.push(b)
	q.launch()
	if q.seq != 1 {
		t.Errorf("next sequence %d, want 1", q.seq)
	}
}
