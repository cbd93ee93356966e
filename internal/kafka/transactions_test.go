package kafka

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/ids"
)

func TestASecondClientCommitsATransactionByItsHandle(t *testing.T) {
	e := start(t)
	e.topic("t", 2)
	e.topic("in", 2)
	w := e.c.NewWriter(WriterConfig{})
	p, h := e.transactional(w, "A-1")
	if _, ok := p.Began(); ok {
		t.Error("began before anything was sent")
	}
	before := time.Now()
	put(w, p, tp("t", 0), Token{}, "a")
	put(w, p, tp("t", 1), Token{}, "b")
	e.must(p.Wait(e.ctx))
	e.must(p.AddOffsets(e.ctx, "A", []Offset{{TP: tp("in", 0), Offset: 7, Metadata: "life/3"}}))
	if at, ok := p.Began(); !ok || at.Before(before) || at.After(time.Now()) {
		t.Errorf("began at %v, %v", at, ok)
	}
	if got := p.Partitions(); !slices.Equal(got, []ids.TopicPartition{tp("t", 0), tp("t", 1)}) {
		t.Errorf("partitions %v", got)
	}

	other := e.client().Transactions()
	states, err := other.Describe(e.ctx, "A-1", "nobody")
	e.must(err)
	if s := states["A-1"]; !s.Found || s.State != "Ongoing" || s.Handle != h || s.Committed(h) || len(s.Partitions) < 2 {
		t.Errorf("state %+v", s)
	}
	if states["nobody"].Found {
		t.Errorf("an unknown id was found: %+v", states["nobody"])
	}
	if got := e.readAll(tp("t", 0), ReadCommitted); len(got) != 0 {
		t.Errorf("visible before the commit: %v", got)
	}
	e.must(other.End(e.ctx, h, true))
	e.must(other.End(e.ctx, h, true)) // it is so already
	e.eventually("visible after the commit", func() bool { return len(e.readAll(tp("t", 0), ReadCommitted)) == 1 })
	offs, err := e.c.Admin().FetchOffsets(e.ctx, "A", tp("in", 0), tp("in", 1))
	e.must(err)
	if len(offs) != 1 || offs[tp("in", 0)].Offset != 7 || offs[tp("in", 0)].Metadata != "life/3" {
		t.Errorf("offsets %v", offs)
	}
	states, err = other.Describe(e.ctx, "A-1")
	e.must(err)
	// A broker says CompleteCommit; kfake forgets at once and says Empty.
	if s := states["A-1"]; !s.Committed(h) && (s.State != "Empty" || s.Handle != h) {
		t.Errorf("state after the commit %+v", s)
	}
}

func TestCommittedWantsTheSameHandle(t *testing.T) {
	h := ids.TxnHandle{TransactionalID: "x", ProducerID: 1, ProducerEpoch: 2}
	for state, want := range map[string]bool{"PrepareCommit": true, "CompleteCommit": true, "PrepareAbort": false, "CompleteAbort": false, "Ongoing": false, "Empty": false} {
		if got := (TxnState{Found: true, State: state, Handle: h}).Committed(h); got != want {
			t.Errorf("%s: %v", state, got)
		}
		h2 := h
		h2.ProducerEpoch++
		if (TxnState{Found: true, State: state, Handle: h2}).Committed(h) {
			t.Errorf("%s of another epoch counts as committed", state)
		}
	}
}

func TestEndOfATransactionThatIsNotThere(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	w := e.c.NewWriter(WriterConfig{})
	x := e.c.Transactions()
	p, h := e.transactional(w, "A-1")
	put(w, p, tp("t", 0), Token{}, "a")
	e.must(p.Wait(e.ctx))
	e.must(x.End(e.ctx, h, false))
	err := x.End(e.ctx, h, true)
	if !LostTransaction(err) || InDoubt(err) {
		t.Errorf("commit after abort: %v", err)
	}
	_, h2 := e.transactional(w, "A-1") // fences h
	if h2 == h {
		t.Fatalf("the same handle twice: %v", h)
	}
	if err := x.End(e.ctx, h, true); !LostTransaction(err) {
		t.Errorf("commit with an old handle: %v", err)
	}
	put(w, p, tp("t", 0), Token{}, "late")
	if err := p.Wait(e.ctx); Classify(err) != ClassFenced && Classify(err) != ClassAbortable {
		t.Errorf("writing with an old handle: %v, class %v", err, Classify(err))
	}
}

