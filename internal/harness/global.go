package harness

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/topology"
)

// makeGlobals makes the stores of global tables. They outlive a Restart, as
// their topics do.
func makeGlobals(t *topology.Topology) map[string]operators.GlobalStore {
	out := map[string]operators.GlobalStore{}
	for _, g := range t.Globals() {
		out[g.Name] = g.Factory.(operators.GlobalFactory)()
	}
	return out
}

// global reports whether a topic is that of a global table.
func (d *Driver) global(topic string) bool {
	return slices.ContainsFunc(d.res.Globals(), func(g *topology.Global) bool { return g.Topic == topic })
}

// takeGlobal applies a record to the global tables of its topic.
func (d *Driver) takeGlobal(tp ids.TopicPartition, r *record.Raw) error {
	for _, g := range d.res.Globals() {
		if g.Topic != tp.Topic {
			continue
		}
		ok, err := d.globals[g.Name].Put(r)
		switch {
		case err != nil:
			fault := operators.GlobalFault(g, tp.Topic, tp.Partition, r.Offset, err)
			if d.Skip == nil || !d.Skip(fault) {
				return fault
			}
			d.Skipped = append(d.Skipped, fault)
		case !ok:
			d.Metrics.NullDropped.Add(1)
		}
	}
	return nil
}
