package topology

import (
	"slices"
)

// Topology is a checked graph, divided into subtopologies. It is immutable.
type Topology struct {
	nodes        []*Node
	stores       []*Store
	repartitions []*Repartition // in the order of description
	globals      []*Global
	subs         []*Subtopology
	subOf        []int32 // by node id
}

// Subtopology is a connected part of the graph; a task runs it on one
// partition.
type Subtopology struct {
	Number int32
	Nodes  []*Node // by id
	// Topics are the external topics it reads, Steps the repartition steps it
	// reads, Writes those it writes; each sorted.
	Topics, Steps, Writes []string
	// Stores are sorted by name.
	Stores []*Store

	resolved *Resolved
}

// Subtopologies returns the parts in number order.
func (t *Topology) Subtopologies() []*Subtopology { return t.subs }

// Upstream returns the subtopologies whose records reach a subtopology through
// repartition topics without a back edge, nearest first.
func (t *Topology) Upstream(sub int32) []int32 {
	out := []int32{sub}
	for i := 0; i < len(out); i++ {
		for _, s := range t.repartitions {
			if s.Reader != out[i] {
				continue
			}
			for _, w := range s.Writers {
				if !slices.Contains(s.Cycle, w) && !slices.Contains(out, w) {
					out = append(out, w)
				}
			}
		}
	}
	return out[1:]
}

// Node returns the node of that id.
func (t *Topology) Node(id int) *Node { return t.nodes[id] }

// Repartitions returns the repartition steps, sorted by name.
func (t *Topology) Repartitions() []*Repartition {
	out := slices.Clone(t.repartitions)
	slices.SortFunc(out, func(a, b *Repartition) int { return compareStrings(a.Name, b.Name) })
	return out
}

// Stores returns all stores, sorted by name.
func (t *Topology) Stores() []*Store {
	out := slices.Clone(t.stores)
	slices.SortFunc(out, func(a, b *Store) int { return compareStrings(a.Name, b.Name) })
	return out
}

// external reports whether the subtopology reads any external topic.
func (s *Subtopology) external() bool {
	return len(s.Topics) > 0 || slices.ContainsFunc(s.Nodes, func(n *Node) bool { return n.Pattern != nil })
}

// Inputs returns the external topics that the topology reads by name, sorted; a
// Resolved knows those of patterns, too.
func (t *Topology) Inputs() []string {
	return t.topics(func(n *Node) []string { return n.Topics })
}

// Sinks returns the external topics that the topology is known to write,
// sorted. Topics that records name themselves are not among them.
func (t *Topology) Sinks() []string {
	return t.topics(func(n *Node) []string {
		if n.Kind == Sink && n.SinkTopic != "" {
			return []string{n.SinkTopic}
		}
		return nil
	})
}

