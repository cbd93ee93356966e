package barrier

import "github.com/tidegate/tidegate/internal/ids"

// Graph says how a failure of some tasks affects others (R26). The zero value
// knows nothing, so that everything is affected.
type Graph struct {
	// Subs are the subtopologies, by their numbers.
	Subs []SubGraph
}

// SubGraph is what R26 asks of one subtopology.
type SubGraph struct {
	// Readers are the subtopologies that read repartition topics which this one
	// writes, over cycle channels too; itself among them if it does.
	Readers []int32
	// Transacts: its tasks read external inputs or write sinks, inside
	// transactions. Those of one instance share theirs (R18).
	Transacts bool
}

// Affected returns the tasks that roll back with some that are lost or failed:
// everything downstream of them, and all that shares an aborted transaction with
// one of these, until nothing is added (R26).
//
// A channel goes from a task to every task that reads the topic, since any
// record may go to any partition; so what is downstream of one task of a
// subtopology is downstream of each.
func (g Graph) Affected(failed TaskSet, owners []Owner, rules Rules) TaskSet {
	all, _ := ownerTasks(owners)
	if len(g.Subs) == 0 {
		return all.Union(failed)
	}
	out := failed
	for {
		read := make([]bool, len(g.Subs)) // by subtopology: it reads what one of out writes
		for _, t := range out {
			for _, r := range g.Subs[t.Sub].Readers {
				read[r] = !rules.SkipR26Downstream
			}
		}
		var add []ids.TaskID
		for _, o := range owners {
			shared := make([]bool, len(g.Subs)) // … the owner's share a transaction with one of out
			for _, t := range o.Tasks {
				if out.Contains(t) && g.Subs[t.Sub].Transacts {
					shared[t.Sub] = !rules.SkipR26Shared
				}
			}
			for _, t := range o.Tasks {
				if (read[t.Sub] || shared[t.Sub]) && !out.Contains(t) {
					add = append(add, t)
				}
			}
		}
		if len(add) == 0 {
			return out
		}
		out = out.Union(NewTaskSet(add...))
	}
}
