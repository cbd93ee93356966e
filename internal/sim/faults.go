package sim

import (
	"strconv"

	"github.com/tidegate/tidegate/barrier"
)

// restartLater starts the slot's next instance after a while.
func (w *World) restartLater(p *process) {
	d := w.between(10, 60)
	if w.chaos {
		d = w.between(10, 600)
	}
	w.after(d, func() {
		if !p.up && !p.retired && !w.final {
			p.start()
		}
	})
}

// victim picks a running process; the leader if there is one and wanted.
func (w *World) victim(leader bool) *process {
	var up []*process
	for _, p := range w.procs {
		if p.up {
			if leader && p.m.Leading() {
				return p
			}
			up = append(up, p)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[w.rng.IntN(len(up))]
}

// fault does something bad, at the present step.
func (w *World) fault() {
	if w.plan.gentle {
		w.gently()
		return
	}
	kind := w.rng.IntN(104)
	leader := w.chance(400)
	p := w.victim(leader)
	if p == nil {
		return
	}
	switch {
	case kind < 12:
		w.failTask(p)
	case kind < 28:
		p.crash()
		w.restartLater(p)
	case kind < 40:
		p.crashIn = 1 + w.rng.IntN(6) // between the effects of a Step
	case kind < 43:
		for _, p := range w.procs {
			if p.up {
				p.crash()
				w.restartLater(p)
			}
		}
	case kind < 48:
		w.doubled(p)
	case kind < 65:
		d := w.between(50, 900)
		if w.chance(300) {
			d = w.between(900, 3000)
		}
		p.stall(d)
	case kind < 75:
		p.lagging = w.now + w.between(50, 1500)
		w.tracef("%s lags behind in the control log until %d", p.name, p.lagging)
	case kind < 78:
		// User code that blocks: the instance lives, but its tasks do not.
		p.hanging = w.now + w.between(100, 4*w.plan.checkpointTimeout)
		w.tracef("tasks of %s hang until %d", p.name, p.hanging)
	case kind < 84:
		w.storeDown = w.now + w.between(50, 1200)
		if w.chance(200) {
			w.storeDown += 3 * w.plan.checkpointTimeout
		}
		w.tracef("the object store is down until %d", w.storeDown)
	case kind < 88:
		w.tracef("%s is asked to stop", p.name)
		w.stats.CleanStops++
		p.later(0, p.shutdown)
	case kind < 91:
		w.stats.CleanStops++
		w.tracef("all are asked to stop")
		for _, p := range w.procs {
			if p.up {
				p.later(0, p.shutdown)
			}
		}
	case kind < 92:
		// The machines sleep: the broker's transaction timeout strikes.
		d := w.plan.transactionTimeout/2 + w.between(0, w.plan.transactionTimeout)
		for _, p := range w.procs {
			if p.up {
				p.stall(d + w.between(0, 200))
			}
		}
	case kind < 96:
		w.tracef("%s is thrown out of the group", p.name)
		w.group.leave(p.id)
	case kind < 100:
		w.restoreOlder(p)
	default:
		w.txnDown = w.now + w.between(50, 1500)
		w.tracef("the transaction coordinator is down until %d", w.txnDown)
	}
}

// failTask lets user code fail in a task, and often in another soon after the
// restart that follows, before a checkpoint completes.
func (w *World) failTask(p *process) {
	if len(p.tasks) == 0 {
		return
	}
	t := p.tasks[w.rng.IntN(len(p.tasks))]
	w.tracef("task %s of %s fails", t.id, p.name)
	w.stats.TaskFailures++
	p.later(0, func() {
		p.step(barrier.EvTaskFailed{Incarnation: t.inc, Tasks: barrier.TaskSet{t.id}, Error: "user code"})
	})
	if w.chance(500) {
		w.after(w.between(0, 400), func() {
			if p := w.victim(false); p != nil && w.chaos {
				w.failTask(p)
			}
		})
	}
}

// doubled starts another process under the name of one that is taken for dead
// but only stalls, or lives.
func (w *World) doubled(p *process) {
	if len(w.procs) > 12 {
		return
	}
	if w.chance(700) {
		p.stall(w.between(50, 1500))
	}
	w.tracef("another process gets the name %s", p.name)
	q := &process{w: w, slot: len(w.procs), name: p.name}
	w.procs = append(w.procs, q)
	w.after(w.between(0, 300), q.start)
}

// restoreOlder asks for an older retained checkpoint. With a cycle the
// oracle cannot tell what its in-flight records will give.
func (w *World) restoreOlder(p *process) {
	if w.plan.cycle || len(w.oracle.retained) < 2 {
		return
	}
	i := w.rng.IntN(len(w.oracle.retained) - 1)
	n := w.oracle.retained[i].N
	w.tracef("%s is asked to restore %d", p.name, n)
	w.restores++
	ev := barrier.EvRestore{N: n, AllowDuplicates: true, Nonce: strconv.Itoa(w.restores)}
	p.later(0, func() { p.step(ev) })
}

// calm turns faults off: what was under way goes on, nothing new breaks.
func (w *World) calm() {
	w.chaos = false
	w.storeDown, w.txnDown = 0, 0
	w.tracef("calm")
	for _, in := range w.inputs {
		in.frozen = true
	}
	for _, p := range w.procs {
		p.lagging, p.hanging, p.crashIn = 0, 0, 0
		if !p.up {
			w.restartLater(p)
		}
	}
}
