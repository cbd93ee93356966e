package sim

import (
	"bytes"
	"math/rand/v2"

	"github.com/tidegate/tidegate/barrier"
)

// trimPlan is how a seed trims its control log; records 0: not at all.
type trimPlan struct {
	records int64 // between Snapshots
	part    int   // bytes of state in a record
	forfeit bool  // lost output is given up (R23)
}

// drawTrim draws from a source of its own, so that the seeds that do not trim
// are what they were before there was trimming.
func drawTrim(seed uint64) trimPlan {
	r := rand.New(rand.NewPCG(seed, 0x7472696d))
	t := trimPlan{forfeit: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		return t
	}
	t = trimPlan{forfeit: t.forfeit, records: int64(5 + r.IntN(1+r.IntN(150))), part: 512 << 10}
	if r.IntN(2) == 0 {
		t.part = 150 + r.IntN(600)
	}
	return t
}

// set writes the plan into a machine's settings.
func (t *trimPlan) set(c *barrier.Config) {
	c.SnapshotRecords, c.SnapshotBytes, c.SnapshotPart = t.records, 1<<40, t.part
	c.ForfeitAll = t.forfeit
	if t.records == 0 {
		c.SnapshotRecords = -1
	}
}

// trimTries is how often a trim is sent before the next Snapshot's turn.
const trimTries = 4

// trim deletes what the control log holds below an offset.
func (p *process) trim(e barrier.DoTrim, attempt int) {
	if attempt == trimTries {
		return
	}
	p.later(p.w.backoff(attempt), func() {
		call(p, func() bool { p.w.log.trim(e.Below); return true }, func(_, ok bool) {
			if !ok {
				p.trim(e, attempt+1)
			}
		})
	})
}

func (l *controlLog) trim(below int64) {
	if below > l.start {
		l.start = below
		l.w.stats.Trims++
		l.w.tracef("LOG begins at %d", below)
	}
}

// below: the log was trimmed above what the process wanted to read. It may only
// have wanted to read something again.
func (p *process) below(start int64) {
	if p.logPos >= start {
		p.fetchLog()
		return
	}
	if p.w.rules.ReadTrimmed {
		p.logPos = start
		p.fetchLog()
		return
	}
	p.w.stats.TrimmedOut++
	if p.w.plan.gentle && len(p.tasks) > 0 {
		p.w.fail("%s is driven out by a trim to %d, though it reads at %d and nothing is slow", p.name, start, p.logPos)
	}
	p.step(barrier.EvLogTrimmed{Start: start})
}

// checkFold compares the fold of a process that began with a Snapshot with the
// fold of all records: the first time that it has one.
func (p *process) checkFold() {
	if p.begun == 0 || p.m == nil || p.m.LogEnd() == 0 {
		return
	}
	p.begun = 0
	p.w.stats.Sought++
	p.w.sameFold(p)
}

// sameFold compares a process's fold with that of all records from offset 0.
func (w *World) sameFold(p *process) {
	end := p.m.LogEnd()
	ref := barrier.NewLog(w.rules.Barrier)
	for i, r := range w.log.records[:end] {
		if _, err := ref.Apply(int64(i), r); err != nil {
			w.fail("fold of the log: %v", err)
			return
		}
	}
	if !bytes.Equal(ref.AppendState(nil), p.m.Log().AppendState(nil)) {
		w.fail("%s folded the log from a snapshot up to %d, and has another state than who folded all of it:\n%+v\n%+v", p.name, end, p.m.Log().View(), ref.View())
	}
}

// sameFolds compares everybody's fold, at the end of the calm part.
func (w *World) sameFolds() {
	for _, p := range w.procs {
		if p.up && w.trims.records > 0 && p.m.LogEnd() > 0 {
			w.sameFold(p)
		}
	}
}

// holdSnapshot lets a part of a Snapshot hang on its way, and with it its writer,
// so that it comes when others lead, have written their own, and trimmed.
func (p *process) holdSnapshot(r barrier.Record) bool {
	w := p.w
	if _, ok := r.Body.(barrier.Snapshot); !ok || !w.chaos || w.plan.gentle || !w.chance(150) {
		return false
	}
	w.stats.LateRequests++
	w.after(w.between(200, 4000), func() { w.log.append(r) })
	if w.chance(500) {
		p.crashIn = 1
	} else {
		p.stall(w.between(500, 3000))
	}
	return true
}

// sleepOverCommit lets all sleep, now and then, between a decision and its commit,
// until the broker has ended the transactions.
func (w *World) sleepOverCommit() {
	if !w.chaos || w.plan.gentle || !w.trims.forfeit || !w.chance(8) {
		return
	}
	w.tracef("all sleep over the commit")
	for _, p := range w.procs {
		if p.up {
			p.stall(w.plan.transactionTimeout + w.between(100, 600))
		}
	}
}
