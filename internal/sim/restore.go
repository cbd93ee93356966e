package sim

import (
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/transactions"
)

func (p *process) dropTasks() {
	p.load++
	p.tasks, p.jobs, p.starting, p.cp = nil, nil, nil, nil
}

func (p *process) stopTasks(e barrier.DoStopTasks) {
	if e.All {
		p.dropTasks()
		p.poolStep(transactions.RolledBack{})
		return
	}
	// The others hear by DoDecided what becomes of a checkpoint under way.
	p.tasks = slices.DeleteFunc(p.tasks, func(t *task) bool {
		t.gone = t.gone || e.Tasks.Contains(t.id)
		return t.gone
	})
	for _, j := range p.jobs {
		j.tasks = j.tasks.Minus(e.Tasks)
	}
	p.starting = p.starting.Minus(e.Tasks)
	p.poolStep(transactions.RolledBack{Tasks: e.Tasks})
	_ = e.Keep // the pool knows them: a DoCommit came before
}

// loaded is what a restore reads from the store.
type loaded struct {
	absent string
	parts  []taskPart
	stores [][slots]int32
}

// startTasks restores tasks and runs them.
func (p *process) startTasks(e barrier.DoStartTasks) {
	if e.Tasks.Equal(e.All) {
		p.dropTasks()
	}
	p.starting = p.starting.Union(e.Tasks)
	var starts []transactions.StartTask
	for _, t := range e.Tasks {
		starts = append(starts, transactions.StartTask{Task: t, Inputs: p.w.reads(t), Group: t.Sub})
	}
	p.poolStep(transactions.Started{From: e.From.N, Tasks: starts})
	if p.w.rules.TakeStale && len(e.Tasks) > 0 && p.fetched.Life == e.Life && p.fetched.Tasks.ContainsAll(e.Tasks) {
		e.From = p.fetched.From
	}
	p.w.oracle.started(p, e)
	if len(e.Tasks) == 0 {
		return
	}
	p.begin(e)
}

// begin restores tasks with a producer of their own.
func (p *process) begin(e barrier.DoStartTasks) {
	j := &producer{p: p, load: p.load, tasks: e.Tasks}
	p.jobs = append(p.jobs, j)
	p.drawProducer(e, j)
}

// drawProducer gets a producer id for the repartition topics.
func (p *process) drawProducer(e barrier.DoStartTasks, prod *producer) {
	call(p, func() int64 {
		p.w.nextPID++
		return p.w.nextPID
	}, func(pid int64, ok bool) {
		switch {
		case p.load != prod.load || len(prod.tasks) == 0:
		case !ok:
			p.drawProducer(e, prod)
		default:
			prod.pid = pid
			if p.w.plan.bigState {
				p.later(p.w.between(0, 4*p.w.plan.interval), func() {
					if p.load == prod.load {
						p.restore(e, prod, p.w.now)
					}
				})
				return
			}
			p.restore(e, prod, p.w.now)
		}
	})
}

// restore reads the checkpoint. What is missing is looked for again for a
// while: it may be that the log says soon that this start is over.
func (p *process) restore(e barrier.DoStartTasks, prod *producer, since int64) {
	w, load := p.w, prod.load
	var got loaded
	w.store.request(p, func() outcome {
		e.Tasks = prod.tasks // what was stopped meanwhile is not needed
		got = w.store.load(e.From, e.Tasks)
		if got.absent != "" {
			return missing
		}
		return done
	}, func(res outcome) {
		switch {
		case p.load != load || len(prod.tasks) == 0:
		case res == failed:
			p.restore(e, prod, since)
		case res == missing && w.now-since < 2*w.plan.checkpointTimeout:
			p.later(50, func() {
				if p.load == load {
					p.restore(e, prod, since)
				}
			})
		case res == missing && (w.oracle.ended(e.Tasks, e.Incarnation) || w.oracle.undone(e)):
			p.step(barrier.EvTaskFailed{Incarnation: e.Incarnation, Tasks: e.Tasks, Error: "missing " + got.absent})
		case res == missing:
			w.fail("restore of checkpoint %d on %s: object %s is missing", e.From.N, p.name, got.absent)
		default:
			p.build(e, prod, &got)
		}
	})
}

