package kafka

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/ids"
)

func TestEnsureTopicsCreatesVerifiesAndNamesDifferences(t *testing.T) {
	e := start(t, kfake.NumBrokers(3))
	a := e.c.Admin()
	spec := TopicSpec{Name: "A-control", Partitions: 1, Replication: -1, Configs: InternalConfigs(4 << 20)}
	topics, err := a.EnsureTopics(e.ctx, spec)
	e.must(err)
	top := topics["A-control"]
	if !top.Exists || top.ID == [16]byte{} || top.Partitions != 1 || top.Replication != 3 {
		t.Errorf("topic %+v", top)
	}
	for k, v := range map[string]string{"retention.ms": "-1", "min.insync.replicas": "2", "max.message.bytes": "4194304", "message.timestamp.after.max.ms": maxInt64} {
		if top.Configs[k] != v {
			t.Errorf("%s is %q, want %q", k, top.Configs[k], v)
		}
	}
	again, err := a.EnsureTopics(e.ctx, spec)
	e.must(err)
	if again["A-control"].ID != top.ID {
		t.Error("the topic was made again")
	}

	bad := InternalConfigs(0)
	bad["retention.ms"] = "60000"
	bad["message.timestamp.type"] = "LogAppendTime"
	delete(bad, "min.insync.replicas")
	cfg := map[string]string{}
	maps.Copy(cfg, bad)
	cfg["min.insync.replicas"] = "1"
	e.must(e.cluster.CreateTopic("A-by-user-repartition", 4, cfg))
	_, err = a.EnsureTopics(e.ctx, spec, TopicSpec{Name: "A-by-user-repartition", Partitions: 3, Replication: -1, Configs: InternalConfigs(0)})
	var mm *TopicMismatchError
	if !errors.As(err, &mm) || len(mm.Differences) != 4 {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{
		"topic A-by-user-repartition: number of partitions is 4, want 3",
		"retention.ms is 60000, want -1",
		"message.timestamp.type is LogAppendTime, want CreateTime",
		"min.insync.replicas is 1, want 2",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	err = a.VerifyTopics(e.ctx, TopicSpec{Name: "gone", Partitions: 1})
	if !errors.As(err, &mm) || mm.Differences[0].Have != "missing" {
		t.Errorf("error %v", err)
	}
	e.must(a.DeleteTopics(e.ctx, "A-control", "not there"))
	d, err := a.DescribeTopics(e.ctx, false, "A-control")
	if err != nil || d["A-control"].Exists {
		t.Errorf("after the deletion: %+v, %v", d, err)
	}
}

func TestTopicsMadeByAnotherInstanceMeanwhileAreFine(t *testing.T) {
	e := start(t)
	first := true
	e.cluster.ControlKey(19, func(kmsg.Request) (kmsg.Response, error, bool) {
		if first {
			first = false
			_ = e.cluster.CreateTopic("x", 2, InternalConfigs(0))
		}
		return nil, nil, false
	})
	_, err := e.c.Admin().EnsureTopics(e.ctx, TopicSpec{Name: "x", Partitions: 2, Replication: 1, Configs: InternalConfigs(0)})
	e.must(err)
}

func TestListOffsets(t *testing.T) {
	e := start(t, kfake.NumBrokers(2))
	e.topic("t", 2)
	w := e.c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	for i := range 5 {
		b := w.NewBatch(tp("t", 0))
		b.Append(nil, []byte("x"), nil, int64(1000+i*10))
		p.Enqueue(b, Token{})
	}
	e.must(p.Wait(e.ctx))
	px, hx := e.transactional(w, "id")
	put(w, px, tp("t", 0), Token{}, "open")
	e.must(px.Wait(e.ctx))
	e.must(e.cluster.DeleteRecords("t", 0, 1))
	a := e.c.Admin()
	for _, c := range []struct {
		at   int64
		want int64
	}{{Earliest, 1}, {Latest, 6}, {LastStable, 5}, {1015, 2}, {1020, 2}, {99999, 6}} {
		got, err := a.ListOffsets(e.ctx, c.at, tp("t", 0), tp("t", 1))
		if err != nil || got[tp("t", 0)] != c.want || got[tp("t", 1)] != 0 {
			t.Errorf("at %d: %v, %v; want %d", c.at, got, err, c.want)
		}
	}
	e.must(e.c.Transactions().End(e.ctx, hx, false))
	e.must(a.DeleteRecords(e.ctx, map[ids.TopicPartition]int64{tp("t", 0): 3, tp("t", 1): 0}))
	got, err := a.ListOffsets(e.ctx, Earliest, tp("t", 0))
	if err != nil || got[tp("t", 0)] != 3 {
		t.Errorf("log start %v, %v", got, err)
	}
}

func TestGroupOffsets(t *testing.T) {
	e := start(t)
	e.topic("in", 3)
	a := e.c.Admin()
	e.must(a.CommitOffsets(e.ctx, "A", Membership{}, []Offset{{TP: tp("in", 0), Offset: 5, Metadata: "life/9"}, {TP: tp("in", 2), Offset: 0}}))
	got, err := a.FetchOffsets(e.ctx, "A", tp("in", 0), tp("in", 1), tp("in", 2))
	if err != nil || len(got) != 2 || got[tp("in", 0)] != (Offset{tp("in", 0), 5, "life/9"}) || got[tp("in", 2)].Offset != 0 {
		t.Errorf("offsets %v, %v", got, err)
	}
	// An undecided transaction holds them back (88) until its end.
	w := e.c.NewWriter(WriterConfig{})
	p, h := e.transactional(w, "A-1")
	e.must(p.AddOffsets(e.ctx, "A", []Offset{{TP: tp("in", 0), Offset: 8, Metadata: "life/10"}}))
	short, cancel := context.WithTimeout(e.ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := a.FetchOffsets(short, "A", tp("in", 0)); Classify(err) != ClassRetriable {
		t.Errorf("offsets of an undecided transaction: %v, class %v", err, Classify(err))
	} else if c, ok := Code(err); !ok || c != 88 {
		t.Errorf("code %d of %v", c, err)
	}
	e.must(e.c.Transactions().End(e.ctx, h, true))
	got, err = a.FetchOffsets(e.ctx, "A", tp("in", 0))
	if err != nil || got[tp("in", 0)].Offset != 8 || got[tp("in", 0)].Metadata != "life/10" {
		t.Errorf("offsets %v, %v", got, err)
	}
}

func TestPingNamesTheAddress(t *testing.T) {
	e := start(t)
	e.must(e.c.Admin().Ping(e.ctx))
	c, err := NewClient(Config{Brokers: []string{"127.0.0.1:1"}, Guard: Loopback})
	e.must(err)
	defer c.Close()
	err = c.Admin().Ping(e.ctx)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v", err)
	}
}

func TestTheGuardRefusesBeforeDialling(t *testing.T) {
	c, err := NewClient(Config{Brokers: []string{"192.0.2.1:9092"}, Guard: Loopback})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	begin := time.Now()
	err = c.Admin().Ping(context.Background())
	if err == nil || !strings.Contains(err.Error(), "not a loopback address") || Classify(err) != ClassInvalid {
		t.Errorf("error %v, class %v", err, Classify(err))
	}
	if time.Since(begin) > time.Second {
		t.Error("it dialled")
	}
	for addr, ok := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "example.com:1": false, "10.0.0.1:1": false, "x": false} {
		if err := Loopback(addr); (err == nil) != ok {
			t.Errorf("Loopback(%q) = %v", addr, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{}, {Brokers: []string{"no-port"}}} {
		if _, err := NewClient(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestAuthorizationErrorsListTheACLs(t *testing.T) {
	e := start(t)
	e.topic("in", 1)
	e.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "A", Err: kerr.GroupAuthorizationFailed, Count: -1})
	_, err := e.c.Admin().FetchOffsets(e.ctx, "A", tp("in", 0))
	if Classify(err) != ClassAuthorization {
		t.Fatalf("error %v, class %v", err, Classify(err))
	}
	err = WithACLs(err, "A", []string{"in"}, []string{"out"})
	for _, want := range []string{`group "A"`, `prefixed "A-"`, `topic "in"`, `topic "out"`, "transactional ids"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	if WithACLs(nil, "A", nil, nil) != nil || !errors.Is(WithACLs(ErrClosed, "A", nil, nil), ErrClosed) {
		t.Error("other errors are changed")
	}
}

func TestClosedClientAnswersErrClosed(t *testing.T) {
	e := start(t)
	c := e.client()
	f := c.NewFetcher(FetcherConfig{})
	w := c.NewWriter(WriterConfig{})
	e.must(c.Close())
	e.must(c.Close())
	if err := c.Admin().Ping(e.ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("Ping: %v", err)
	}
	if _, err := f.Subscribe(SubscribeOptions{TP: tp("t", 0), Sink: func(*Batch) {}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Subscribe: %v", err)
	}
	p := w.NewProducer(ProducerOptions{})
	put(w, p, tp("t", 0), Token{}, "x")
	if err := p.Wait(e.ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := c.NewLogWriter("t").Append(e.ctx, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Append: %v", err)
	}
}
