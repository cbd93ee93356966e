package barrier

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Pair is one incarnation of a task in its lineage. End is the checkpoint
// whose barrier ended it, or ids.NoCheckpoint while it is open.
type Pair struct {
	Inc ids.Incarnation  `json:"inc"`
	End ids.CheckpointID `json:"end"`
}

// Lineage lists the incarnations of one upstream task whose records count,
// ascending; only the last may be open (R6). From a channel exactly these are
// accepted: records of a closed pair up to its end barrier, and of the open one
// without end. A Lineage is never changed in place.
type Lineage []Pair

// Find returns the pair of an incarnation.
func (l Lineage) Find(inc ids.Incarnation) (Pair, bool) {
	i, ok := slices.BinarySearchFunc(l, inc, func(p Pair, inc ids.Incarnation) int {
		switch {
		case p.Inc < inc:
			return -1
		case p.Inc > inc:
			return 1
		}
		return 0
	})
	if !ok {
		return Pair{}, false
	}
	return l[i], true
}

// Restart returns the lineage of a task that gets incarnation x from
// checkpoint n, given its lineage as of n: the last pair is closed at n and x
// is open. Incarnations unknown at n stay unknown, whatever they did (R6).
func (l Lineage) Restart(n ids.CheckpointID, x ids.Incarnation) Lineage {
	return append(l.closed(n), Pair{Inc: x, End: ids.NoCheckpoint})
}

// closed returns the lineage with its last pair closed at checkpoint n, if it is
// open.
func (l Lineage) closed(n ids.CheckpointID) Lineage {
	out := make(Lineage, 0, len(l)+1) // Restart adds one
	out = append(out, l...)
	if k := len(out) - 1; k >= 0 && out[k].End == ids.NoCheckpoint {
		out[k].End = n
	}
	return out
}

// Prune returns the lineage without closed pairs below the oldest incarnation
// that any channel position still stands in.
func (l Lineage) Prune(oldest ids.Incarnation) Lineage {
	i := 0
	for i < len(l) && l[i].End != ids.NoCheckpoint && l[i].Inc < oldest {
		i++
	}
	return slices.Clone(l[i:])
}

// LineageGroup is a set of tasks that share a lineage.
type LineageGroup struct {
	Tasks   TaskSet `json:"tasks"`
	Lineage Lineage `json:"lineage"`
}

// Lineages holds the lineage of every task. Tasks that started together share
// theirs, so while all tasks roll back together there is one group. Groups are
// disjoint and ordered by their first task; a Lineages is never changed in
// place.
type Lineages struct {
	Groups []LineageGroup `json:"groups"`
}

// Of returns the lineage of a task; nil when it has none.
func (l Lineages) Of(t ids.TaskID) Lineage {
	for _, g := range l.Groups {
		if g.Tasks.Contains(t) {
			return g.Lineage
		}
	}
	return nil
}

// Restart gives the tasks incarnation x from checkpoint n; other tasks keep
// their lineage. The receiver is the lineages as of n.
func (l Lineages) Restart(tasks TaskSet, n ids.CheckpointID, x ids.Incarnation) Lineages {
	var out Lineages
	rest := tasks
	for _, g := range l.Groups {
		var moved, kept TaskSet
		for _, t := range g.Tasks {
			if tasks.Contains(t) {
				moved = append(moved, t)
			} else {
				kept = append(kept, t)
			}
		}
		rest = rest.Minus(moved)
		if len(kept) > 0 {
			out.Groups = append(out.Groups, LineageGroup{Tasks: kept, Lineage: g.Lineage})
		}
		if len(moved) > 0 {
			out.Groups = append(out.Groups, LineageGroup{Tasks: moved, Lineage: g.Lineage.Restart(n, x)})
		}
	}
	if len(rest) > 0 {
		out.Groups = append(out.Groups, LineageGroup{Tasks: rest, Lineage: Lineage(nil).Restart(n, x)})
	}
	out.merge()
	return out
}

// Prune prunes every lineage.
func (l Lineages) Prune(oldest ids.Incarnation) Lineages {
	out := Lineages{Groups: make([]LineageGroup, len(l.Groups))}
	for i, g := range l.Groups {
		out.Groups[i] = LineageGroup{Tasks: g.Tasks, Lineage: g.Lineage.Prune(oldest)}
	}
	out.merge()
	return out
}

// merge joins groups with equal lineages and orders them.
func (l *Lineages) merge() {
	var out []LineageGroup
next:
	for _, g := range l.Groups {
		for i := range out {
			if slices.Equal(out[i].Lineage, g.Lineage) {
				out[i].Tasks = out[i].Tasks.Union(g.Tasks)
				continue next
			}
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b LineageGroup) int { return a.Tasks[0].Compare(b.Tasks[0]) })
	l.Groups = out
}
