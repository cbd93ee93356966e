package kafka

import (
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

// MaxTimestamp is the last millisecond that sarama can encode: it goes through
// nanoseconds since 1970.
const MaxTimestamp = (1<<63 - 1) / int64(time.Millisecond)

// First chunks of a builder, in bytes, records and headers. They double; small
// ones matter, because every task has an open builder per partition it writes.
const (
	arenaChunk  = 4 << 10
	recordChunk = 16
	headerChunk = 4
)

// noBytes is empty but not null.
var noBytes = []byte{}

// Builder collects the records of one record batch, copying them. It is not
// safe for concurrent use. After Producer.Enqueue or Discard it must not be
// touched: the writer recycles it with all its memory.
type Builder struct {
	pool  *Builders
	tp    ids.TopicPartition
	bytes int   // encoded size, about
	err   error // a record that cannot be encoded

	// What sarama encodes. Pointers are kept to the elements of recs and hdrs,
	// so these never grow in place: full ones are set aside in blocks.
	ptrs  []*sarama.Record
	recs  blocks[sarama.Record]
	hdrs  blocks[sarama.RecordHeader]
	hptrs blocks[*sarama.RecordHeader]
	arena blocks[byte]
	batch sarama.RecordBatch
	base  int64 // first timestamp
	max   int64

	// Set by the producer.
	q      *queue
	after  Token
	done   func(error)
	limit  int           // see Limit
	merged []*Builder    // whose records are here, too
	dones  []func(error) // of those
	size   int           // bytes counted against the writer's bound
	sealed bool
	state  flight
	next   *Builder
}

// blocks is a growing list whose elements do not move: a chunk that is full is
// kept and another one begun. reset keeps as much as was needed in one piece.
type blocks[T any] struct{ cur []T }

// take returns n consecutive fresh elements.
func (b *blocks[T]) take(n, chunk int) []T {
	if cap(b.cur)-len(b.cur) < n {
		b.cur = make([]T, 0, max(n, chunk, 2*cap(b.cur)))
	}
	at := len(b.cur)
	b.cur = b.cur[:at+n]
	return b.cur[at : at+n : at+n]
}

// reset empties the list. keep bounds the memory kept, in elements.
func (b *blocks[T]) reset(keep int) {
	if cap(b.cur) > keep {
		b.cur = nil
	}
	b.cur = b.cur[:0]
}

// Builders is a pool of builders. A Writer has one; who keeps batches without
// sending them makes one by NewBuilders. It is safe for concurrent use.
type Builders struct {
	batchBytes int
	free       sync.Pool
}

// NewBuilders makes a pool whose builders are full at batchBytes.
func NewBuilders(batchBytes int) *Builders { return &Builders{batchBytes: batchBytes} }

// NewBatch takes an empty builder for a partition.
func (p *Builders) NewBatch(tp ids.TopicPartition) *Builder {
	b, _ := p.free.Get().(*Builder)
	if b == nil {
		b = new(Builder)
	}
	b.pool, b.tp = p, tp
	b.bytes = batchOverhead
	return b
}

// NewBatch takes an empty builder for a partition.
func (w *Writer) NewBatch(tp ids.TopicPartition) *Builder { return w.builders.NewBatch(tp) }

// Encoded sizes besides keys, values and headers: the batch header, and at most
// what a record's lengths and deltas take.
const (
	batchOverhead  = 61
	recordOverhead = 21
	headerOverhead = 6
)

// TP returns the partition.
func (b *Builder) TP() ids.TopicPartition { return b.tp }

// Len returns the number of records.
func (b *Builder) Len() int { return len(b.ptrs) }

// Bytes returns about how large the batch will be, before compression.
func (b *Builder) Bytes() int { return b.bytes }

// Full reports that the batch has WriterConfig.BatchBytes and should be
// enqueued.
func (b *Builder) Full() bool { return b.bytes >= b.pool.batchBytes }

// Fits reports whether a record of that size (key, value and headers) goes in
// without passing BatchBytes. A record that does not fit an empty batch is sent
// alone.
func (b *Builder) Fits(size int) bool {
	return len(b.ptrs) == 0 || b.bytes+size+recordOverhead <= b.pool.batchBytes
}

// Append adds a record. A nil key or value is Kafka's null. ts is in
// milliseconds since the epoch, from 0 to the year 2262; another one fails the
// producer when the batch is enqueued.
func (b *Builder) Append(key, value []byte, headers record.Headers, ts int64) {
	r := b.begin(key, value, ts)
	if len(headers) > 0 {
		r.Headers = b.headers(nil, headers)
	}
}

// AppendTagged is Append with one header in front of the others.
func (b *Builder) AppendTagged(tag record.Header, key, value []byte, headers record.Headers, ts int64) {
	r := b.begin(key, value, ts)
	r.Headers = b.headers(&tag, headers)
}

func (b *Builder) begin(key, value []byte, ts int64) *sarama.Record {
	if ts < 0 || ts > MaxTimestamp {
		if b.err == nil {
			b.err = fmt.Errorf("timestamp %d of a record is outside what Kafka can store here (0 to %d milliseconds)", ts, MaxTimestamp)
		}
		ts = 0
	}
	r := &b.recs.take(1, recordChunk)[0]
	n := len(b.ptrs)
	if n == 0 {
		b.base, b.max = ts, ts
	}
	b.max = max(b.max, ts)
	*r = sarama.Record{
		OffsetDelta:    int64(n),
		TimestampDelta: time.Duration(ts-b.base) * time.Millisecond,
		Key:            b.copy(key),
		Value:          b.copy(value),
	}
	b.ptrs = append(b.ptrs, r)
	b.bytes += len(key) + len(value) + recordOverhead
	return r
}

func (b *Builder) copy(v []byte) []byte {
	if v == nil {
		return nil
	}
	if len(v) == 0 {
		return noBytes
	}
	out := b.arena.take(len(v), arenaChunk)
	copy(out, v)
	return out
}

func (b *Builder) headers(tag *record.Header, hs record.Headers) []*sarama.RecordHeader {
	n := len(hs)
	if tag != nil {
		n++
	}
	ptrs, vals := b.hptrs.take(n, headerChunk), b.hdrs.take(n, headerChunk)
	at := 0
	if tag != nil {
		b.header(&vals[0], tag)
		ptrs[0] = &vals[0]
		at = 1
	}
	for i := range hs {
		b.header(&vals[at+i], &hs[i])
		ptrs[at+i] = &vals[at+i]
	}
	return ptrs
}

func (b *Builder) header(dst *sarama.RecordHeader, h *record.Header) {
	dst.Key, dst.Value = noBytes, b.copy(h.Value)
	if len(h.Key) > 0 {
		dst.Key = b.arena.take(len(h.Key), arenaChunk)
		copy(dst.Key, h.Key)
	}
	b.bytes += len(h.Key) + len(h.Value) + headerOverhead
}

// Each calls f with every record of the batch in order, numbered from 0 in
// Offset: what a reader will see of them. Keys and values alias the builder,
// and the headers are used again for the next record.
func (b *Builder) Each(f func(r *record.Raw)) {
	var raw record.Raw
	headers := make(record.Headers, 0, 2)
	for i, r := range b.ptrs {
		headers = headers[:0]
		for _, h := range r.Headers {
			headers = append(headers, record.Header{Key: string(h.Key), Value: h.Value})
		}
		raw = record.Raw{
			Key: r.Key, Value: r.Value, Headers: headers, Offset: int64(i),
			Timestamp: b.base + int64(r.TimestampDelta/time.Millisecond),
		}
		f(&raw)
	}
}

// seal fills the record batch. It is called once, when the sequence is known.
func (b *Builder) seal(p *Producer, seq int32) {
	b.sealed = true
	b.batch = sarama.RecordBatch{
		Version:          2,
		Codec:            p.w.cfg.Compression,
		CompressionLevel: p.w.cfg.CompressionLevel,
		LastOffsetDelta:  int32(len(b.ptrs) - 1),
		FirstTimestamp:   time.UnixMilli(b.base),
		MaxTimestamp:     time.UnixMilli(b.max),
		ProducerID:       p.opts.ID,
		ProducerEpoch:    p.opts.Epoch,
		FirstSequence:    seq,
		Records:          b.ptrs,
		IsTransactional:  p.opts.TransactionalID != "",
	}
}

// Discard recycles a builder that was not enqueued.
func (b *Builder) Discard() { b.recycle() }

// recycle empties the builder and puts it back. Nothing may refer to its
// records any more, no request under way either.
func (b *Builder) recycle() {
	p := b.pool
	if p == nil {
		return
	}
	b.release()
	// A builder that once held a giant record must not keep its memory.
	keep := 2 * p.batchBytes
	b.arena.reset(keep + arenaChunk)
	b.recs.reset(keep / 16)
	b.hdrs.reset(keep / 16)
	b.hptrs.reset(keep / 16)
	clear(b.ptrs)
	*b = Builder{ptrs: b.ptrs[:0], recs: b.recs, hdrs: b.hdrs, hptrs: b.hptrs, arena: b.arena}
	p.free.Put(b)
}
