package sim

import (
	"fmt"
	"math/rand/v2"
)

// World is one simulation: the clock, the queue of events, and everything that
// lives in them. Nothing in it depends on anything but the seed and the rules.
type World struct {
	seed  uint64
	rules Rules
	plan  plan
	trims trimPlan

	rng   *rand.Rand
	now   int64 // milliseconds
	queue eventHeap
	seq   uint64
	steps int
	hash  uint64

	chaos     bool
	storeDown int64 // the object store answers nothing before this time
	txnDown   int64 // nor does the transaction coordinator
	final     bool  // the end: nobody starts any more

	log     controlLog
	group   group
	txns    coordinator
	offsets groupOffsets
	store   store
	parts   []*repPartition
	sinks   []*sinkPartition
	inputs  []*input
	procs   []*process
	oracle  oracle

	nextPID  int64
	restores int    // asked for
	nextRun  uint64 // draws instance numbers
	stats    Stats

	failure error
	tracing bool
	trace   []string
}

// Stats counts what happened in a seed.
type Stats struct {
	Steps, Crashes, Stalls, Starts, Triggers, Completes, Aborts int
	Rollbacks, Restores, CleanStops                             int
	ZombieWrites, LateRequests, TxnTimeouts, Outputs            int
	LostByTimeout, Drops, InFlightCuts                          int
	Handovers, MovedTasks, Partial, TaskFailures, CarryingOver  int
	Rereads, TwoLeaders, UnansweredEnds, UnansweredInits        int
	RestoredMoves, Followed                                     int
	Snapshots, Trims, Sought, TrimmedOut, Forfeits              int
}

// Add adds the counts of another seed.
func (s *Stats) Add(o Stats) {
	s.Steps += o.Steps
	s.Crashes += o.Crashes
	s.Stalls += o.Stalls
	s.Starts += o.Starts
	s.Triggers += o.Triggers
	s.Completes += o.Completes
	s.Aborts += o.Aborts
	s.Rollbacks += o.Rollbacks
	s.Restores += o.Restores
	s.CleanStops += o.CleanStops
	s.ZombieWrites += o.ZombieWrites
	s.LateRequests += o.LateRequests
	s.TxnTimeouts += o.TxnTimeouts
	s.Outputs += o.Outputs
	s.LostByTimeout += o.LostByTimeout
	s.Drops += o.Drops
	s.InFlightCuts += o.InFlightCuts
	s.Handovers += o.Handovers
	s.MovedTasks += o.MovedTasks
	s.Partial += o.Partial
	s.CarryingOver += o.CarryingOver
	s.TaskFailures += o.TaskFailures
	s.Rereads += o.Rereads
	s.TwoLeaders += o.TwoLeaders
	s.UnansweredEnds += o.UnansweredEnds
	s.UnansweredInits += o.UnansweredInits
	s.RestoredMoves += o.RestoredMoves
	s.Followed += o.Followed
	s.Snapshots += o.Snapshots
	s.Trims += o.Trims
	s.Sought += o.Sought
	s.TrimmedOut += o.TrimmedOut
	s.Forfeits += o.Forfeits
}

// event is something that happens at a time; events of one time happen in the
// order in which they were planned.
type event struct {
	at  int64
	seq uint64
	fn  func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// eventHeap is a binary heap: the standard library's costs an interface call
// per comparison, and there are ten thousand events in a seed.
type eventHeap []event

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !s[i].before(&s[up]) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *eventHeap) pop() event {
	s := *h
	top := s[0]
	last := len(s) - 1
	s[0] = s[last]
	s[last] = event{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			break
		}
		if c+1 < last && s[c+1].before(&s[c]) {
			c++
		}
		if !s[c].before(&s[i]) {
			break
		}
		s[i], s[c] = s[c], s[i]
		i = c
	}
	return top
}

// after plans fn.
func (w *World) after(d int64, fn func()) {
	w.seq++
	w.queue.push(event{at: w.now + max(d, 0), seq: w.seq, fn: fn})
}

// step lets the next event happen.
func (w *World) step() {
	e := w.queue.pop()
	w.now = max(w.now, e.at)
	w.steps++
	w.note(uint64(e.at), e.seq)
	e.fn()
}

// note mixes values into the hash that the determinism test compares.
func (w *World) note(vs ...uint64) {
	for _, v := range vs {
		w.hash = (w.hash ^ v) * 0x100000001b3
		w.hash ^= w.hash >> 29
	}
}

// fail ends the run with a violation; the first one counts.
func (w *World) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.tracef("VIOLATION: %v", w.failure)
	}
}

// maxTrace bounds the trace: its tail is what a failing seed prints.
const maxTrace = 4000

func (w *World) tracef(format string, args ...any) {
	if !w.tracing {
		return
	}
	if len(w.trace) >= 2*maxTrace {
		w.trace = append(w.trace[:0], w.trace[maxTrace:]...)
	}
	w.trace = append(w.trace, fmt.Sprintf("%6d %5d  ", w.now, w.steps)+fmt.Sprintf(format, args...))
}

// chance is true in permille of a thousand cases.
func (w *World) chance(permille int) bool { return w.rng.IntN(1000) < permille }

// between returns a number in [lo, hi].
func (w *World) between(lo, hi int64) int64 { return lo + w.rng.Int64N(hi-lo+1) }

// latency is how long a message travels.
func (w *World) latency() int64 {
	if w.chaos && !w.plan.gentle && w.chance(40) {
		return w.between(10, 120)
	}
	return w.between(1, 4)
}

// requestTimeout is when a client gives up a request that was not answered.
const requestTimeout = 120

// fate is what becomes of a request.
type fate uint8

const (
	answered fate = iota
	lost          // never arrives
	mute          // is carried out; the answer is lost
	late          // arrives long after the sender gave it up
)

func (w *World) fate() fate {
	if !w.chaos || w.plan.gentle {
		return answered
	}
	switch n := w.rng.IntN(1000); {
	case n < w.plan.lost:
		return lost
	case n < w.plan.lost+w.plan.mute:
		return mute
	case n < w.plan.lost+w.plan.mute+w.plan.late:
		return late
	}
	return answered
}

// call sends a request of a process: do is carried out at its receiver, and
// answer is called in the process, with ok false when no answer came.
func call[T any](p *process, do func() T, answer func(v T, ok bool)) {
	callAs(p, p.w.fate(), do, answer)
}

// callAs is call with a fate.
func callAs[T any](p *process, f fate, do func() T, answer func(v T, ok bool)) {
	w, epoch := p.w, p.epoch
	gone := func() {
		p.laterAs(epoch, requestTimeout, func() {
			var zero T
			answer(zero, false)
		})
	}
	switch f {
	case lost:
		gone()
	case mute:
		w.after(w.latency(), func() { do() })
		gone()
	case late:
		gone()
		w.after(requestTimeout+w.between(0, w.plan.lateness), func() {
			w.stats.LateRequests++
			do()
		})
	default:
		w.after(w.latency(), func() {
			v := do()
			p.laterAs(epoch, w.latency(), func() { answer(v, true) })
		})
	}
}

// backoff is the wait before attempt number n of a request.
func (w *World) backoff(attempt int) int64 {
	if attempt == 0 {
		return 0
	}
	return w.between(5, 20) * int64(min(attempt, 5))
}
