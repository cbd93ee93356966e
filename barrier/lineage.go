package barrier

import "github.com/tidegate/tidegate/internal/ids"

// Pair is one incarnation of a task in its lineage. End is the checkpoint
// whose barrier ended it, or ids.NoCheckpoint while it is open.
type Pair struct {
	Inc ids.Incarnation
	End ids.CheckpointID
}

// Lineage lists the incarnations of one upstream task whose records count,
// ascending; only the last may be open (R6).
type Lineage []Pair

// LineageGroup is a set of tasks that share a lineage.
type LineageGroup struct {
	Tasks   TaskSet
	Lineage Lineage
}

// Lineages holds the lineage of every task. Tasks that started together share
// theirs.
type Lineages struct{ Groups []LineageGroup }

// Of returns the lineage of a task; nil when it has none.
func (l Lineages) Of(t ids.TaskID) Lineage {
	for _, g := range l.Groups {
		if g.Tasks.Contains(t) {
			return g.Lineage
		}
	}
	return nil
}
