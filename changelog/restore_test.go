package changelog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/state/memory"
)

// bench is a changelog partition on an in-process broker.
type bench struct {
	t      *testing.T
	client *kafka.Client
	writer *kafka.Writer
	f      *kafka.Fetcher
	tp     ids.TopicPartition
}

func newBench(t *testing.T) *bench {
	t.Helper()
	tp := ids.TopicPartition{Topic: "app-s-changelog"}
	b, err := embedded.Start(embedded.Options{Topics: map[string]int32{tp.Topic: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	c, err := kafka.NewClientFrom([]string{b.Addr()}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &bench{t, c, c.NewWriter(kafka.WriterConfig{}), c.NewFetcher(kafka.FetcherConfig{}), tp}
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	b.t.Cleanup(cancel)
	return ctx
}

// transaction writes puts of key0.. with a value, and ends it or leaves it open.
func (b *bench) transaction(id, value string, n int, end string) ids.TxnHandle {
	b.t.Helper()
	h, err := b.client.Transactions().Init(b.ctx(), id, time.Minute)
	if err != nil {
		b.t.Fatal(err)
	}
	p := b.writer.NewProducer(kafka.ProducerOptions{ID: h.ProducerID, Epoch: h.ProducerEpoch, TransactionalID: id})
	batch := b.writer.NewBatch(b.tp)
	for k := range n {
		batch.Append(fmt.Appendf(nil, "key%03d", k), []byte(value), record.Headers(nil), 1)
	}
	p.Enqueue(batch, kafka.Token{})
	if err := p.Wait(b.ctx()); err != nil {
		b.t.Fatal(err)
	}
	if end != "open" {
		if err := b.client.Transactions().End(b.ctx(), h, end == "commit"); err != nil {
			b.t.Fatal(err)
		}
	}
	return h
}

func (b *bench) bounds() map[string]changelog.Bounds {
	b.t.Helper()
	end, err := b.client.Admin().ListOffsets(b.ctx(), kafka.Latest, b.tp)
	if err != nil {
		b.t.Fatal(err)
	}
	return map[string]changelog.Bounds{"s": {End: end[b.tp]}}
}

// engine returns one over a fresh memory engine.
func (b *bench) engine() *changelog.Engine {
	b.t.Helper()
	m, err := memory.Open(b.t.TempDir())
	if err != nil {
		b.t.Fatal(err)
	}
	e, err := changelog.NewEngine(m, []changelog.StoreSpec{{Name: "s", Changelog: b.tp}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = e.Close() })
	return e
}

func (b *bench) check(e *changelog.Engine, n int, value string) {
	b.t.Helper()
	kv, err := e.Store("s")
	if err != nil {
		b.t.Fatal(err)
	}
	have := 0
	it := kv.Scan(nil, nil, false)
	defer it.Close()
	for ; it.Next(); have++ {
		if string(it.Value()) != value {
			b.t.Fatalf("%s is %q, want %q", it.Key(), it.Value(), value)
		}
	}
	if have != n {
		b.t.Fatalf("%d entries, want %d", have, n)
	}
}

// A changelog that ends in markers or aborted records finishes restoring, at its
// very end.
func TestRestoreEndsBehindMarkers(t *testing.T) {
	for _, end := range []string{"commit", "abort"} {
		b := newBench(t)
		b.transaction("a", "one", 100, "commit")
		want := "one"
		if end == "commit" {
			want = "two"
		}
		b.transaction("a", "two", 100, end)
		e, bounds := b.engine(), b.bounds()
		done, err := e.Restore(b.ctx(), b.f, bounds)
		if err != nil || done.Empty {
			t.Fatalf("%+v, %v", done, err)
		}
		b.check(e, 100, want)
		p, ok, err := e.Position("s")
		if err != nil || !ok || p.Next != bounds["s"].End {
			t.Fatalf("position %+v %v %v, want %d", p, ok, err, bounds["s"].End)
		}
		// There is nothing left to read.
		if again, err := e.Restore(b.ctx(), b.f, bounds); err != nil || again.Records != 0 || again.Empty {
			t.Fatalf("%+v, %v", again, err)
		}
	}
}

// A restore waits for a transaction that is open below its bound: its offsets
// may have been visible before its marker is here.
func TestRestoreWaitsForOpenTransaction(t *testing.T) {
	b := newBench(t)
	b.transaction("a", "one", 10, "commit")
	h := b.transaction("b", "two", 10, "open")
	e, bounds := b.engine(), b.bounds()
	done := make(chan error, 1)
	go func() {
		_, err := e.Restore(b.ctx(), b.f, bounds)
		done <- err
	}()
	// What restored to here would be "one": the end decides.
	if err := b.client.Transactions().End(b.ctx(), h, true); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.check(e, 10, "two")
}

// Closing in the middle of a restore keeps the position that was reached, not
// the end; the next one goes on from there.
func TestRestoreClosedInTheMiddle(t *testing.T) {
	b := newBench(t)
	b.transaction("a", "one", 10, "commit")
	middle := b.bounds()["s"].End
	h := b.transaction("b", "two", 20, "open")
	e, bounds := b.engine(), b.bounds()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if _, err := e.Restore(ctx, b.f, bounds); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("restored over an open transaction: %v", err)
	}
	p, ok, err := e.Position("s")
	if err != nil || !ok || p.Next != middle {
		t.Fatalf("position %+v %v %v, want %d", p, ok, err, middle)
	}
	b.check(e, 10, "one")
	if err := b.client.Transactions().End(b.ctx(), h, true); err != nil {
		t.Fatal(err)
	}
	done, err := e.Restore(b.ctx(), b.f, b.bounds())
	if err != nil || done.Records != 20 {
		t.Fatalf("%+v, %v", done, err)
	}
	b.check(e, 20, "two")
}

// A store without a changelog is empty after a start; the other one is not.
func TestRestoreEmptiesUnlogged(t *testing.T) {
	b := newBench(t)
	b.transaction("a", "one", 10, "commit")
	m, err := memory.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	kv, err := m.Store("cache")
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Set([]byte("k"), []byte("old")); err != nil {
		t.Fatal(err)
	}
	e, err := changelog.NewEngine(m, []changelog.StoreSpec{{Name: "s", Changelog: b.tp}, {Name: "cache", Unlogged: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Restore(b.ctx(), b.f, b.bounds()); err != nil {
		t.Fatal(err)
	}
	b.check(e, 10, "one")
	if _, ok, err := kv.Get([]byte("k")); ok || err != nil {
		t.Fatalf("the unlogged store still holds its entry: %v", err)
	}
	// Nothing of it goes to a changelog: there is no log to take it.
	cache, err := e.Store("cache")
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.Set([]byte("k"), []byte("new")); err != nil {
		t.Fatal(err)
	}
	if err := cache.DeleteRange(nil, nil); err != nil {
		t.Fatal(err)
	}
}
