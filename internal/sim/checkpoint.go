package sim

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/transactions"
)

// producer writes the repartition records of one process's tasks.
type producer struct {
	p       *process
	pid     int64
	writers []*repWriter
	load    int             // of the process
	tasks   barrier.TaskSet // given, and not stopped since
}

type repWriter struct {
	part *repPartition
	sequencer
}

func (pr *producer) send(part *repPartition, inc ids.Incarnation, recs []record.Raw) {
	var wr *repWriter
	for _, x := range pr.writers {
		if x.part == part {
			wr = x
		}
	}
	if wr == nil {
		wr = &repWriter{part: part}
		wr.sequencer.p = pr.p
		pr.writers = append(pr.writers, wr)
	}
	p, pid := pr.p, pr.pid
	wr.add(func(seq int32) transactions.Code { return part.produce(pid, seq, inc, recs) }, func(c transactions.Code) {
		if p.load != pr.load {
			return
		}
		if c != transactions.OK {
			p.failTasks(func(t *task) bool { return t.prod == pr }, "produce: "+c.String())
			return
		}
		p.tryAck()
	})
}

// checkpoint is one that a process takes part in.
type checkpoint struct {
	n        ids.CheckpointID
	inc      ids.Incarnation // newest of the tasks
	base     barrier.CheckpointRef
	stop     bool
	carried  barrier.TaskSet // take no part
	passed   int
	uploads  int // files under way
	parts    []taskPart
	halt     barrier.TaskSet // tasks that move
	collect  bool            // barriers wait for sendBarriers
	waiting  []*task         // whose barriers wait
	marked   bool
	marks    []mark
	prepared bool // the pool says so
	storing  bool
	part     string // stored
	over     bool   // acked or declined
}

// mark says how many batches of a repartition writer must be acknowledged.
type mark struct {
	wr    *repWriter
	added int64
}

func (p *process) trigger(e barrier.DoTrigger) {
	if len(p.tasks) == 0 {
		p.w.tracef("%s: trigger %d finds no tasks", p.name, e.N)
		return
	}
	p.cp = &checkpoint{n: e.N, inc: e.Incarnation, base: e.Base, stop: e.Stop, halt: e.Halt, carried: e.Carried}
	if len(e.Carried) > 0 {
		p.poolStep(transactions.Carried{N: e.N, Tasks: e.Carried})
	}
	p.cp.collect = p.w.plan.combined && !p.w.rules.BarrierFirst && !p.w.rules.BarrierSkips
	for _, t := range p.tasks {
		if !e.Carried.Contains(t.id) && t.aligner.Trigger(e.N) {
			p.snapshot(t, e.N)
		}
	}
	if p.cp.collect {
		p.cp.collect = false
		p.sendBarriers()
	}
	p.allPassed()
}

// sendBarriers writes one barrier record for all tasks that passed at the
// Trigger, and one with the times that they did not announce yet: R8 and R13
// allow a record to carry several.
func (p *process) sendBarriers() {
	cp := p.cp
	for _, prod := range p.producers() {
		var channels []barrier.Channel
		inc := ids.Incarnation(0)
		for _, t := range cp.waiting {
			if t.prod == prod {
				channels, inc = append(channels, barrier.Channel{Task: t.id, Inc: t.inc}), t.inc
			}
		}
		if len(channels) == 0 {
			continue
		}
		for _, topic := range p.w.plan.topology()[0].outputs {
			for i := range p.w.plan.partitionsOf(topic) {
				part := p.w.partition(ids.TopicPartition{Topic: topic, Partition: int32(i)})
				var recs []record.Raw
				if times := p.sharedTimes(prod, part); len(times) > 0 {
					recs = append(recs, record.Raw{Headers: header(barrier.AppendTimeHeader(nil, p.life, times))})
				}
				recs = append(recs, record.Raw{Headers: header(barrier.AppendBarrierHeader(nil, p.life, cp.n, channels))})
				prod.send(part, inc, recs)
			}
		}
	}
}

