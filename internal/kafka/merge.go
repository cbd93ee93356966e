package kafka

import (
	"slices"
	"time"
)

// A broker answers the requests of a connection one after the other, and with
// replicas each answer takes as long as the slowest of them. So a partition gets
// one batch in that time, however small, while callers hand over one every few
// milliseconds: what cannot be sent yet is merged, or batches would queue up for
// as long as it stays so.

// Limit bounds what the builder may come to hold by merging, in bytes, where the
// topic takes less than WriterConfig.BatchBytes at once. 0: nothing but that.
func (b *Builder) Limit(bytes int) { b.limit = bytes }

// merge appends a batch to the last one that waits, if both may go together, and
// reports whether it did. REQUIRES w.mu.
func (q *queue) merge(b *Builder) bool {
	t := q.tail
	if t == nil || t.sealed || t.err != nil || b.err != nil || !b.after.acked() && b.after != t.after {
		return false
	}
	bytes := t.bytes + b.bytes - batchOverhead
	for _, limit := range []int{t.pool.batchBytes, t.limit, b.limit} {
		if limit > 0 && bytes > limit {
			return false
		}
	}
	n, later := int64(len(t.ptrs)), time.Duration(b.base-t.base)*time.Millisecond
	for _, r := range b.ptrs {
		r.OffsetDelta += n
		r.TimestampDelta += later
	}
	t.ptrs = append(t.ptrs, b.ptrs...)
	t.max = max(t.max, b.max)
	t.bytes, t.size = bytes, t.size+b.size
	if b.done != nil {
		t.dones = append(t.dones, b.done)
		b.done = nil
	}
	t.merged = append(t.merged, b)
	return true
}

// finish tells all who handed over a part of the batch how it ended. REQUIRES w.mu.
func (w *Writer) finish(b *Builder, err error) {
	w.call(b.done, err)
	for _, done := range b.dones {
		w.call(done, err)
	}
}

// release recycles what was merged into the builder: its records are theirs.
func (b *Builder) release() {
	for _, m := range slices.Backward(b.merged) {
		m.recycle()
	}
	b.merged = nil
}
