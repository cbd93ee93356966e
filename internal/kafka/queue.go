package kafka

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// flight is where a batch stands.
type flight uint8

const (
	unsent flight = iota
	flying
	turned // refused, waits for those sent after it
)

// queue is the batches of one producer for one partition:
//
//	sent (at most window)     pending
//	[b1 b2 b3]                [b4 b5 ...]
//
// b1 is the oldest that is not acknowledged. The window is one batch until the
// first acknowledgement and after an error, else maxPipelined (K2). After an
// error nothing is sent before all that is in flight was answered; then sent
// goes back to the front of pending and out again as it is, with the same
// sequence numbers, so that what arrived after all is a duplicate.
type queue struct {
	p  *Producer
	tp ids.TopicPartition

	// All guarded by w.mu.
	head, tail *Builder // pending
	sent       []*Builder
	enqN       uint64 // batches ever enqueued
	ackedN     uint64 // batches acknowledged, from the first without a gap
	last       int64  // offset of the last record known to be written, -1: none
	seq        int32  // next sequence number
	open       bool   // the window is open
	redo       int    // batches to be repeated one by one before it opens
	added      bool   // to the transaction
	line       *line  // the leader's line; nil while the repair goroutine has it
	queued     bool   // in line.ready
	mending    bool   // in w.repairs
	lost       bool   // the leader must be asked for
	retryAt    time.Time
	tries      int // failures since the last acknowledgement
	unknown    time.Time
	waiters    []waiter
	dependents []*queue // queues whose head waits for a token of this one
	waitsFor   *queue
}

func (q *queue) push(b *Builder) {
	q.enqN++
	if q.tail == nil {
		q.head = b
	} else {
		q.tail.next = b
	}
	q.tail = b
}

// sendable reports whether the head may be sent now (K1 to K4).
func (q *queue) sendable() bool {
	b := q.head
	if b == nil || q.p.err != nil || !q.added || q.line == nil {
		return false
	}
	if n := len(q.sent); n > 0 && (!q.open || n >= maxPipelined) {
		return false
	}
	return b.after.acked()
}

// awaitToken registers the queue with the one that its head waits for, or fails
// its producer if that one will never be satisfied.
func (q *queue) awaitToken() {
	if q.head == nil || q.p.err != nil || q.head.after.acked() {
		return
	}
	on := q.head.after.q
	if err := on.p.err; err != nil {
		q.p.w.fail(q.p, &Error{Op: "produce", TP: q.tp, Class: Classify(err), Err: fmt.Errorf("the producer before it ended with batches for this partition not acknowledged: %w", err)})
		return
	}
	if q.waitsFor != on {
		q.waitsFor = on
		on.dependents = append(on.dependents, q)
	}
}

// releaseDependents lets the queues that wait for this one look again.
func (q *queue) releaseDependents() {
	ds := q.dependents
	q.dependents = nil
	for _, d := range ds {
		d.waitsFor = nil
		q.p.w.schedule(d)
	}
}

// launch moves the head to sent. REQUIRES q.sendable.
func (q *queue) launch() *Builder {
	b := q.head
	q.head = b.next
	if q.head == nil {
		q.tail = nil
	}
	b.next = nil
	b.state = flying
	if !b.sealed {
		b.seal(q.p, q.seq)
		q.seq = int32((uint32(q.seq) + uint32(b.Len())) & 0x7fffffff) // wraps to 0, as the broker's does
	}
	q.sent = append(q.sent, b)
	return b
}

// acknowledged handles a success, or a duplicate.
func (q *queue) acknowledged(b *Builder) {
	w := q.p.w
	if q.p.err != nil {
		q.drop(b)
		return
	}
	if q.sent[0] != b {
		// One before it was refused. It goes out again behind that one and is
		// a duplicate then; so acknowledgements have no gaps.
		b.state = turned
		q.settle()
		return
	}
	q.drop(b) // calls done
	q.ackedN++
	q.tries, q.unknown = 0, time.Time{}
	if q.redo > 0 {
		q.redo--
	}
	q.open = q.open || q.redo == 0 && len(q.sent) == 0
	for len(q.waiters) > 0 && q.waiters[0].n <= q.ackedN {
		bar := q.waiters[0].b
		q.waiters = q.waiters[1:]
		if bar.left--; bar.left == 0 {
			w.calls = append(w.calls, func() { bar.done(nil) })
		}
	}
	q.releaseDependents()
	q.settle()
	w.schedule(q)
}

