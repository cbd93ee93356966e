package sim

import (
	"math/rand/v2"

	"github.com/tidegate/tidegate/internal/ids"
)

// Options says how to run a seed.
type Options struct {
	Steps int   // of the rough part; the calm part follows until all is done
	Rules Rules // the rules removed
	Trace bool  // keep a trace of events
}

// Result is what a seed gave.
type Result struct {
	Seed  uint64
	Stats Stats
	Hash  uint64   // of everything that happened
	Err   error    // the violated check
	Trace []string // with Options.Trace
	Plan  string
}

// Run runs one seed.
func Run(seed uint64, o Options) Result {
	w := newWorld(seed, o)
	w.rough(o.Steps)
	w.settle()
	w.stopAll()
	w.stats.Steps = w.steps
	return Result{Seed: seed, Stats: w.stats, Hash: w.hash, Err: w.failure, Trace: w.trace, Plan: w.plan.String()}
}

func newWorld(seed uint64, o Options) *World {
	w := &World{seed: seed, rules: o.Rules, rng: rand.New(rand.NewPCG(seed, 0x7469646567617465)), chaos: true, tracing: o.Trace}
	w.plan, w.trims = drawPlan(w), drawTrim(seed)
	w.plan.restoreLong(seed)
	w.log.w, w.txns.w, w.group.w = w, w, w
	w.group.all = w.plan.allTasks()
	w.store = store{w: w, objects: map[string]*object{}}
	w.nextPID = 1000
	for _, s := range w.plan.topology() {
		for _, in := range s.inputs {
			for i := range s.partitions {
				tp := ids.TopicPartition{Topic: in.topic, Partition: int32(i)}
				if in.source {
					w.inputs = append(w.inputs, newInput(tp, w.plan.sourceIndex(tp), &w.plan))
				} else {
					w.parts = append(w.parts, &repPartition{w: w, tp: tp})
				}
			}
		}
	}
	for i := range w.plan.sinkParts {
		w.sinks = append(w.sinks, &sinkPartition{w: w, tp: ids.TopicPartition{Topic: topicOut, Partition: int32(i)}})
	}
	w.oracle = newOracle(w)
	for i := range w.plan.instances {
		p := &process{w: w, slot: i, name: string(rune('a' + i))}
		w.procs = append(w.procs, p)
		w.after(w.between(0, 200), p.start)
	}
	var sweep func()
	sweep = func() {
		w.group.sweep()
		w.after(50, sweep)
	}
	w.after(50, sweep)
	return w
}

// rough is the part with faults; they come by steps, so that a crash can come
// at any of them.
func (w *World) rough(steps int) {
	next := 5 + w.rng.IntN(2*w.plan.faultEvery)
	for w.steps < steps && w.failure == nil {
		if w.steps >= next {
			w.fault()
			gap := w.rng.IntN(2*w.plan.faultEvery) + 1
			if w.chance(250) {
				gap = 1 + w.rng.IntN(40)
			}
			next = w.steps + gap
		}
		w.step()
		w.reap()
	}
}

// reap restarts slots whose instance ended by itself.
func (w *World) reap() {
	for _, p := range w.procs {
		if p.exited {
			p.exited = false
			w.restartLater(p)
		}
	}
}

// settleLimit is the time, beyond the transaction timeout, in which everything
// must have been output once faults ended.
const settleLimit = 20_000

func (w *World) settle() {
	if w.failure != nil {
		return
	}
	w.calm()
	end := w.now + settleLimit + 2*w.plan.transactionTimeout
	marks := w.oracle.marks
	for w.failure == nil && w.stats.LostByTimeout == 0 {
		if w.oracle.complete() && w.oracle.marks > marks && w.allUp() {
			w.sameFolds()
			return
		}
		if w.now > end {
			w.fail("no progress: faults ended %d ms ago, %d checkpoints completed since, all output %t", settleLimit+2*w.plan.transactionTimeout, w.oracle.marks-marks, w.oracle.complete())
			return
		}
		w.step()
		w.reap()
	}
}

func (w *World) allUp() bool {
	for _, p := range w.procs {
		if !p.up && !p.retired || w.now < p.stalled {
			return false
		}
	}
	return true
}

// stopAll stops everything cleanly; nothing may be output twice by it.
func (w *World) stopAll() {
	if w.failure != nil || w.stats.LostByTimeout > 0 {
		return
	}
	w.final = true
	w.tracef("the end: all are asked to stop")
	for _, p := range w.procs {
		if p.up {
			p.later(0, p.shutdown)
		}
	}
	end := w.now + w.plan.shutdownDeadline + 5000
	for w.failure == nil {
		left := 0
		for _, p := range w.procs {
			if p.up {
				left++
			}
		}
		if left == 0 {
			return
		}
		if w.now > end {
			w.fail("%d instances did not stop within the deadline and five seconds", left)
			return
		}
		w.step()
	}
}

// DefaultSteps is the number of steps with faults in a seed.
const DefaultSteps = 6000