// The producer epoch must not move at commit: the handle in a checkpoint names
// one transaction. Version 5 of EndTxn moves it.
func TestVersionsKeepTheEpoch(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	limits := map[int16]int16{0: 11, 22: 5, 24: 3, 25: 3, 26: 4, 28: 4}
	for key, limit := range limits {
		e.cluster.ControlKey(key, func(r kmsg.Request) (kmsg.Response, error, bool) {
			e.cluster.KeepControl()
			if r.GetVersion() > limit || key == 26 && r.GetVersion() > 3 {
				t.Errorf("request %d goes out as version %d", key, r.GetVersion())
			}
			return nil, nil, false
		})
	}
	w := e.c.NewWriter(WriterConfig{})
	p, h := e.transactional(w, "A-1")
	put(w, p, tp("t", 0), Token{}, "a")
	e.must(p.Wait(e.ctx))
	e.must(p.AddOffsets(e.ctx, "A", []Offset{{TP: tp("t", 0), Offset: 1}}))
	e.must(e.c.Transactions().End(e.ctx, h, true))
	states, err := e.c.Transactions().Describe(e.ctx, "A-1")
	e.must(err)
	if states["A-1"].Handle != h {
		t.Errorf("the handle moved from %v to %v", h, states["A-1"].Handle)
	}
}

func TestTransactionRequestsRetryWhatIsRetriable(t *testing.T) {
	e := start(t)
	e.topic("t", 1)
	e.topic("in", 1)
	for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		for _, err := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress} {
			e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err})
		}
	}
	w := e.c.NewWriter(WriterConfig{})
	p, h := e.transactional(w, "A-1")
	put(w, p, tp("t", 0), Token{}, "a")
	e.must(p.AddOffsets(e.ctx, "A", []Offset{{TP: tp("in", 0), Offset: 3}}))
	e.must(p.Wait(e.ctx))
	e.must(e.c.Transactions().End(e.ctx, h, true))
	if got := e.readAll(tp("t", 0), ReadCommitted); !slices.Equal(got, []string{"a"}) {
		t.Errorf("values %v", got)
	}
}

// R20: an InitProducerId without an answer may arrive later; it is not sent
// again and the error says so.
func TestInitWithoutAnAnswerIsInDoubtAndNotRepeated(t *testing.T) {
	e := start(t)
	var sent atomic.Int32
	e.cluster.ControlKey(22, func(kmsg.Request) (kmsg.Response, error, bool) {
		e.cluster.KeepControl()
		sent.Add(1)
		return nil, errors.New("cut the connection"), true
	})
	_, err := e.c.Transactions().Init(e.ctx, "A-1", time.Minute)
	if err == nil || !InDoubt(err) {
		t.Fatalf("error %v, in doubt %v", err, InDoubt(err))
	}
	if n := sent.Load(); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

func TestInitWithoutAConnectionIsNotInDoubt(t *testing.T) {
	e := start(t)
	addr := e.cluster.ListenAddrs()
	_, err := e.c.Transactions().Init(e.ctx, "A-1", time.Minute) // knows the coordinator
	e.must(err)
	e.cluster.Close()
	ctx, cancel := contextFor(300 * time.Millisecond)
	defer cancel()
	e.eventually("connections are gone", func() bool {
		_, err = e.c.Transactions().Init(ctx, "A-1", time.Minute)
		return err != nil && !InDoubt(err)
	})
	if Classify(err) != ClassRetriable {
		t.Errorf("class %v of %v (%v)", Classify(err), err, addr)
	}
}

func TestTransactionTimeoutAboveTheBrokersIsInvalid(t *testing.T) {
	e := start(t)
	v, err := e.c.Admin().BrokerConfig(e.ctx, "transaction.max.timeout.ms")
	if err != nil || v != "900000" {
		t.Errorf("transaction.max.timeout.ms is %q, %v", v, err)
	}
	_, err = e.c.Transactions().Init(e.ctx, "A-1", 16*time.Minute)
	if Classify(err) != ClassInvalid {
		t.Errorf("class %v of %v", Classify(err), err)
	}
}
