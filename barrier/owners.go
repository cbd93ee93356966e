package barrier

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// started says who owns which task as which incarnation: the latest valid
// Start, and what changed since (R4). The record keeps what the Start said;
// owners and incs are as of now.
type started struct {
	at      ids.Incarnation // offset of the Start
	rec     Start
	owners  []Owner // now; sorted by instance, without those that own nothing
	tasks   TaskSet
	incs    []ids.Incarnation // of the tasks, in the same order
	running TaskSet
	// fresh are the tasks that a Start began and that took part in no completed
	// checkpoint since (R26).
	fresh TaskSet
}

// newStarted returns what a Start at offset at gives.
func newStarted(at ids.Incarnation, rec Start, tasks TaskSet) *started {
	s := &started{
		at: at, rec: rec, owners: slices.Clone(rec.Owners), tasks: tasks, incs: make([]ids.Incarnation, len(tasks)), fresh: tasks,
	}
	for i := range s.incs {
		s.incs[i] = at
	}
	return s
}

// allRun reports whether all tasks run.
func (s *started) allRun() bool { return s.running.ContainsAll(s.tasks) }

// tasksOf returns what an instance owns.
func (s *started) tasksOf(id ids.InstanceID) TaskSet {
	if s == nil {
		return nil
	}
	for _, o := range s.owners {
		if o.Instance == id {
			return o.Tasks
		}
	}
	return nil
}

// ownerOf returns the owner of a task; zero when nobody owns it.
func (s *started) ownerOf(t ids.TaskID) ids.InstanceID {
	for _, o := range s.owners {
		if o.Tasks.Contains(t) {
			return o.Instance
		}
	}
	return ids.InstanceID{}
}

// incOf returns the incarnation that a task runs as; 0 for an unknown task.
func (s *started) incOf(t ids.TaskID) ids.Incarnation {
	i, ok := slices.BinarySearchFunc(s.tasks, t, ids.TaskID.Compare)
	if !ok {
		return 0
	}
	return s.incs[i]
}

// newest returns the largest incarnation among the tasks of an instance, which
// its acks carry; 0 when it owns none.
func (s *started) newest(id ids.InstanceID) ids.Incarnation {
	var inc ids.Incarnation
	for _, t := range s.tasksOf(id) {
		inc = max(inc, s.incOf(t))
	}
	return inc
}

// runAs reports whether all the tasks belong to the instance and run as the
// incarnation.
func (s *started) runAs(id ids.InstanceID, tasks TaskSet, inc ids.Incarnation) bool {
	return len(s.asOf(id, tasks, inc)) == len(tasks)
}

// asOf returns those of the tasks that belong to the instance and run as the
// incarnation.
func (s *started) asOf(id ids.InstanceID, tasks TaskSet, inc ids.Incarnation) TaskSet {
	var out TaskSet
	own := s.tasksOf(id)
	for _, t := range tasks {
		if own.Contains(t) && s.incOf(t) == inc {
			out = append(out, t)
		}
	}
	return out
}

// give makes an instance the owner of tasks, as a new incarnation that does not
// run yet. Owners are replaced, never changed in place: effects carry them.
func (s *started) give(to ids.InstanceID, tasks TaskSet, inc ids.Incarnation) {
	var owners []Owner
	for _, o := range s.owners {
		if o.Instance == to {
			tasks = tasks.Union(o.Tasks)
			continue
		}
		if o.Tasks = o.Tasks.Minus(tasks); len(o.Tasks) > 0 {
			owners = append(owners, o)
		}
	}
	own := s.tasksOf(to)
	for i, t := range s.tasks {
		if tasks.Contains(t) && !own.Contains(t) {
			s.incs[i] = inc
		}
	}
	s.running = s.running.Minus(tasks.Minus(own))
	i, _ := slices.BinarySearchFunc(owners, to, func(o Owner, id ids.InstanceID) int { return o.Instance.Compare(id) })
	s.owners = slices.Insert(owners, i, Owner{Instance: to, Tasks: tasks})
}