// refused handles an error.
func (q *queue) refused(b *Builder, err error) {
	w := q.p.w
	if q.p.err != nil {
		q.drop(b)
		return
	}
	b.state = turned
	if definite := q.definite(b, err); definite != nil {
		w.fail(q.p, definite) // frees b
		return
	}
	q.open = false
	if needsLeader(err) {
		q.lost = true
		w.c.meta.forget(q.tp)
	}
	w.c.log.Debug("produce: trying again", "partition", q.tp.String(), "records", b.Len(), "error", err)
	q.settle()
}

// drop takes an answered batch from sent and recycles it.
func (q *queue) drop(b *Builder) {
	if i := slices.Index(q.sent, b); i >= 0 {
		q.sent = slices.Delete(q.sent, i, i+1)
		q.p.w.free(b, nil)
	}
}

// definite returns the error that ends the producer, or nil to try again.
func (q *queue) definite(b *Builder, err error) error {
	var k sarama.KError
	if q.sent[0] != b && errors.As(err, &k) && (k == sarama.ErrOutOfOrderSequenceNumber || k == sarama.ErrUnknownProducerID) {
		return nil // because an earlier one was refused
	}
	if fatal := q.unknownTooLong(err); fatal != nil {
		return fatal
	}
	if retriable(err) {
		return q.forgotten(b, err)
	}
	return newError("produce", q.tp, err)
}

// repeatedFor is how old, by their timestamps, the records of a batch in doubt may
// be for it to be repeated by a producer with Once: far below any reasonable
// producer.id.expiration.ms.
const repeatedFor = time.Hour

// forgotten returns an error if the broker may have written the batch and
// forgotten who wrote it.
func (q *queue) forgotten(b *Builder, err error) error {
	if !q.p.opts.Once || q.p.opts.TransactionalID != "" || !InDoubt(err) || time.Since(time.UnixMilli(b.max)) < repeatedFor {
		return nil
	}
	return &Error{Op: "produce", TP: q.tp, Class: ClassAbortable, Doubt: true, Err: fmt.Errorf(
		"a batch of %d records may have been written or not, and with timestamps up to %s the broker may not know it when it is repeated: %w",
		b.Len(), time.UnixMilli(b.max).UTC().Format(time.RFC3339), err)}
}

// unknownTooLong returns a definite error if the topic has been unknown for too
// long.
func (q *queue) unknownTooLong(err error) error {
	if !errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		return nil
	}
	now := time.Now()
	if q.unknown.IsZero() {
		q.unknown = now
	}
	if now.Sub(q.unknown) < q.p.w.cfg.UnknownTopicFor {
		return nil
	}
	return &Error{Op: "produce", TP: q.tp, Class: ClassInvalid, Err: fmt.Errorf("%w (%w)", errUnknownTopic, err)}
}

// settle puts refused batches back in front of the pending ones once nothing is
// in flight, and has the queue placed again.
func (q *queue) settle() {
	if len(q.sent) == 0 || q.p.err != nil {
		return
	}
	if q.sent[0].state != turned || slices.ContainsFunc(q.sent, func(b *Builder) bool { return b.state == flying }) {
		return
	}
	for i := len(q.sent) - 1; i >= 0; i-- {
		b := q.sent[i]
		b.state = unsent
		b.next = q.head
		q.head = b
		if q.tail == nil {
			q.tail = b
		}
	}
	q.redo = len(q.sent)
	clear(q.sent)
	q.sent = q.sent[:0]
	q.open = false
	q.tries++
	q.p.w.mend(q, q.lost, backoff(q.tries))
}
