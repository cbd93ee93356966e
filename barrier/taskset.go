package barrier

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// TaskSet is a set of tasks: sorted by ids.TaskID.Compare, without duplicates.
// Make one with NewTaskSet; the functions here keep the order and never change
// their arguments.
type TaskSet []ids.TaskID

// NewTaskSet returns the set of the given tasks.
func NewTaskSet(tasks ...ids.TaskID) TaskSet {
	out := slices.Clone(tasks)
	slices.SortFunc(out, ids.TaskID.Compare)
	return slices.Compact(out)
}

// Contains reports whether t is in the set.
func (s TaskSet) Contains(t ids.TaskID) bool {
	_, ok := slices.BinarySearchFunc(s, t, ids.TaskID.Compare)
	return ok
}

// ContainsAll reports whether every task of o is in the set.
func (s TaskSet) ContainsAll(o TaskSet) bool {
	if len(o) > len(s) {
		return false
	}
	i := 0
	for _, t := range o {
		for i < len(s) && s[i].Compare(t) < 0 {
			i++
		}
		if i == len(s) || s[i] != t {
			return false
		}
	}
	return true
}

// Intersects reports whether the sets share a task.
func (s TaskSet) Intersects(o TaskSet) bool {
	for _, t := range o {
		if s.Contains(t) {
			return true
		}
	}
	return false
}

// Union returns the tasks that are in either set.
func (s TaskSet) Union(o TaskSet) TaskSet {
	out := make(TaskSet, 0, len(s)+len(o))
	for len(s) > 0 && len(o) > 0 {
		c := s[0].Compare(o[0])
		if c <= 0 {
			out, s = append(out, s[0]), s[1:]
		} else {
			out = append(out, o[0])
		}
		if c >= 0 {
			o = o[1:]
		}
	}
	return append(append(out, s...), o...)
}

// Minus returns the tasks of s that are not in o.
func (s TaskSet) Minus(o TaskSet) TaskSet {
	var out TaskSet
	for _, t := range s {
		if !o.Contains(t) {
			out = append(out, t)
		}
	}
	return out
}

// Equal reports whether the sets are the same.
func (s TaskSet) Equal(o TaskSet) bool { return slices.Equal(s, o) }

// Intersect returns the tasks that are in both sets.
func (s TaskSet) Intersect(o TaskSet) TaskSet {
	var out TaskSet
	for _, t := range s {
		if o.Contains(t) {
			out = append(out, t)
		}
	}
	return out
}
