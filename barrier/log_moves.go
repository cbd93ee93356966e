package barrier

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// mayMove says why a Trigger cannot announce these moves, or "" (R25). Moves
// are sorted by task, each task goes to another instance than it is at.
func (l *Log) mayMove(moves []Move, stop bool) string {
	if stop && len(moves) > 0 {
		return "tasks stop or move, not both"
	}
	for i, mv := range moves {
		owner := l.start.ownerOf(mv.Task)
		switch {
		case i > 0 && moves[i-1].Task.Compare(mv.Task) >= 0:
			return "moves are not sorted by task"
		case owner.IsZero():
			return fmt.Sprintf("it moves task %s, which nobody owns", mv.Task)
		case owner == mv.To:
			return fmt.Sprintf("it moves task %s to its owner", mv.Task)
		case !l.takes(mv.To):
			return fmt.Sprintf("it moves task %s to %s, which is dead, leaving or not registered", mv.Task, mv.To)
		}
	}
	return ""
}

// takes reports whether an instance may get tasks by a Start or a handover. One
// that wants to leave may be gone as soon as it has read its Leaving back and
// owns nothing, so nothing is given to it behind that.
func (l *Log) takes(id ids.InstanceID) bool {
	in := l.find(id)
	return in != nil && (l.rules.SkipR25 || !in.dead && !in.leaving)
}

// mayHandOver says why a Complete cannot start these moves of the checkpoint
// that it completes, or "".
func (l *Log) mayHandOver(u *undecided, moves []Move) string {
	for i, mv := range moves {
		switch {
		case i > 0 && moves[i-1].Task.Compare(mv.Task) >= 0:
			return "moves are not sorted by task"
		case !slices.Contains(u.moves, mv):
			return fmt.Sprintf("its Trigger does not move task %s to %s", mv.Task, mv.To)
		case !l.takes(mv.To):
			return fmt.Sprintf("it moves task %s to %s, which is dead or leaving", mv.Task, mv.To)
		}
	}
	return ""
}

// handOver makes the new owners of moved tasks: the Complete at offset is their
// start, from exactly checkpoint n (R6, R25).
func (l *Log) handOver(offset int64, n ids.CheckpointID, moves []Move) {
	if len(moves) == 0 {
		return
	}
	inc := ids.Incarnation(offset)
	for _, to := range receivers(moves) {
		l.start.give(to, movedTo(moves, to), inc)
		in := l.find(to)
		in.owned, in.ready = true, nil
	}
	l.lineages = l.lineages.Restart(movedTasks(moves), n, inc)
}

// movedTasks returns the tasks of moves.
func movedTasks(moves []Move) TaskSet {
	var out []ids.TaskID
	for _, mv := range moves {
		out = append(out, mv.Task)
	}
	return NewTaskSet(out...)
}

// movedTo returns the tasks that moves give an instance.
func movedTo(moves []Move, to ids.InstanceID) TaskSet {
	var out []ids.TaskID
	for _, mv := range moves {
		if mv.To == to {
			out = append(out, mv.Task)
		}
	}
	return NewTaskSet(out...)
}

// receivers returns the instances that moves give tasks to, sorted.
func receivers(moves []Move) []ids.InstanceID {
	var out []ids.InstanceID
	for _, mv := range moves {
		out = append(out, mv.To)
	}
	slices.SortFunc(out, ids.InstanceID.Compare)
	return slices.Compact(out)
}

// left reports whether nothing more can come of an instance that asked to
// leave: it owns no task, owes no answer and has nothing uncommitted. It gets
// no task any more (takes), so this stays true.
func (l *Log) left(in *instance) bool {
	if !in.leaving || l.undecided != nil || len(l.start.tasksOf(in.id)) > 0 {
		return false
	}
	return l.last() == nil || !slices.Contains(l.last().uncommitted(), in.id)
}
