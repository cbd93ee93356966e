package sim

import (
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
)

// takes notes which records were processed since which Start: between two
// Starts no record is processed twice, by whomever, since handovers replay
// nothing (R25). When instances only come and go, none is processed twice at all.
type takes struct {
	tp ids.TopicPartition
	by []ids.Incarnation // offset → latest Start since which it was processed
}

// took: a task processes a record.
func (o *oracle) took(t *task, tp ids.TopicPartition, off int64) {
	i := slices.IndexFunc(o.taken, func(x takes) bool { return x.tp == tp })
	if i < 0 {
		i = len(o.taken)
		o.taken = append(o.taken, takes{tp: tp})
	}
	x := &o.taken[i]
	for int64(len(x.by)) <= off {
		x.by = append(x.by, 0)
	}
	if x.by[off] == t.start || o.w.plan.gentle && !o.upset && x.by[off] > 0 {
		o.w.fail("reprocessed: task %s of %s, incarnation %d, processes %s offset %d, which was processed since Start %d before", t.id, t.p.name, t.inc, tp, off, t.start)
		return
	}
	x.by[off] = max(x.by[off], t.start)
}

// alone: a task begins to run. No other process may run it as an incarnation of
// the same Start, unless it halted there to move.
func (o *oracle) alone(t *task) {
	for _, p := range o.w.procs {
		for _, x := range p.tasks {
			if x != t && x.id == t.id && x.start == t.start && !x.halted {
				o.w.fail("task %s runs in %s as incarnation %d and in %s as %d", t.id, p.name, x.inc, t.p.name, t.inc)
			}
		}
	}
}

// startOfNow is the latest Start that the machine has read.
func startOfNow(m *barrier.Machine) ids.Incarnation { return m.Log().View().Incarnation }

// movedOn reports whether a later handover gave the task away: its former owner
// has not read so yet.
func (o *oracle) movedOn(t *task) bool {
	return t.halted && slices.ContainsFunc(o.w.log.records[t.inc:], func(r barrier.Record) bool {
		b, ok := r.Body.(barrier.Complete)
		return ok && slices.ContainsFunc(b.Moves, func(mv barrier.Move) bool { return mv.Task == t.id })
	})
}

// purgedLate reports whether the task goes on from the target of a Restore: a
// purge for a later checkpoint may arrive behind the look at the log start. The
// next start finds the position below it and moves it up (R29).
func (o *oracle) purgedLate(t *task) bool { return slices.Contains(o.restored, t.from) }
