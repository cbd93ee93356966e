package kafka

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

// everywhere runs a test against the in-process broker and, where
// TIDEGATE_KAFKA_BROKERS names one on this machine, against a real one too.
// Names get a suffix, so that a broker may be used many times.
func everywhere(t *testing.T, f func(e *env, name func(string) string)) {
	suffix := fmt.Sprintf("-%08x", rand.Uint32())
	name := func(s string) string { return s + suffix }
	t.Run("in process", func(t *testing.T) { f(start(t), name) })
	brokers := os.Getenv("TIDEGATE_KAFKA_BROKERS")
	if brokers == "" {
		return
	}
	t.Run("real", func(t *testing.T) {
		c, err := NewClient(Config{Brokers: strings.Split(brokers, ","), Guard: Loopback})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := contextFor(time.Minute)
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			cancel()
			noGoroutines(t)
		})
		f(&env{t: t, ctx: ctx, c: c}, name)
	})
}

// ensure makes topics on any broker.
func (e *env) ensure(partitions int32, names ...string) map[string]Topic {
	e.t.Helper()
	var specs []TopicSpec
	for _, n := range names {
		specs = append(specs, TopicSpec{Name: n, Partitions: partitions, Replication: 1, Configs: InternalConfigs(2 << 20)})
	}
	topics, err := e.c.Admin().EnsureTopics(e.ctx, specs...)
	e.must(err)
	return topics
}

func TestTransactionsEverywhere(t *testing.T) {
	everywhere(t, func(e *env, name func(string) string) {
		topic, in, id, group := name("out"), name("in"), name("A-1"), name("A")
		made := e.ensure(3, topic, in)
		if made[topic].ID == [16]byte{} {
			t.Error("no topic id")
		}
		w := e.c.NewWriter(WriterConfig{})
		x, a := e.c.Transactions(), e.c.Admin()

		// Aborted, then committed by another client, then open.
		p, h := e.transactional(w, id)
		put(w, p, tp(topic, 0), Token{}, "aborted")
		e.must(p.Wait(e.ctx))
		e.must(x.End(e.ctx, h, false))
		if err := x.End(e.ctx, h, true); !LostTransaction(err) {
			t.Errorf("commit after abort: %v", err)
		}
		p, h = e.transactional(w, id)
		var want []string
		for i := range 50 {
			want = append(want, fmt.Sprint(i))
			for part := range int32(3) {
				put(w, p, tp(topic, part), Token{}, fmt.Sprint(i))
			}
		}
		e.must(p.Wait(e.ctx))
		e.must(a.CommitOffsets(e.ctx, group, Membership{}, []Offset{{TP: tp(in, 1), Offset: 41}}))
		e.must(p.AddOffsets(e.ctx, group, []Offset{{TP: tp(in, 1), Offset: 42, Metadata: "life/7"}}))
		if none, err := a.FetchOffsets(e.ctx, name("nobody"), tp(in, 0)); err != nil || len(none) != 0 {
			t.Errorf("offsets of a group that is not there: %v, %v", none, err)
		}
		short, cancel := contextFor(200 * time.Millisecond)
		defer cancel()
		if _, err := a.FetchOffsets(short, group, tp(in, 1)); err == nil {
			t.Error("offsets of an undecided transaction were read")
		} else if c, _ := Code(err); c != 88 {
			t.Errorf("code %d of %v", c, err)
		}
		other, err := NewClient(e.c.cfg)
		e.must(err)
		defer other.Close()
		states, err := other.Transactions().Describe(e.ctx, id, name("nobody"))
		e.must(err)
		if s := states[id]; s.State != "Ongoing" || s.Handle != h || s.Timeout != time.Minute {
			t.Errorf("state %+v", s)
		}
		e.must(other.Transactions().End(e.ctx, h, true))
		e.must(other.Transactions().End(e.ctx, h, true))
		offs, err := a.FetchOffsets(e.ctx, group, tp(in, 0), tp(in, 1))
		if err != nil || len(offs) != 1 || offs[tp(in, 1)] != (Offset{tp(in, 1), 42, "life/7"}) {
			t.Errorf("offsets %v, %v", offs, err)
		}
		for part := range int32(3) {
			e.eventually("the markers", func() bool { return len(e.readAll(tp(topic, part), ReadCommitted)) == len(want) })
			if got := e.readAll(tp(topic, part), ReadCommitted); !slices.Equal(got, want) {
				t.Errorf("partition %d: %v", part, got)
			}
		}
		// Fenced.
		_, h3 := e.transactional(w, id)
		if h3 == h {
			t.Error("the same handle twice")
		}
		put(w, p, tp(topic, 0), Token{}, "zombie")
		if err := p.Wait(e.ctx); Classify(err) != ClassFenced && Classify(err) != ClassAbortable {
			t.Errorf("a zombie's write: %v, class %v", err, Classify(err))
		}
		if err := x.End(e.ctx, h, true); err != nil && !LostTransaction(err) {
			t.Errorf("a zombie's end: %v", err)
		}
	})
}

