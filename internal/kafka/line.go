package kafka

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

// line is the requests to one leader. Its goroutine composes and sends; the
// answers come on the connection's reader goroutine.
type line struct {
	w    *Writer
	node node
	wake chan struct{}

	// Guarded by w.mu.
	ready  []*queue
	flying int // requests under way
	away   outage
}

// produceRequest is a request under way.
type produceRequest struct {
	req     *sarama.ProduceRequest
	txn     string
	batches []*Builder
	size    int
}

func (l *line) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *line) run() {
	for {
		r := l.compose()
		if r == nil {
			select {
			case <-l.wake:
				continue
			case <-l.w.ctx.Done():
				return
			}
		}
		l.send(r)
	}
}

// compose takes the heads of ready queues into one request: of one
// transactional id, one batch per partition, up to the size bound.
func (l *line) compose() *produceRequest {
	w := l.w
	w.mu.Lock()
	defer w.unlock()
	if l.flying >= maxPipelined || w.closed {
		return nil
	}
	var r *produceRequest
	ready := l.ready
	left := ready[:0]
	var moved []*queue
	for i, q := range ready {
		if q.line != l || !q.sendable() {
			q.queued = false // its producer failed, or the queue moved on
			moved = append(moved, q)
			continue
		}
		if r == nil {
			r = w.newRequest(q.p)
		}
		if r.size > 0 && r.size+q.head.bytes > w.cfg.MaxRequestBytes {
			left = append(left, ready[i:]...)
			break
		}
		if !r.takes(q) {
			left = append(left, q)
			continue
		}
		q.queued = false
		r.add(q.launch())
	}
	clear(ready[len(left):])
	l.ready = left
	for _, q := range moved {
		w.schedule(q)
	}
	if r == nil {
		return nil
	}
	l.flying++
	for _, b := range r.batches { // behind those that had no turn
		w.schedule(b.q)
	}
	return r
}

func (w *Writer) newRequest(p *Producer) *produceRequest {
	req := &sarama.ProduceRequest{Version: 10, RequiredAcks: sarama.WaitForAll, Timeout: int32(w.cfg.RequestTimeout / time.Millisecond)}
	if p.opts.TransactionalID != "" {
		req.TransactionalID = &p.opts.TransactionalID
	}
	return &produceRequest{req: req, txn: p.opts.TransactionalID}
}

// takes reports whether the queue's head may go into the request.
func (r *produceRequest) takes(q *queue) bool {
	return q.p.opts.TransactionalID == r.txn &&
		!slices.ContainsFunc(r.batches, func(b *Builder) bool { return b.tp == q.tp })
}

func (r *produceRequest) add(b *Builder) {
	r.batches = append(r.batches, b)
	r.size += b.bytes
}

func (l *line) send(r *produceRequest) {
	for _, b := range r.batches {
		r.req.AddBatch(b.tp.Topic, b.tp.Partition, &b.batch)
	}
	c, err := l.w.pool.get(l.node)
	if err == nil {
		err = c.AsyncProduce(r.req, func(res *sarama.ProduceResponse, err error) {
			if err != nil && !isAnswer(err) {
				l.w.pool.drop(c)
			}
			l.answered(r, res, err)
		})
		if err != nil && !isAnswer(err) {
			l.w.pool.drop(c)
		}
	}
	if err != nil {
		l.answered(r, nil, err)
	}
}

// answered handles the answer to a request, or its failure.
func (l *line) answered(r *produceRequest, res *sarama.ProduceResponse, err error) {
	w := l.w
	w.mu.Lock()
	defer w.unlock()
	l.flying--
	l.poke()
	if err != nil {
		err = &transportError{node: l.node, err: err}
	}
	if !w.closed && l.away.note(err) {
		w.calls = append(w.calls, func() { w.state(l.node.String(), err) })
	}
	for _, b := range r.batches {
		if err != nil {
			b.q.refused(b, err)
			continue
		}
		block := res.GetBlock(b.tp.Topic, b.tp.Partition)
		switch {
		case block == nil:
			b.q.refused(b, &transportError{node: l.node, err: sarama.ErrIncompleteResponse})
		case block.Err == sarama.ErrNoError, block.Err == sarama.ErrDuplicateSequenceNumber:
			if block.Offset >= 0 { // unknown for some duplicates
				b.q.last = max(b.q.last, block.Offset+int64(b.Len())-1)
			}
			b.q.acknowledged(b)
		default:
			b.q.refused(b, blockError(block, b))
		}
	}
}

// blockError joins Kafka's code with what else it and we know.
func blockError(block *sarama.ProduceResponseBlock, b *Builder) error {
	var err error = block.Err
	if m := block.ErrorMessage; m != nil && *m != "" {
		err = fmt.Errorf("%w: %s", err, *m)
	}
	switch block.Err {
	case sarama.ErrMessageSizeTooLarge, sarama.ErrMessageSetSizeTooLarge:
		err = fmt.Errorf("a batch of %d records and about %d bytes before compression is too large: raise max.message.bytes of the topic, or write smaller records: %w", b.Len(), b.bytes, err)
	case sarama.ErrInvalidTimestamp:
		err = fmt.Errorf("a record's timestamp is outside the topic's message.timestamp.before.max.ms or after.max.ms: %w", err)
	}
	return err
}

var errUnknownTopic = errors.New("the topic or partition does not exist: create it, or check its name")
