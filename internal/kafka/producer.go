package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// ProducerOptions name a producer.
type ProducerOptions struct {
	// ID and Epoch are from Transactions.InitProducer or Init.
	ID    int64
	Epoch int16
	// TransactionalID, when set, makes the producer transactional: it stands
	// for one transaction (R20), and a partition is added to it before the
	// first batch there.
	TransactionalID string
	// PartitionsAdded says that the caller adds partitions to the transaction
	// before it enqueues batches for them.
	PartitionsAdded bool
	// OnFail hears the first definite error, an *Error, once. The producer is
	// dead then: nothing more is sent. It must not block.
	OnFail func(error)
}

// Handle returns the transaction's handle.
func (o ProducerOptions) Handle() ids.TxnHandle {
	return ids.TxnHandle{TransactionalID: o.TransactionalID, ProducerID: o.ID, ProducerEpoch: o.Epoch}
}

// Producer is one producer id and epoch. Its batches are in order per
// partition.
type Producer struct {
	w      *Writer
	opts   ProducerOptions
	ctx    context.Context
	cancel context.CancelFunc

	// Guarded by w.mu.
	err    error
	queues map[ids.TopicPartition]*queue
	began  time.Time
	adding bool
	toAdd  []ids.TopicPartition
	added  []ids.TopicPartition
}

// NewProducer begins to write with a producer id.
func (w *Writer) NewProducer(o ProducerOptions) *Producer {
	p := &Producer{w: w, opts: o, queues: map[ids.TopicPartition]*queue{}}
	p.ctx, p.cancel = context.WithCancel(w.ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		p.err = ErrClosed
	} else {
		w.producers[p] = struct{}{}
	}
	return p
}

// Token stands for all batches enqueued for one producer and partition up to a
// point. The zero Token is satisfied.
type Token struct {
	q *queue
	n uint64
}

// Acked reports whether all of it is acknowledged.
func (t Token) Acked() bool {
	if t.q == nil {
		return true
	}
	w := t.q.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.acked()
}

func (t Token) acked() bool { return t.q == nil || t.q.ackedN >= t.n }

// Enqueue hands a batch over; the builder must not be touched again. The batch
// is sent after everything enqueued for this producer and partition before it,
// and after everything that the token covers (R18: a task's last batch for the
// partition in the transaction before). An empty batch is only recycled.
//
// The token returned covers the batch. After the producer failed or was closed
// batches are thrown away.
func (p *Producer) Enqueue(b *Builder, after Token) Token {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	if p.err == nil && b.err != nil {
		w.fail(p, &Error{Op: "produce", TP: b.tp, Class: ClassInvalid, Err: b.err})
	}
	if p.err != nil {
		t := Token{&queue{p: p, tp: b.tp}, 1} // never satisfied
		b.recycle()
		return t
	}
	q := p.queue(b.tp)
	if b.Len() == 0 {
		b.recycle()
		return Token{q, q.enqN}
	}
	b.q, b.after, b.size = q, after, b.bytes
	w.bytes.Add(int64(b.size))
	q.push(b)
	w.schedule(q)
	return Token{q, q.enqN}
}

// queue returns the partition's queue, making it. REQUIRES w.mu.
func (p *Producer) queue(tp ids.TopicPartition) *queue {
	q := p.queues[tp]
	if q != nil {
		return q
	}
	q = &queue{p: p, tp: tp}
	p.queues[tp] = q
	if p.opts.TransactionalID == "" || p.opts.PartitionsAdded {
		q.added = true
	} else {
		p.toAdd = append(p.toAdd, tp)
		if !p.adding {
			p.adding = true
			p.w.wg.Go(p.add)
		}
	}
	p.w.place(q)
	return q
}

// add adds partitions to the transaction until there are no more.
func (p *Producer) add() {
	w := p.w
	for {
		w.mu.Lock()
		tps := p.toAdd
		p.toAdd = nil
		if len(tps) == 0 || p.err != nil {
			p.adding = false
			w.mu.Unlock()
			return
		}
		if p.began.IsZero() {
			p.began = time.Now()
		}
		w.mu.Unlock()

		slices.SortFunc(tps, ids.TopicPartition.Compare)
		err := w.c.txns.AddPartitions(p.ctx, p.opts.Handle(), tps)

		w.mu.Lock()
		switch {
		case p.err != nil:
		case err != nil:
			w.fail(p, err)
		default:
			p.added = append(p.added, tps...)
			for _, tp := range tps {
				q := p.queues[tp]
				q.added = true
				w.schedule(q)
			}
		}
		w.unlock()
	}
}