// sharedTimes are the news for a partition of the tasks whose barriers wait.
func (p *process) sharedTimes(prod *producer, part *repPartition) (out []barrier.ChannelTime) {
	for _, t := range p.cp.waiting {
		for i := range t.rep {
			b := &t.rep[i]
			if t.prod != prod || b.part != part || len(b.recs) > 0 || !t.newsFor(b) {
				continue
			}
			b.time, b.idle, b.at = t.times.StreamTime(), t.times.Idle(p.w.now), p.w.now
			out = append(out, barrier.ChannelTime{Channel: barrier.Channel{Task: t.id, Inc: t.inc}, Time: b.time, Idle: b.idle})
		}
	}
	return out
}

// allPassed notes what has to be acknowledged once all tasks passed.
func (p *process) allPassed() {
	cp := p.cp
	if cp == nil || cp.marked || cp.collect || cp.passed < p.takingPart() {
		return
	}
	cp.marked = true
	for _, prod := range p.producers() {
		if cp.carried.ContainsAll(prod.tasks) {
			continue
		}
		for _, wr := range prod.writers {
			cp.marks = append(cp.marks, mark{wr, wr.added})
		}
	}
	p.tryAck()
}

// takingPart counts the tasks that pass the running checkpoint.
func (p *process) takingPart() int {
	n := 0
	for _, t := range p.tasks {
		if !p.cp.carried.Contains(t.id) {
			n++
		}
	}
	return n
}

// snapshot is a task's passing of barrier n (R14).
func (p *process) snapshot(t *task, n ids.CheckpointID) {
	w, cp := p.w, p.cp
	if cp == nil || cp.n != n {
		w.fail("task %s aligned checkpoint %d, which %s does not take", t.id, n, p.name)
		return
	}
	w.tracef("%s %s passes %d", p.name, t.id, n)
	if !w.rules.SnapshotFirst {
		t.flushCache()
		t.flushOut()
	}
	tp := taskPart{task: t.id, positions: t.aligner.Positions(), times: t.times.State()}
	for i := range t.sources {
		tp.inputs = append(tp.inputs, groupOffset{tp: t.sources[i].in.tp, next: t.sources[i].next})
	}
	for i := range tp.positions {
		if tp.positions[i].InFlight(n) {
			w.stats.InFlightCuts++
		}
	}
	var offs []transactions.Offset
	for _, in := range tp.inputs {
		offs = append(offs, transactions.Offset{Partition: in.tp, Next: in.next, LeaderEpoch: -1})
	}
	p.poolStep(transactions.TaskPassed{Now: p.monotonic(), Task: t.id, N: n, Offsets: offs})
	for i := range t.rep {
		b := &t.rep[i]
		if w.rules.BarrierFirst {
			data := b.recs
			b.recs = nil
			t.sendRep(b, n)
			b.recs = data
			continue
		}
		switch {
		case w.rules.BarrierSkips && len(b.recs) == 0:
		case !cp.collect:
			t.sendRep(b, n)
		case len(b.recs) > 0 && !w.rules.SharedFirst:
			t.sendRep(b, ids.NoCheckpoint)
		}
	}
	if cp.collect {
		cp.waiting = append(cp.waiting, t)
	}
	snap := taskSnapshot{n: n, stored: t.stored}
	if w.rules.SnapshotFirst {
		t.flushCache()
		t.flushOut()
	}
	t.halted = cp.stop || cp.halt.Contains(t.id)
	t.release(t.aligner.Snapshotted())
	cp.passed++
	i := len(cp.parts)
	cp.parts = append(cp.parts, tp)
	p.step(barrier.EvPassed{N: n, Tasks: barrier.TaskSet{t.id}})
	p.upload(t, cp, i, &snap)
	p.allPassed()
}

