package kafka

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidegate/tidegate/record"
)

// BenchmarkWrite counts allocations per record from Append to the
// acknowledgement, the in-process broker's and sarama's request buffers
// included.
func BenchmarkWrite(b *testing.B) {
	e := start(b, kfake.BlackholeProduce())
	e.topic("t", 4)
	w := e.c.NewWriter(WriterConfig{})
	p := e.idempotent(w)
	tag := record.Header{Key: "tg", Value: make([]byte, 20)}
	key, value := make([]byte, 8), make([]byte, 100)
	batches := make([]*Builder, 4)
	for i := range batches {
		batches[i] = w.NewBatch(tp("t", int32(i)))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		binary.BigEndian.PutUint64(key, uint64(i))
		part := i & 3
		bb := batches[part]
		if bb.Len() == 0 {
			bb.AppendTagged(tag, key, value, nil, int64(i))
		} else {
			bb.Append(key, value, nil, int64(i))
		}
		if bb.Full() {
			p.Enqueue(bb, Token{})
			batches[part] = w.NewBatch(tp("t", int32(part)))
			if w.Full() {
				<-w.Room()
			}
		}
		i++
	}
	e.must(p.Wait(e.ctx))
}

// BenchmarkAppend is the builder alone.
func BenchmarkAppend(b *testing.B) {
	c, err := NewClient(Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	w := c.NewWriter(WriterConfig{})
	key, value := make([]byte, 8), make([]byte, 100)
	bb := w.NewBatch(tp("t", 0))
	b.ReportAllocs()
	for b.Loop() {
		bb.Append(key, value, nil, 1)
		if bb.Full() {
			bb.Discard()
			bb = w.NewBatch(tp("t", 0))
		}
	}
}

// BenchmarkFetch counts allocations per record from the request to Release.
func BenchmarkFetch(b *testing.B) {
	e := start(b, kfake.SyntheticFetch(kfake.SyntheticBatch{Records: 2000}))
	e.topic("t", 4)
	f := e.c.NewFetcher(FetcherConfig{})
	defer f.Close()
	var mu sync.Mutex
	left, done := b.N, make(chan struct{})
	b.ReportAllocs()
	b.ResetTimer()
	for i := range int32(4) {
		_, err := f.Subscribe(SubscribeOptions{TP: tp("t", i), Sink: func(bt *Batch) {
			mu.Lock()
			if left > 0 {
				if left -= len(bt.Records); left <= 0 {
					close(done)
				}
			}
			mu.Unlock()
			bt.Release()
		}})
		e.must(err)
	}
	<-done
}
