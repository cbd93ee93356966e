package topology

import "slices"

// Global describes a global table: every instance reads the whole topic into a
// store of its own. It is in no subtopology, its topic is no task's input, and
// its store is no part of checkpoints.
type Global struct {
	Name, Topic string
	Key, Value  Serde
	Site        Site
	// Factory makes the store; package operators defines its type.
	Factory any
}

// AddGlobal adds a global table.
func (b *Builder) AddGlobal(g Global) {
	b.checkTopic(g.Site, g.Topic)
	if err := checkName(g.Name); err != nil {
		b.Errorf(g.Site, "global table name %q: %v", g.Name, err)
		return
	}
	if first, taken := b.storeByName[g.Name]; taken {
		b.Errorf(g.Site, "store name %q is already used at %s: names identify state, give one of them another name", g.Name, first.Site)
		return
	}
	b.storeByName[g.Name] = &Store{Name: g.Name, Site: g.Site}
	b.globals = append(b.globals, &g)
}

// Globals returns the global tables, in the order of description.
func (t *Topology) Globals() []*Global { return t.globals }

// GlobalTopics returns the topics of global tables, sorted.
func (t *Topology) GlobalTopics() []string {
	var out []string
	for _, g := range t.globals {
		out = append(out, g.Topic)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
