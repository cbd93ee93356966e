package sim

import (
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/transactions"
)

// prefetch reads the files of tasks of others; the answer comes in portions.
func (p *process) prefetch(e barrier.DoPrefetch) {
	p.pre = e
	if len(e.Tasks) == 0 {
		return
	}
	load := p.load
	p.w.store.request(p, func() outcome {
		if l := p.w.store.load(e.From, e.Tasks); l.absent != "" {
			return missing
		}
		return done
	}, func(res outcome) {
		switch {
		case p.load != load || p.pre.From.N != e.From.N || !p.pre.Tasks.Equal(e.Tasks):
		case res == failed:
			p.later(20, func() {
				if p.load == load && p.pre.From.N == e.From.N && p.pre.Tasks.Equal(e.Tasks) {
					p.prefetch(e)
				}
			})
		case res == done:
			p.fetched = e
			p.w.stats.Followed += len(e.Tasks.Intersect(p.member.warm))
			p.step(barrier.EvPrefetched{N: e.From.N, Tasks: e.Tasks})
		}
	})
}

// moveTasks carries out a handover (R25).
func (p *process) moveTasks(e barrier.DoMoveTasks) {
	w := p.w
	w.stats.MovedTasks += len(e.Come)
	moved := transactions.Moved{N: e.From.N, Gone: e.Gone}
	p.tasks = slices.DeleteFunc(p.tasks, func(t *task) bool {
		t.gone = t.gone || e.Gone.Contains(t.id)
		return t.gone
	})
	p.starting = p.starting.Minus(e.Gone)
	for _, j := range p.jobs {
		j.tasks = j.tasks.Minus(e.Gone)
	}
	for _, t := range e.Come {
		moved.Come = append(moved.Come, transactions.StartTask{Task: t, Inputs: p.w.reads(t), Group: t.Sub})
	}
	p.poolStep(moved)
	for _, t := range p.tasks {
		t.aligner.SetLineages(e.Lineages)
	}
	if len(e.Come) == 0 {
		return
	}
	job := barrier.DoStartTasks{
		Life: e.Life, Incarnation: e.Incarnation, Tasks: e.Come, From: e.From, Lineages: e.Lineages, Owners: e.Owners,
	}
	if w.rules.StartStale && p.pre.From.Manifest != "" {
		job.From = p.pre.From
	}
	w.oracle.started(p, job)
	p.starting = p.starting.Union(e.Come)
	p.begin(job)
}

// reads reports whether a task reads an external input.
func (w *World) reads(t ids.TaskID) bool {
	return slices.ContainsFunc(w.plan.topology()[t.Sub].inputs, func(in edge) bool { return in.source })
}

// producers are those of the tasks that run here, each once.
func (p *process) producers() []*producer {
	var out []*producer
	for _, t := range p.tasks {
		if !slices.Contains(out, t.prod) {
			out = append(out, t.prod)
		}
	}
	return out
}

// failTasks reports tasks as failed, each with its own incarnation.
func (p *process) failTasks(which func(*task) bool, why string) {
	for _, t := range slices.Clone(p.tasks) {
		if which(t) {
			p.step(barrier.EvTaskFailed{Incarnation: t.inc, Tasks: barrier.TaskSet{t.id}, Error: why})
		}
	}
}

// onHandover disturbs a handover at any of its steps: the old owner, the new
// one or the coordinator dies or stalls.
func (w *World) onHandover(moves []barrier.Move) {
	w.stats.Handovers++
	if !w.chaos || w.plan.gentle || !w.chance(300) {
		return
	}
	mv := moves[w.rng.IntN(len(moves))]
	var p *process
	switch w.rng.IntN(4) {
	case 0:
		if p = w.victim(false); p != nil {
			w.after(w.between(0, 60), func() { w.restoreOlder(p) })
		}
		return
	case 1:
		p = w.victim(true)
	case 2:
		p = w.byID(mv.To)
	default:
		for _, q := range w.procs {
			if q.up && slices.ContainsFunc(q.tasks, func(t *task) bool { return t.id == mv.Task }) {
				p = q
			}
		}
	}
	if p == nil {
		return
	}
	stall := w.chance(300)
	epoch := p.epoch
	w.after(w.between(0, 120), func() {
		switch {
		case p.epoch != epoch:
		case stall:
			p.stall(w.between(50, 900))
		default:
			p.crash()
			w.restartLater(p)
		}
	})
}

func (w *World) byID(id ids.InstanceID) *process {
	for _, p := range w.procs {
		if p.up && p.id == id {
			return p
		}
	}
	return nil
}

// gentle lets instances come and go by themselves: nothing crashes, so nothing
// may roll back or be processed twice.
func (w *World) gently() {
	kind := w.rng.IntN(10)
	switch {
	case kind < 2 && len(w.procs) < 5:
		q := &process{w: w, slot: len(w.procs), name: string(rune('a' + len(w.procs)))}
		w.tracef("%s is added", q.name)
		w.procs = append(w.procs, q)
		w.after(w.between(0, 300), q.start)
	default:
		running := 0
		for _, p := range w.procs {
			if p.up && !p.stopping {
				running++
			}
		}
		if p := w.victim(false); running > 1 && p != nil && !p.stopping {
			w.tracef("%s is asked to stop", p.name)
			w.stats.CleanStops++
			p.later(0, p.shutdown)
		}
	}
}
