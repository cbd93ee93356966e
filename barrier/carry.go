package barrier

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Checkpoints of some tasks (R26): behind a partial rollback, tasks that started
// again may need long for their state. What runs must not wait with its output, so
// a checkpoint can be taken of it alone. Those that do not run are carried over,
// with what is downstream of them: the manifest lists them as the checkpoint before
// did.
//
//	Start ─▶ an interval later, not all run ─▶ Trigger{carried}, Complete ─▶ …
//	  │                                            all run
//	  └────────────▶ all run ─▶ Trigger, Complete ◀─────┘
//
// Such a cut is consistent: nobody who takes part reads from anybody who is
// carried, and what those who are carried still have to read stays in the
// repartition topics, as their positions do in the manifest.
//
// Nothing that a carried task wrote is in a prepared transaction. It began with a
// Start behind which no barrier reached it: it is, or is downstream of, one that
// did not run since. And who takes part shares no transaction with it: an instance
// says of the tasks of one Start together that they run, and those that run longer
// write into another one (R18).

// mayCarry says why a checkpoint cannot be taken of the tasks that a Trigger
// leaves, or "". Without carried tasks it is of all, and all must run.
func (l *Log) mayCarry(b Trigger) string {
	s := l.start
	switch {
	case !s.running.ContainsAll(s.tasks.Minus(b.Carried)):
		return "not all tasks run"
	case len(b.Carried) == 0:
		return ""
	case b.Stop || len(b.Moves) > 0:
		return "tasks stop or move while others are carried"
	case !s.fresh.ContainsAll(b.Carried):
		return "it carries tasks that took part in a checkpoint since they started"
	case b.Carried.ContainsAll(s.tasks):
		return "it carries all tasks"
	case l.last().ref.N == 0:
		return "checkpoint 0 holds no tasks to carry"
	case l.restored:
		// Its positions in repartition topics may be purged; who starts from it
		// begins behind that (R29), which only its own next checkpoint can say.
		return "the last completed checkpoint is the target of a Restore"
	}
	return ""
}

// carried returns what a Trigger of now has to carry: nothing when all tasks run.
// ok is false when there can be none.
func (c *coordinator) carried(m *Machine) (carried TaskSet, ok bool) {
	s := m.log.start
	idle := s.tasks.Minus(s.running)
	if len(idle) == 0 {
		return nil, true
	}
	carried = m.cfg.Graph.Affected(idle, s.owners, Rules{SkipR26Shared: true})
	return carried, m.log.mayCarry(Trigger{Carried: carried}) == ""
}

// lineagesAt returns the lineages as of the undecided checkpoint. Those of carried
// tasks are as of the one before, and end there: what they wrote since belongs
// to no checkpoint. Nothing is forgotten then, since positions of carried tasks
// are older than the acks say.
func (l *Log) lineagesAt(u *undecided) Lineages {
	if len(u.carried) == 0 {
		return l.lineages.Prune(oldestOf(u.acks))
	}
	before := l.last()
	if l.rules.SkipR26Carried {
		return l.lineages
	}
	out := l.lineages.of(l.start.tasks.Minus(u.carried)).join(before.lineages.of(u.carried).closed(before.ref.N))
	if l.rules.SkipR26Forget {
		out = out.Prune(oldestOf(u.acks))
	}
	return out
}

// closed returns the lineages with what is open closed at checkpoint n.
func (l Lineages) closed(n ids.CheckpointID) Lineages {
	out := Lineages{Groups: slices.Clone(l.Groups)}
	for i := range out.Groups {
		out.Groups[i].Lineage = out.Groups[i].Lineage.closed(n)
	}
	out.merge()
	return out
}

// without returns the owners of what is left when some tasks are taken away.
func (s *started) without(tasks TaskSet) []Owner {
	if len(tasks) == 0 {
		return s.owners
	}
	var out []Owner
	for _, o := range s.owners {
		if o.Tasks = o.Tasks.Minus(tasks); len(o.Tasks) > 0 {
			out = append(out, o)
		}
	}
	return out
}
