package barrier

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// moving is what the coordinator knows of a changed assignment (R25).
//
//	assignment differs ─▶ new owners prefetch ─▶ Trigger{moves} ─▶ Complete{moves'}
//	        ▲             and say Ready          │ Abort
//	        └──────────── ordinary checkpoint ◀──┘
type moving struct {
	moves      []Move // from the owners of now to those of the counted generation
	generation int32
	since      int64 // when they were first seen
}

// planMoves compares the counted generation with the owners of now. A plan
// that is not for all tasks, or gives some to who must not get any, is none:
// the next generation will do.
func (c *coordinator) planMoves(m *Machine) {
	c.moving.moves = nil
	if m.log.start == nil || m.log.rollback != nil || !c.counted(m) {
		return
	}
	_, owners, _, ok := m.log.counted(m.gen.Generation)
	if !ok {
		return
	}
	if tasks, unique := ownerTasks(owners); !unique || !tasks.Equal(m.log.start.tasks) {
		return
	}
	var moves []Move
	for _, o := range owners {
		if !m.log.takes(o.Instance) {
			continue
		}
		for _, t := range o.Tasks.Minus(m.log.start.tasksOf(o.Instance)) {
			moves = append(moves, Move{Task: t, To: o.Instance})
		}
	}
	slices.SortFunc(moves, func(a, b Move) int { return a.Task.Compare(b.Task) })
	if c.moving.generation != m.gen.Generation || c.moving.since < 0 {
		c.moving.generation, c.moving.since = m.gen.Generation, m.now
	}
	c.moving.moves = moves
	if len(moves) == 0 {
		c.moving.since = -1
	}
}

// dueMoves returns what the next Trigger moves: all that is planned once the
// new owners have prefetched it. Who is not ready in time does not delay the
// others; its tasks come with a later handover, but for those whose owner wants
// to leave: a long start is better than the Rollback at its deadline.
func (c *coordinator) dueMoves(m *Machine) []Move {
	if len(c.moving.moves) == 0 || m.log.heldUp {
		return nil
	}
	late := m.now-c.moving.since >= m.cfg.ReadyTimeout
	var out []Move
	for _, mv := range c.moving.moves {
		switch {
		case m.log.find(mv.To).ready.Contains(mv.Task):
		case !late:
			return nil
		default:
			if from := m.log.find(m.log.start.ownerOf(mv.Task)); from == nil || !from.leaving {
				continue
			}
		}
		out = append(out, mv)
	}
	return out
}

// hurried reports whether a checkpoint is wanted before the interval is over:
// the ordinary one that comes between an aborted handover and the next.
func (c *coordinator) hurried(m *Machine) bool {
	return m.log.heldUp && len(c.moving.moves) > 0 && m.log.aborts == 0
}

// arrived returns the moves of the undecided checkpoint that take effect: those
// whose new owner is still there (R25).
func (c *coordinator) arrived(m *Machine) []Move {
	var out []Move
	for _, mv := range m.log.undecided.moves {
		if m.log.takes(mv.To) && slices.Contains(m.gen.Members, mv.To) && !m.log.displaced(m.log.find(mv.To)) {
			out = append(out, mv)
		}
	}
	return out
}

// timeout is how long the undecided checkpoint may take. Tasks that move stand
// still during a handover, so it has an own, short one; twice the time of the
// checkpoint before is always allowed, else big states would never move.
func (c *coordinator) timeout(m *Machine) int64 {
	if len(m.log.undecided.moves) == 0 {
		return m.cfg.CheckpointTimeout
	}
	return min(max(m.cfg.HandoverTimeout, 2*c.took), m.cfg.CheckpointTimeout)
}

// goneFor returns an instance that left by handovers and of which nothing can
// come any more: it needs no Rollback and no fence, its name is only forgotten.
func (c *coordinator) goneFor(m *Machine) (ids.InstanceID, bool) {
	for _, in := range m.log.instances {
		if !in.dead && m.log.left(in) && !slices.Contains(m.gen.Members, in.id) && in.id != m.cfg.Self {
			return in.id, true
		}
	}
	return ids.InstanceID{}, false
}
