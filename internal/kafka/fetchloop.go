package kafka

import (
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// fetchLoop asks one leader for the partitions of one isolation level. One
// request is under way at a time; the answer is decoded and handed out before
// the next, so that what is asked for heeds the credit.
type fetchLoop struct {
	f      *Fetcher
	node   node
	iso    Isolation
	pool   *pool
	dec    *decoder
	wakeup chan struct{}
	subs   []*Subscription // guarded by f.mu
	asked  []asked         // the request under way
	away   outage
}

// asked is one partition of the request under way.
type asked struct {
	s      *Subscription
	gen    uint64
	offset int64
}

func (l *fetchLoop) poke() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

func (l *fetchLoop) run() {
	for l.f.ctx.Err() == nil {
		req, next := l.compose(time.Now())
		if req == nil {
			l.idle(next)
			continue
		}
		start := time.Now()
		res, err := l.fetch(req)
		if l.f.ctx.Err() != nil {
			return
		}
		if err != nil {
			l.failed(err)
			continue
		}
		l.handle(res, start, time.Now())
	}
}

// idle waits until poked, or for the first partition that may be tried again.
func (l *fetchLoop) idle(next time.Time) {
	var timer <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-l.wakeup:
	case <-timer:
	case <-l.f.ctx.Done():
	}
}

// compose builds the next request, or returns nil and when there may be one.
func (l *fetchLoop) compose(now time.Time) (req *sarama.FetchRequest, next time.Time) {
	cfg := &l.f.cfg
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.asked = l.asked[:0]
	wait := cfg.MaxWait
	for _, s := range l.subs {
		ok, at := s.ready(now)
		if !ok {
			if !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
			if !s.paused && !s.stopped {
				wait = min(wait, waitPartial)
			}
			continue
		}
		if req == nil {
			req = &sarama.FetchRequest{Version: 12, MinBytes: 1, MaxBytes: cfg.MaxBytes, SessionEpoch: -1, Isolation: sarama.IsolationLevel(l.iso)}
		}
		if s.wanted && s.told {
			wait = min(wait, waitWanted)
		}
		req.AddBlock(s.opts.TP.Topic, s.opts.TP.Partition, s.next, s.partMax, -1)
		l.asked = append(l.asked, asked{s, s.gen, s.next})
	}
	if req != nil {
		req.MaxWaitTime = int32(wait / time.Millisecond)
	}
	return req, next
}

func (l *fetchLoop) fetch(req *sarama.FetchRequest) (*sarama.FetchResponse, error) {
	c, err := l.pool.get(l.node)
	if err != nil {
		return nil, err
	}
	res, err := c.Fetch(req)
	if err != nil {
		if !isAnswer(err) {
			l.pool.drop(c)
		}
		return nil, &transportError{node: l.node, err: err}
	}
	if k := sarama.KError(res.ErrorCode); k != sarama.ErrNoError {
		return nil, k
	}
	return res, nil
}

// failed handles a request that failed as a whole: the partitions look for
// their leader again, after a while.
func (l *fetchLoop) failed(err error) {
	if l.away.note(err) {
		l.f.state(l.node.String(), err)
	}
	wait := backoff(l.away.fails)
	l.f.mu.Lock()
	for _, a := range l.asked {
		if a.s.closed || a.s.loop != l {
			continue
		}
		a.s.failing++
		a.s.retryAt = time.Now().Add(wait)
		l.f.c.meta.forget(a.s.opts.TP)
		a.s.leave()
	}
	l.f.wakeFinder()
	l.f.mu.Unlock()
	_ = sleep(l.f.ctx, wait)
}

// handle hands out an answer, partition by partition in the order asked.
func (l *fetchLoop) handle(res *sarama.FetchResponse, start, end time.Time) {
	if l.away.note(nil) {
		l.f.state(l.node.String(), nil)
	}
	for _, a := range l.asked {
		block := res.Blocks[a.s.opts.TP.Topic][a.s.opts.TP.Partition]
		if block == nil {
			continue
		}
		var b *Batch
		if block.Err == sarama.ErrNoError {
			b = l.answer(a, block, start, end)
		} else {
			b = l.refusal(a, block)
		}
		if b != nil {
			a.s.opts.Sink(b)
		}
	}
}

// answer decodes a partition's block and returns the Batch to hand out, or nil
// if there is nothing to say.
func (l *fetchLoop) answer(a asked, block *sarama.FetchResponseBlock, start, end time.Time) *Batch {
	s := a.s
	b := NewBatch()
	b.Sub, b.TP, b.Generation = s, s.opts.TP, a.gen
	b.FirstOffset, b.AskedAt, b.FetchedAt = a.offset, start, end
	whole, err := l.dec.decode(b, block, l.iso)

	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if s.gen != a.gen || s.closed {
		b.recycle()
		return nil
	}
	s.failing, s.retryAt, s.unknown = 0, time.Time{}, time.Time{}
	if err != nil {
		b.recycle()
		return s.stop(&Error{Op: "fetch", TP: s.opts.TP, Class: ClassInvalid, Err: err})
	}
	if whole {
		s.partMax = l.f.cfg.PartitionMaxBytes
	} else {
		s.partMax = min(s.partMax*2, maxPartBytes)
	}
	moved := b.NextOffset > a.offset
	if !moved && s.told && !s.wanted && b.End == s.end && b.LogStart == s.start {
		b.recycle()
		return nil
	}
	s.told, s.wanted, s.end, s.start = true, false, b.End, b.LogStart
	s.next = b.NextOffset
	s.out += b.Bytes
	return b
}

// refusal handles a partition's error.
func (l *fetchLoop) refusal(a asked, block *sarama.FetchResponseBlock) *Batch {
	s, k := a.s, block.Err
	var out *OffsetOutOfRangeError
	if k == sarama.ErrOffsetOutOfRange {
		out = l.outOfRange(a)
	}
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if s.gen != a.gen || s.closed {
		return nil
	}
	s.failing++
	s.retryAt = time.Now().Add(backoff(s.failing))
	switch {
	case k == sarama.ErrOffsetOutOfRange:
		if out == nil {
			return nil // the ends are not known now, or it is in range again
		}
		return s.stop(out)
	case !retriable(k):
		return s.stop(newError("fetch", s.opts.TP, k))
	case needsLeader(k):
		l.f.c.meta.forget(s.opts.TP)
		s.leave()
		l.f.wakeFinder()
	}
	return nil
}

// outOfRange asks for the partition's ends, since the refusal itself carries
// none, and returns nil if the offset is in range after all: a new leader may
// not know the high watermark yet.
func (l *fetchLoop) outOfRange(a asked) *OffsetOutOfRangeError {
	tp := a.s.opts.TP
	start, err := l.f.c.admin.ListOffsets(l.f.ctx, Earliest, tp)
	var end map[ids.TopicPartition]int64
	if err == nil {
		end, err = l.f.c.admin.ListOffsets(l.f.ctx, Latest, tp)
	}
	if err == nil && (a.offset < start[tp] || a.offset > end[tp]) {
		return &OffsetOutOfRangeError{TP: tp, Offset: a.offset, LogStart: start[tp], End: end[tp]}
	}
	return nil
}
