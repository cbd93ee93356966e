package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

// env is a broker and a client of it.
type env struct {
	t       testing.TB
	ctx     context.Context
	cluster *kfake.Cluster
	c       *Client
}

func listenLoopback(network, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return net.Listen(network, "127.0.0.1:"+port)
}

func start(t testing.TB, opts ...kfake.Opt) *env {
	t.Helper()
	base := []kfake.Opt{kfake.NumBrokers(1), kfake.ListenFn(listenLoopback), kfake.GroupMinSessionTimeout(50 * time.Millisecond)}
	cluster, err := kfake.NewCluster(append(base, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	e := &env{t: t, ctx: ctx, cluster: cluster}
	e.c = e.client()
	t.Cleanup(func() {
		if err := e.c.Close(); err != nil {
			t.Error(err)
		}
		noGoroutines(t)
		cluster.Close()
		cancel()
	})
	return e
}

// client makes another client of the same broker.
func (e *env) client() *Client {
	e.t.Helper()
	var cfg Config
	if e.c != nil {
		cfg = e.c.cfg
	} else {
		cfg = Config{Brokers: e.cluster.ListenAddrs(), Guard: Loopback}
	}
	c, err := NewClient(cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = c.Close() })
	return c
}

// noGoroutines fails if something of this package or of sarama still runs.
func noGoroutines(t testing.TB) {
	t.Helper()
	var left string
	if !poll(5*time.Second, func() bool {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		left = ""
		for g := range strings.SplitSeq(string(buf), "\n\n") {
			if (strings.Contains(g, "internal/kafka.(*") || strings.Contains(g, "IBM/sarama.")) && !strings.Contains(g, "_test.go") && !strings.Contains(g, "testing.tRunner") {
				left += g + "\n\n"
			}
		}
		return left == ""
	}) {
		t.Errorf("goroutines are left after Close:\n%s", left)
	}
}

// poll calls ok until it holds or the time is over.
func poll(limit time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func (e *env) eventually(what string, ok func() bool) {
	e.t.Helper()
	if !poll(20*time.Second, ok) {
		e.t.Fatalf("did not happen in 20 s: %s", what)
	}
}

func (e *env) topic(name string, partitions int32) {
	e.t.Helper()
	if err := e.cluster.CreateTopic(name, partitions, nil); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func tp(topic string, p int32) ids.TopicPartition {
	return ids.TopicPartition{Topic: topic, Partition: p}
}

func (e *env) idempotent(w *Writer) *Producer {
	e.t.Helper()
	id, epoch, err := e.c.Transactions().InitProducer(e.ctx)
	e.must(err)
	return w.NewProducer(ProducerOptions{ID: id, Epoch: epoch})
}

func (e *env) transactional(w *Writer, id string) (*Producer, ids.TxnHandle) {
	e.t.Helper()
	h, err := e.c.Transactions().Init(e.ctx, id, time.Minute)
	e.must(err)
	return w.NewProducer(ProducerOptions{ID: h.ProducerID, Epoch: h.ProducerEpoch, TransactionalID: id}), h
}

// put enqueues one batch with the given values.
func put(w *Writer, p *Producer, at ids.TopicPartition, after Token, values ...string) Token {
	b := w.NewBatch(at)
	for i, v := range values {
		b.Append([]byte("k"), []byte(v), nil, int64(i))
	}
	return p.Enqueue(b, after)
}

// collector is a Sink that keeps what it gets.
type collector struct {
	mu      sync.Mutex
	gen     uint64 // batches of other generations are dropped, unless zero
	records []record.Raw
	starts  []int64 // offsets at which record batches begin
	skipped int
	next    int64
	end     int64
	last    Batch
	batches int
	aborted int
	errs    []error
	hold    bool // do not release
	held    []*Batch
}

func (c *collector) sink(b *Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gen != 0 && b.Generation != c.gen {
		b.Release()
		return
	}
	c.batches++
	if b.Err != nil {
		c.errs = append(c.errs, b.Err)
		b.Release()
		return
	}
	c.records = append(c.records, b.Records...)
	for _, i := range b.BatchStarts {
		c.starts = append(c.starts, b.Records[i].Offset)
	}
	c.skipped += len(b.Skipped)
	c.next, c.end, c.aborted = b.NextOffset, b.End, c.aborted+b.Aborted
	c.last = *b
	if c.hold {
		c.held = append(c.held, b)
		return
	}
	b.Release()
}

func (c *collector) values() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, r := range c.records {
		out = append(out, string(r.Value))
	}
	return out
}

func (c *collector) get(f func(*collector)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// caughtUp reports whether everything was read, up to next at least: a request
// whose connection was cut may still be carried out behind the look at the end.
func (c *collector) caughtUp(next int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next >= next && c.end == c.next
}

func (c *collector) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}

func (e *env) subscribe(f *Fetcher, at ids.TopicPartition, iso Isolation, offset int64) (*Subscription, *collector) {
	e.t.Helper()
	c := &collector{}
	s, err := f.Subscribe(SubscribeOptions{TP: at, Isolation: iso, Offset: offset, Sink: c.sink})
	e.must(err)
	return s, c
}

func seq(prefix string, from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