// AddOffsets adds the group to the transaction and writes the offsets in it,
// with generation -1 and no member (R18).
func (p *Producer) AddOffsets(ctx context.Context, group string, offsets []Offset) error {
	p.w.mu.Lock()
	err := p.err
	if err == nil && p.began.IsZero() {
		p.began = time.Now()
	}
	p.w.mu.Unlock()
	if err != nil {
		return err
	}
	if err := p.w.c.txns.AddOffsets(ctx, p.opts.Handle(), group); err != nil {
		return err
	}
	return p.w.c.txns.CommitOffsets(ctx, p.opts.Handle(), group, offsets)
}

// Began returns the time before the request that began the transaction, with
// its monotonic clock (R18), and false when none was sent.
func (p *Producer) Began() (time.Time, bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.began, !p.began.IsZero()
}

// Partitions lists what was added to the transaction so far, in order of name.
func (p *Producer) Partitions() []ids.TopicPartition {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return slices.SortedFunc(slices.Values(p.added), ids.TopicPartition.Compare)
}

// Options returns what the producer was made with.
func (p *Producer) Options() ProducerOptions { return p.opts }

// Err returns the error that ended the producer, if it ended.
func (p *Producer) Err() error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.err
}

// Barrier calls done once: with nil when all that was enqueued so far is
// acknowledged, with the error if the producer fails or is closed before. done
// may be called before Barrier returns, and must not block.
func (p *Producer) Barrier(done func(error)) {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	if p.err != nil {
		err := p.err
		w.calls = append(w.calls, func() { done(err) })
		return
	}
	b := &barrier{done: done}
	for _, q := range p.queues {
		if q.ackedN < q.enqN {
			b.left++
			q.waiters = append(q.waiters, waiter{q.enqN, b})
		}
	}
	if b.left == 0 {
		w.calls = append(w.calls, func() { done(nil) })
	}
}

// Wait is Barrier for callers that may block.
func (p *Producer) Wait(ctx context.Context) error {
	ch := make(chan error, 1)
	p.Barrier(func(err error) { ch <- err })
	select {
	case err := <-ch:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the producer. What is not acknowledged is abandoned: not sent, or
// in doubt if it was. Open Barriers get ErrClosed; batches of other producers
// that wait for this one's fail theirs.
func (p *Producer) Close() {
	p.w.mu.Lock()
	defer p.w.unlock()
	p.w.end(p, ErrClosed)
}

// fail ends a producer with a definite error. REQUIRES w.mu.
func (w *Writer) fail(p *Producer, err error) {
	if p.err != nil {
		return
	}
	w.end(p, err)
	if p.opts.OnFail != nil {
		w.calls = append(w.calls, func() { p.opts.OnFail(err) })
	}
}

// end ends a producer: what is queued is thrown away, what is in flight is
// recycled with its answer. REQUIRES w.mu.
func (w *Writer) end(p *Producer, err error) {
	if p.err != nil {
		return
	}
	p.err = err
	p.cancel()
	delete(w.producers, p)
	seen := map[*barrier]bool{}
	for _, q := range p.queues {
		for b := q.head; b != nil; {
			next := b.next
			w.free(b)
			b = next
		}
		q.head, q.tail = nil, nil
		q.sent = slices.DeleteFunc(q.sent, func(b *Builder) bool {
			if b.state == flying {
				return false
			}
			w.free(b)
			return true
		})
		for _, wt := range q.waiters {
			if !seen[wt.b] {
				seen[wt.b] = true
				w.calls = append(w.calls, func() { wt.b.done(err) })
			}
		}
		q.waiters = nil
		q.releaseDependents()
	}
}

// barrier is an open Producer.Barrier.
type barrier struct {
	left int
	done func(error)
}

type waiter struct {
	n uint64
	b *barrier
}

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
	q.drop(b)
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
	if definite := q.definite(err, q.sent[0] == b); definite != nil {
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
		q.p.w.free(b)
	}
}

// definite returns the error that ends the producer, or nil to try again.
func (q *queue) definite(err error, first bool) error {
	var k sarama.KError
	if !first && errors.As(err, &k) && (k == sarama.ErrOutOfOrderSequenceNumber || k == sarama.ErrUnknownProducerID) {
		return nil // because an earlier one was refused
	}
	if fatal := q.unknownTooLong(err); fatal != nil {
		return fatal
	}
	if retriable(err) {
		return nil
	}
	return newError("produce", q.tp, err)
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