func TestOrderUnderCutConnectionsEverywhere(t *testing.T) {
	everywhere(t, func(e *env, name func(string) string) {
		topic := name("rep")
		e.ensure(2, topic)
		w := e.c.NewWriter(WriterConfig{MaxRequestBytes: 200})
		p := e.idempotent(w)
		stop, cut := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(cut)
			for {
				select {
				case <-stop:
					return
				case <-time.After(30 * time.Millisecond):
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
		want := seq("v", 0, 300)
		for _, v := range want {
			put(w, p, tp(topic, 0), Token{}, v)
			put(w, p, tp(topic, 1), Token{}, v)
		}
		err := p.Wait(e.ctx)
		close(stop)
		<-cut
		e.must(err)
		for part := range int32(2) {
			if got := e.readAll(tp(topic, part), ReadUncommitted); !slices.Equal(got, want) {
				t.Errorf("partition %d: %d values, want %d", part, len(got), len(want))
			}
		}
	})
}

func TestAdminEverywhere(t *testing.T) {
	everywhere(t, func(e *env, name func(string) string) {
		a := e.c.Admin()
		e.must(a.Ping(e.ctx))
		if v, err := a.BrokerConfig(e.ctx, "transaction.max.timeout.ms"); err != nil || v != "900000" {
			t.Errorf("transaction.max.timeout.ms: %q, %v", v, err)
		}
		topic := name("A-control")
		e.ensure(1, topic)
		spec := TopicSpec{Name: topic, Partitions: 2, Configs: map[string]string{"retention.ms": "5", "cleanup.policy": "delete"}}
		if err := a.VerifyTopics(e.ctx, spec); err == nil || !strings.Contains(err.Error(), "number of partitions is 1, want 2") || !strings.Contains(err.Error(), "retention.ms is -1, want 5") {
			t.Errorf("error %v", err)
		}
		w := e.c.NewLogWriter(topic)
		for i := range int64(10) {
			if off, err := w.Append(e.ctx, []byte("x")); err != nil || off != i {
				t.Fatalf("append: %d, %v", off, err)
			}
		}
		at := tp(topic, 0)
		e.must(a.DeleteRecords(e.ctx, map[ids.TopicPartition]int64{at: 4}))
		for place, want := range map[int64]int64{Earliest: 4, Latest: 10, LastStable: 10, 1: 4, time.Now().Add(time.Hour).UnixMilli(): 10} {
			if got, err := a.ListOffsets(e.ctx, place, at); err != nil || got[at] != want {
				t.Errorf("offset at %d: %v, %v; want %d", place, got, err, want)
			}
		}
		s := &logSink{}
		r, err := e.c.NewLogReader(LogReaderConfig{Topic: topic, Sink: s.sink})
		e.must(err)
		e.eventually("the error below the log start", s.get(func(l *logSink) bool { return l.last.Err != nil }))
		r.SeekTo(4)
		e.eventually("the records", s.get(func(l *logSink) bool { return len(l.records) == 6 && l.last.CaughtUp() && l.last.LogStart == 4 }))
		e.must(a.DeleteTopics(e.ctx, topic))
	})
}

func TestGroupEverywhere(t *testing.T) {
	everywhere(t, func(e *env, name func(string) string) {
		in := name("in")
		e.ensure(4, in)
		join := func(who string) *instance {
			return e.join(who, func(c *GroupConfig) {
				c.Group, c.Topics = name("A"), []string{in, name("nowhere")}
				c.Plan = func(ms []Member, parts map[string]int32) (map[string][]byte, error) {
					return plan(ms, map[string]int32{"in": parts[in]})
				}
			})
		}
		a, b := join("a"), join("b")
		g := e.all("2 members, in has 4", a, b)
		adm := e.c.Admin()
		if err := adm.CommitOffsets(e.ctx, name("A"), Membership{}, []Offset{{TP: tp(in, 0), Offset: 1}}); err == nil && e.cluster == nil {
			t.Error("Kafka took offsets of no member while the group has members")
		}
		e.must(adm.CommitOffsets(e.ctx, name("A"), b.g.Membership(), []Offset{{TP: tp(in, 0), Offset: 2, Metadata: "m"}}))
		w := e.c.NewWriter(WriterConfig{})
		p, h := e.transactional(w, name("A-1"))
		e.must(p.AddOffsets(e.ctx, name("A"), []Offset{{TP: tp(in, 1), Offset: 3}}))
		e.must(e.c.Transactions().End(e.ctx, h, true))
		got, err := adm.FetchOffsets(e.ctx, name("A"), tp(in, 0), tp(in, 1))
		if err != nil || got[tp(in, 0)].Offset != 2 || got[tp(in, 1)].Offset != 3 {
			t.Errorf("offsets %v, %v", got, err)
		}
		b.mu.Lock()
		b.name += " leaving"
		b.mu.Unlock()
		b.g.Rejoin()
		e.eventually("a generation with the mark", func() bool { _, ga := a.assigned(); _, gb := b.assigned(); return ga > g && ga == gb })
		d, err := adm.DescribeGroup(e.ctx, name("A"))
		e.must(err)
		marked := 0
		for _, m := range d.Members {
			if strings.HasSuffix(string(m.UserData), "leaving") {
				marked++
			}
		}
		if d.State != "Stable" || len(d.Members) != 2 || marked != 1 {
			t.Errorf("group %+v", d)
		}
		e.must(b.g.Leave(e.ctx))
		e.all("1 members, in has 4", a)
		c := join("c")
		e.all("2 members, in has 4", a, c)
		e.must(c.g.Close())
		e.all("1 members, in has 4", a)
		e.must(a.g.Leave(e.ctx))
	})
}