// upload stores what changed since the base in a new file.
func (p *process) upload(t *task, cp *checkpoint, i int, snap *taskSnapshot) {
	var base taskSnapshot
	for _, s := range t.snaps {
		if s.n <= cp.base.N && s.n >= base.n { // of an earlier one when it was carried since
			base = s
		}
	}
	if len(base.files) > 3 {
		base = taskSnapshot{} // compaction
	}
	var delta []change
	for k := range snap.stored {
		if snap.stored[k] != base.stored[k] {
			delta = append(delta, change{int32(k), snap.stored[k]})
		}
	}
	snap.files = slices.Clone(base.files)
	finish := func() {
		t.snaps = append(t.snaps, *snap)
		cp.parts[i].files = snap.files
		p.tryAck()
	}
	if len(delta) == 0 {
		finish()
		return
	}
	cp.uploads++
	p.storeNew(cp, 0, func(attempt int) *object {
		key := fmt.Sprintf("%s/%s/%d/%d/%s-%d", appID, p.life, t.inc, cp.n, t.id, attempt)
		if p.w.rules.ReuseNames {
			key = fmt.Sprintf("%s/%s/%06d", appID, t.id, len(base.files)+1)
		}
		return &object{key: key, life: p.life, n: cp.n, file: delta}
	}, func(key string) {
		cp.uploads--
		snap.files = append(snap.files, key)
		finish()
	})
}

// uploadAttempts is how often an upload is tried, each under its own name.
const uploadAttempts = 3

func (p *process) storeNew(cp *checkpoint, attempt int, build func(attempt int) *object, stored func(key string)) {
	o := build(attempt)
	p.w.store.request(p, func() outcome { return p.w.store.put(o, false) }, func(res outcome) {
		switch {
		case p.cp != cp || cp.over:
		case res == done:
			stored(o.key)
		case attempt+1 < uploadAttempts:
			p.storeNew(cp, attempt+1, build, stored)
		default:
			cp.over = true
			p.step(barrier.EvDeclined{N: cp.n, Reason: barrier.DeclineUpload, Detail: o.key})
		}
	})
}

func (p *process) poolPrepared(n ids.CheckpointID) {
	if p.cp != nil && p.cp.n == n {
		p.cp.prepared = true
		p.tryAck()
	}
}

// tryAck stores the part when everything of it is known, and reports the
// checkpoint as prepared when all is (R16).
func (p *process) tryAck() {
	cp := p.cp
	if cp == nil || cp.over || cp.passed < p.takingPart() || cp.uploads > 0 {
		return
	}
	if !cp.storing {
		cp.storing = true
		tasks := slices.Clone(cp.parts)
		slices.SortFunc(tasks, func(a, b taskPart) int { return a.task.Compare(b.task) })
		p.storeNew(cp, 0, func(attempt int) *object {
			key := fmt.Sprintf("%s/%s/%d/%d/part-%s-%d", appID, p.life, cp.inc, cp.n, p.name, attempt)
			return &object{key: key, life: p.life, n: cp.n, part: &part{tasks: tasks}}
		}, func(key string) {
			cp.part = key
			p.tryAck()
		})
		return
	}
	if cp.part == "" || !cp.prepared || !cp.marked {
		return
	}
	for _, m := range cp.marks {
		if m.wr.acked < m.added {
			return
		}
	}
	cp.over = true
	oldest := cp.inc
	for _, tp := range cp.parts {
		oldest = barrier.Oldest(tp.positions, oldest)
	}
	var txns []barrier.Txn
	for _, l := range p.pool.Ack(cp.n, p.monotonic()) {
		txns = append(txns, barrier.Txn{Handle: l.Handle, Age: l.Age.Milliseconds(), Topics: l.Topics})
	}
	p.step(barrier.EvPrepared{N: cp.n, Part: cp.part, Oldest: oldest, Txns: txns})
}

// decided ends a checkpoint on the tasks.
func (p *process) decided(e barrier.DoDecided) {
	if !e.Completed {
		p.poolStep(transactions.Aborted{N: e.N})
	}
	for _, t := range p.tasks {
		if released, again := t.aligner.Decided(e.N); released {
			t.release(again)
		}
		if e.Completed && (p.cp == nil || !p.cp.carried.Contains(t.id)) {
			t.snaps = slices.DeleteFunc(t.snaps, func(s taskSnapshot) bool { return s.n < e.N })
		}
		if !e.Completed || e.Stay.Contains(t.id) {
			t.halted = false
		}
	}
	if p.cp != nil && p.cp.n == e.N {
		p.cp = nil
	}
}