// load reads the parts and files of some tasks.
func (s *store) load(ref barrier.CheckpointRef, tasks barrier.TaskSet) (l loaded) {
	parts, absent := s.parts(ref.Manifest)
	if absent != "" {
		l.absent = absent
		return l
	}
	for _, part := range parts {
		for _, tp := range part.tasks {
			if !tasks.Contains(tp.task) {
				continue
			}
			var st [slots]int32
			for _, key := range tp.files {
				f := s.get(key)
				if f == nil {
					l.absent = key
					return l
				}
				for _, c := range f.file {
					st[c.slot] = c.count
				}
			}
			l.parts = append(l.parts, tp)
			l.stores = append(l.stores, st)
		}
	}
	return l
}

func (p *process) build(e barrier.DoStartTasks, prod *producer, l *loaded) {
	w := p.w
	var running barrier.TaskSet
	e.Tasks = e.Tasks.Intersect(prod.tasks) // the others were stopped while they were read
	for i, tp := range l.parts {
		if !e.Tasks.Contains(tp.task) {
			continue
		}
		t, err := p.buildTask(e, prod, tp, l.stores[i])
		if err != nil {
			w.fail("restore of task %s from %d: %v", tp.task, e.From.N, err)
			return
		}
		p.tasks = append(p.tasks, t)
		w.oracle.alone(t)
		running = running.Union(barrier.TaskSet{t.id})
		p.later(w.between(1, 20), t.run)
	}
	if len(running) != len(e.Tasks) {
		w.fail("checkpoint %d holds tasks %v, wanted were %v", e.From.N, running, e.Tasks)
		return
	}
	p.starting = p.starting.Minus(running)
	if len(running) == 0 {
		return
	}
	// Reported in two portions.
	k := w.rng.IntN(len(running) + 1)
	if k > 0 {
		p.step(barrier.EvTaskRunning{Incarnation: e.Incarnation, Tasks: running[:k]})
	}
	wait := w.between(0, 10)
	if w.plan.bigState {
		wait *= w.plan.interval / 3
	}
	if load := p.load; k < len(running) {
		p.later(wait, func() {
			if p.load == load {
				p.step(barrier.EvTaskRunning{Incarnation: e.Incarnation, Tasks: running[k:]})
			}
		})
	}
}

func (p *process) buildTask(e barrier.DoStartTasks, prod *producer, tp taskPart, st [slots]int32) (*task, error) {
	w := p.w
	t := &task{p: p, id: tp.task, inc: e.Incarnation, epoch: p.epoch, load: p.load, prod: prod, start: startOfNow(p.m), from: e.From.N, sub: w.plan.topology()[tp.task.Sub]}
	t.values, t.stored = st, st
	t.snaps = []taskSnapshot{{n: e.From.N, stored: st, files: tp.files}}
	var align []barrier.AlignInput
	var times []barrier.TimeInput
	positions := slices.Clone(tp.positions)
	for _, in := range t.sub.inputs {
		part := ids.TopicPartition{Topic: in.topic, Partition: t.id.Partition}
		times = append(times, barrier.TimeInput{Partition: part, Source: in.source, Forward: in.forward, Cycle: in.cycle})
		if in.source {
			next := int64(-1)
			for _, o := range tp.inputs {
				if o.tp == part {
					next = o.next
				}
			}
			t.sources = append(t.sources, taskSource{in: w.inputs[w.plan.sourceIndex(part)], time: len(times) - 1, next: next})
			continue
		}
		align = append(align, barrier.AlignInput{Partition: part, Forward: in.forward, Cycle: in.cycle})
		rp := w.partition(part)
		for i := range positions {
			if positions[i].Partition != part {
				continue
			}
			if positions[i].Next < rp.start {
				w.oracle.positionBelowStart(p, e, rp, positions[i].Next)
				positions[i].Next = rp.start
			}
			t.reps = append(t.reps, taskInput{part: rp, time: len(times) - 1, fetch: positions[i].Next})
		}
	}
	var err error
	t.aligner, err = barrier.NewAligner(barrier.AlignConfig{
		Life: p.life, Inputs: align, Lineages: e.Lineages, Positions: positions, LogEnd: p.m.LogEnd(),
		HoldLimit: w.plan.holdLimit, Rules: w.rules.Barrier,
	})
	if err != nil {
		return nil, err
	}
	stored := tp.times
	t.times = barrier.NewTimes(times, &stored, 400, w.now)
	for _, topic := range t.sub.outputs {
		for i := range w.plan.partitionsOf(topic) {
			t.rep = append(t.rep, repBuffer{
				part: w.partition(ids.TopicPartition{Topic: topic, Partition: int32(i)}), time: barrier.NoTime, at: w.now,
			})
		}
	}
	for _, s := range w.sinks {
		t.out = append(t.out, outBuffer{part: s})
	}
	return t, nil
}
