package tasks

import (
	"slices"
	"time"
)

const (
	// backlogTime is how far a repartition partition may be ahead of its reader,
	// as the time that the reader needs for it, before tasks upstream wait.
	backlogTime = 100 * time.Millisecond
	// leastBacklog is what may lie there in any case, in records: a reader that
	// just began has no rate yet.
	leastBacklog = 1024
	// upstreamTurn is how often tasks upstream get a small turn although readers
	// are behind, so that nothing that waits for their event time starves.
	upstreamTurn = 10 * time.Millisecond
	// upstreamBudget is how many records such a turn may take.
	upstreamBudget = 256
)

// pace is how many records a task takes in a second, as of late.
type pace struct {
	records int // since the last look
	rate    float64
}

// look is called now and then with the time since the last look.
func (p *pace) look(since time.Duration) {
	now := float64(p.records) / max(since, time.Millisecond).Seconds()
	p.rate += (now - p.rate) / 4
	p.records = 0
}

// allowed is how many records may lie in a partition of a task with inputs.
func (p *pace) allowed(inputs int) int64 {
	return max(leastBacklog, int64(p.rate*backlogTime.Seconds())/int64(max(inputs, 1)))
}

// behind reports whether a repartition partition that the task reads is longer
// than allowed. While another one is read to its end it is not: its next record
// may be what the others wait for, and then the task needs more from upstream,
// not less.
func (t *Task) behind() (behind bool) {
	if t.parked || t.failed {
		return false
	}
	for _, in := range t.inputs {
		if !in.spec.Internal {
			continue
		}
		left := in.end - in.next
		if left <= 0 && in.empty() {
			return false
		}
		behind = behind || left > t.pace.allowed(len(t.inputs))
	}
	return behind
}

// backpressure says who has a turn in a round of a worker.
type backpressure struct {
	waiting  []int32 // subtopologies that wait for their readers
	heldBack bool    // a task did in this round
	turn     bool    // in this round they have a small turn all the same
	last     time.Time
}

func (b *backpressure) begin(now time.Time) {
	b.waiting, b.heldBack = b.waiting[:0], false
	if b.turn = now.Sub(b.last) >= upstreamTurn; b.turn {
		b.last = now
	}
}

// most is how many records a task of a subtopology may take; those further
// down were asked and had their turns before.
func (b *backpressure) most(sub int32) int {
	if !slices.Contains(b.waiting, sub) {
		return budget
	}
	b.heldBack = true
	if b.turn {
		return upstreamBudget
	}
	return 0
}

// behind makes the subtopologies upstream of a reader wait for it.
func (b *backpressure) behind(upstream []int32) { b.waiting = append(b.waiting, upstream...) }
