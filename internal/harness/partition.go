package harness

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/tasks"
)

// partition is a partition that a task reads. What its reader is done with is
// forgotten.
type partition struct {
	tp     ids.TopicPartition
	reader *reader
	base   int64        // offset of the first record
	recs   []record.Raw // behind base
	starts []int64      // offsets at which a record batch begins
	arena  *arena
}

func (p *partition) end() int64 { return p.base + int64(len(p.recs)) }

// begin begins a record batch.
func (p *partition) begin() {
	p.starts = append(p.starts, p.end())
	if p.reader != nil {
		p.reader.t.dirty = true
	}
}

// add appends a copy of a record.
func (p *partition) add(r *record.Raw) {
	p.recs = append(p.recs, record.Raw{
		Key: p.arena.copy(r.Key), Value: p.arena.copy(r.Value), Headers: cloneHeaders(r.Headers),
		Timestamp: r.Timestamp, Offset: p.end(),
	})
}

func cloneHeaders(from record.Headers) record.Headers {
	if len(from) == 0 {
		return nil
	}
	out := make(record.Headers, len(from))
	for i, h := range from {
		out[i] = record.Header{Key: h.Key, Value: slices.Clone(h.Value)}
	}
	return out
}

// forget drops all records. REQUIRES: the reader is done with them.
func (p *partition) forget() {
	if len(p.recs) == 0 {
		return
	}
	p.base = p.end()
	clear(p.recs)
	p.recs, p.starts = p.recs[:0], p.starts[:0]
}

// reader is a task's subscription to a partition (tasks.Subscription).
type reader struct {
	p      *partition
	t      *task
	sink   func(*kafka.Batch)
	next   int64
	gen    uint64
	wanted bool
	closed bool
}

// Generation implements tasks.Subscription.
func (r *reader) Generation() uint64 { return r.gen }

// SeekTo implements tasks.Subscription.
func (r *reader) SeekTo(offset int64) uint64 {
	r.next = offset
	r.gen++
	r.t.dirty = true
	return r.gen
}

// Want implements tasks.Subscription.
func (r *reader) Want() { r.wanted, r.t.dirty = true, true }

// Close implements tasks.Subscription.
func (r *reader) Close() { r.closed = true }

// deliver hands over what is new, as one answer of a fetch that was sent just
// now.
func (r *reader) deliver(now time.Time) {
	p := r.p
	end := p.end()
	if r.closed || r.next >= end && !r.wanted {
		return
	}
	r.wanted = false
	b := kafka.NewBatch()
	b.TP, b.Generation = p.tp, r.gen
	b.FirstOffset, b.NextOffset = r.next, end
	b.End, b.LastStableOffset, b.HighWatermark, b.LogStart = end, end, end, p.base
	b.AskedAt, b.FetchedAt = now.Add(1), now.Add(1) // behind the beginning of any wait
	b.Records = append(b.Records, p.recs[r.next-p.base:]...)
	first, found := slices.BinarySearch(p.starts, r.next)
	if !found && first > 0 && r.next < end {
		b.Skipped = append(b.Skipped, p.recs[p.starts[first-1]-p.base:r.next-p.base]...)
	}
	for _, start := range p.starts[first:] {
		b.BatchStarts = append(b.BatchStarts, int32(start-r.next))
	}
	r.next = end
	r.sink(b)
}

// Subscribe implements tasks.Fetcher.
func (s seam) Subscribe(o kafka.SubscribeOptions) (tasks.Subscription, error) {
	d := s.d
	p := d.parts[o.TP]
	if p == nil {
		return nil, fmt.Errorf("there is no partition %s", o.TP)
	}
	sub, _ := d.res.Reader(o.TP.Topic)
	t := d.tasks[ids.TaskID{Sub: sub, Partition: o.TP.Partition}]
	p.reader = &reader{p: p, t: t, sink: o.Sink, next: o.Offset, wanted: true}
	t.readers = append(t.readers, p.reader)
	t.dirty = true
	return p.reader, nil
}

// visible calls f with the data records of a batch, as users see them: without
// the headers of the protocol.
func visible(b *kafka.Builder, f func(r *record.Raw)) {
	b.Each(func(r *record.Raw) {
		if len(r.Headers) > 0 && r.Headers[0].Key == barrier.HeaderKey {
			var h barrier.Header
			if h.Decode(r.Headers[0].Value) != nil || h.Kind != barrier.HeaderData {
				return
			}
			r.Headers = r.Headers[1:]
		}
		f(r)
	})
}

// arena holds bytes that are not used twice.
type arena struct {
	cur   []byte
	clean int      // of cur, up to where it is overwritten
	full  [][]byte // not overwritten yet
}

const arenaChunk = 16 << 10

// copy returns a copy that keeps nil and empty apart.
func (a *arena) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	if cap(a.cur)-len(a.cur) < len(b) || a.cur == nil {
		if len(a.cur) > a.clean {
			a.full = append(a.full, a.cur[a.clean:])
		}
		a.cur, a.clean = make([]byte, 0, max(arenaChunk, len(b))), 0
	}
	at := len(a.cur)
	a.cur = append(a.cur, b...)
	return a.cur[at:len(a.cur):len(a.cur)]
}

// overwrite spoils all copies.
func (a *arena) overwrite() {
	for _, b := range append(a.full, a.cur[a.clean:]) {
		for i := range b {
			b[i] = '!'
		}
	}
	clear(a.full)
	a.full, a.clean = a.full[:0], len(a.cur)
}
