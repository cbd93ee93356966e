package rebalance

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// Withhold takes from a plan what another member still has: without a control
// log an owner must have closed a task before the next one may start it. A
// member that says it owns a task counts, whatever its generation: it may still
// run it. (Kafka's cooperative rebalancing, KIP-429.)
func Withhold(members []Member, plan []Placement) []Placement {
	holders := map[ids.TaskID][]ids.InstanceID{}
	for _, m := range members {
		for _, t := range m.Owned {
			holders[t] = append(holders[t], m.Instance)
		}
	}
	out := make([]Placement, len(plan))
	for i, p := range plan {
		out[i].Instance = p.Instance
		for _, t := range p.Tasks {
			elsewhere := slices.ContainsFunc(holders[t], func(h ids.InstanceID) bool { return h != p.Instance })
			if !elsewhere {
				out[i].Tasks = append(out[i].Tasks, t)
			}
		}
	}
	return out
}