func (t *Topology) topics(of func(*Node) []string) []string {
	var out []string
	for _, n := range t.nodes {
		out = append(out, of(n)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (t *Topology) step(name string) *Repartition {
	for _, r := range t.repartitions {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// propagateOld marks the tables that must tell their old values, and returns an
// error for each that cannot.
func (t *Topology) propagateOld() (errs []error) {
	for _, n := range t.nodes {
		n.SendOld = false
	}
	var mark func(n *Node)
	mark = func(n *Node) {
		if n.OldNeedsStore && !n.SendOld {
			errs = append(errs, &Error{n.Site, n.Label() + ": both sides change with one change of a table that they are computed from, so the join does not know its old values, which a step below it needs: call Materialize(name) on its result first"})
		}
		n.SendOld = true
		if n.View {
			for _, p := range n.Parents {
				mark(p)
			}
		}
	}
	for _, n := range t.nodes {
		if n.WantsOld {
			for _, p := range n.Parents {
				mark(p)
			}
		}
	}
	return errs
}

// union is a disjoint-set forest whose representative is the smallest member.
type union []int

func newUnion(n int) union {
	u := make(union, n)
	for i := range u {
		u[i] = i
	}
	return u
}

func (u union) find(i int) int {
	for u[i] != i {
		u[i] = u[u[i]]
		i = u[i]
	}
	return i
}

func (u union) join(a, b int) {
	a, b = u.find(a), u.find(b)
	u[max(a, b)] = min(a, b)
}

// divide finds the connected components and numbers them.
func (t *Topology) divide() {
	u := newUnion(len(t.nodes))
	byTopic, byStore := map[string]int{}, map[string]int{}
	joinBy := func(m map[string]int, key string, id int) {
		if first, ok := m[key]; ok {
			u.join(first, id)
			return
		}
		m[key] = id
	}
	for _, n := range t.nodes {
		for _, p := range n.Parents {
			u.join(p.ID, n.ID)
		}
		for _, p := range n.Uses {
			u.join(p.ID, n.ID)
		}
		for _, topic := range n.Topics {
			joinBy(byTopic, topic, n.ID)
		}
		for _, s := range n.Stores {
			joinBy(byStore, s, n.ID)
		}
	}
	t.joinPatterns(u)
	number := map[int]int32{}
	t.subOf = make([]int32, len(t.nodes))
	for _, n := range t.nodes {
		root := u.find(n.ID)
		num, ok := number[root]
		if !ok {
			num = int32(len(t.subs))
			number[root] = num
			t.subs = append(t.subs, &Subtopology{Number: num})
		}
		t.subOf[n.ID] = num
		t.subs[num].Nodes = append(t.subs[num].Nodes, n)
	}
	for _, s := range t.subs {
		t.fill(s)
	}
}

// fill collects what a subtopology reads, writes and keeps.
func (t *Topology) fill(s *Subtopology) {
	var stores []string
	for _, n := range s.Nodes {
		s.Topics = append(s.Topics, n.Topics...)
		stores = append(stores, n.Stores...)
		switch n.Kind {
		case RepartitionSource:
			s.Steps = append(s.Steps, n.Step)
			t.step(n.Step).Reader = s.Number
		case RepartitionSink:
			s.Writes = append(s.Writes, n.Step)
			r := t.step(n.Step)
			r.Writers = append(r.Writers, s.Number)
		}
	}
	for _, l := range []*[]string{&s.Topics, &s.Steps, &s.Writes, &stores} {
		slices.Sort(*l)
		*l = slices.Compact(*l)
	}
	for _, name := range stores {
		for _, st := range t.stores {
			if st.Name == name {
				s.Stores = append(s.Stores, st)
			}
		}
	}
}

// findCycles marks the channels that close a cycle of subtopologies (R9).
func (t *Topology) findCycles() {
	type edge struct {
		to   int32
		step *Repartition
	}
	out := make([][]edge, len(t.subs))
	for _, r := range t.repartitions {
		slices.Sort(r.Writers)
		r.Writers = slices.Compact(r.Writers)
		for _, w := range r.Writers {
			out[w] = append(out[w], edge{r.Reader, r})
		}
	}
	for _, es := range out {
		slices.SortFunc(es, func(a, b edge) int {
			if a.to != b.to {
				return int(a.to - b.to)
			}
			return compareStrings(a.step.Name, b.step.Name)
		})
	}
	const open, closed = 1, 2
	state := make([]int, len(t.subs))
	var walk func(s int32)
	walk = func(s int32) {
		state[s] = open
		for _, e := range out[s] {
			switch state[e.to] {
			case open:
				e.step.Cycle = append(e.step.Cycle, s)
			case 0:
				walk(e.to)
			}
		}
		state[s] = closed
	}
	// Everything is reachable from a subtopology with an external input, unless
	// the user built a loop that nothing feeds; it is walked last.
	for _, external := range []bool{true, false} {
		for _, s := range t.subs {
			if s.external() == external && state[s.Number] == 0 {
				walk(s.Number)
			}
		}
	}
	for _, r := range t.repartitions {
		slices.Sort(r.Cycle)
	}
}
