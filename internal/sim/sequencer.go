package sim

import (
	"slices"

	"github.com/tidegate/tidegate/transactions"
)

// sequencer sends the batches of one producer id to one partition: numbered,
// up to five at once, repeated in order until each has an answer. Until the
// first is acknowledged there is only one; after an error they go one by one
// (R8).
type sequencer struct {
	p      *process
	next   int32
	queue  []*pending
	known  bool
	serial bool
	added  int64 // batches taken in
	acked  int64 // batches acknowledged, in order
	dead   bool
}

// pending is a batch that is not acknowledged.
type pending struct {
	seq      int32
	produce  func(seq int32) transactions.Code
	answer   func(transactions.Code)
	inFlight bool
	front    bool // nothing before it was in doubt when it was sent
	acked    bool
	attempt  int
}

func (s *sequencer) add(produce func(int32) transactions.Code, answer func(transactions.Code)) {
	s.queue = append(s.queue, &pending{seq: s.next, produce: produce, answer: answer})
	s.next++
	s.added++
	s.pump()
}

func (s *sequencer) pump() {
	limit := 5
	if !s.known || s.serial {
		limit = 1
	}
	for i, b := range s.queue[:min(limit, len(s.queue))] {
		if b.inFlight || b.acked {
			continue
		}
		b.inFlight, b.front = true, i == 0
		s.p.retry(b.attempt, func() {
			if s.dead && b.attempt > 0 {
				return
			}
			call(s.p, func() transactions.Code { return b.produce(b.seq) }, func(c transactions.Code, ok bool) { s.answered(b, codeOf(c, ok)) })
		})
	}
}

func (s *sequencer) answered(b *pending, c transactions.Code) {
	b.inFlight = false
	if s.dead {
		if !b.acked {
			b.acked = true
			if c == transactions.NoAnswer || c == outOfOrder {
				c = transactions.Abandoned
			}
			b.answer(c)
		}
		return
	}
	switch {
	case c == transactions.OK:
		s.ok(b)
		return
	case c == transactions.NoAnswer || c == outOfOrder && !b.front:
		b.attempt++
		s.serial = true
	default:
		s.queue = slices.DeleteFunc(s.queue, func(x *pending) bool { return x == b })
		b.acked = true
		b.answer(c)
	}
	s.pump()
}

func (s *sequencer) ok(b *pending) {
	b.acked = true
	s.known = true
	var out []*pending
	for len(s.queue) > 0 && s.queue[0].acked {
		out = append(out, s.queue[0])
		s.queue = s.queue[1:]
		s.acked++
	}
	if len(s.queue) == 0 {
		s.serial = false
	}
	s.pump()
	for _, x := range out {
		x.answer(transactions.OK)
	}
}

// giveUp stops repeating. What is in flight is answered when its answer comes;
// what waits for its next attempt, now.
func (s *sequencer) giveUp() {
	s.dead = true
	queue := s.queue
	s.queue = nil
	for _, b := range queue {
		switch {
		case b.acked:
			b.answer(transactions.OK)
		case !b.inFlight || b.attempt > 0:
			b.acked = true
			b.answer(transactions.Abandoned)
		}
	}
}
