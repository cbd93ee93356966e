package kafka

import (
	"context"
	"slices"
	"time"

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
	// Once ends the producer where a repetition could be written twice: a broker
	// forgets producer ids whose last batch has a timestamp older than
	// producer.id.expiration.ms (a day), when it starts and now and then, and
	// takes a repeated batch for a new one. A batch in doubt is repeated only
	// while its newest record is younger than repeatedFor. Transactions need no
	// such rule: an open one is remembered.
	Once bool
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
func (p *Producer) Enqueue(b *Builder, after Token) Token { return p.EnqueueThen(b, after, nil) }

// EnqueueThen is Enqueue with a callback for this one batch: done is called
// once, with nil when it is acknowledged, or with the error when the producer
// fails or is closed before. It must not block.
func (p *Producer) EnqueueThen(b *Builder, after Token, done func(error)) Token {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	if p.err == nil && b.err != nil {
		w.fail(p, &Error{Op: "produce", TP: b.tp, Class: ClassInvalid, Err: b.err})
	}
	if p.err != nil {
		t := Token{&queue{p: p, tp: b.tp}, 1} // never satisfied
		w.call(done, p.err)
		b.recycle()
		return t
	}
	q := p.queue(b.tp)
	if b.Len() == 0 {
		w.call(done, nil)
		b.recycle()
		return Token{q, q.enqN}
	}
	b.q, b.after, b.size, b.done = q, after, b.bytes, done
	w.bytes.Add(int64(b.size))
	if q.merge(b) {
		return Token{q, q.enqN}
	}
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
	q = &queue{p: p, tp: tp, last: -1}
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

// LastOffset returns the offset of the last record in a partition that is known
// to be this producer's, or -1.
func (p *Producer) LastOffset(tp ids.TopicPartition) int64 {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if q := p.queues[tp]; q != nil {
		return q.last
	}
	return -1
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
			w.free(b, err)
			b = next
		}
		q.head, q.tail = nil, nil
		q.sent = slices.DeleteFunc(q.sent, func(b *Builder) bool {
			if b.state == flying {
				w.finish(b, err)
				b.done, b.dones = nil, nil
				return false
			}
			w.free(b, err)
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
