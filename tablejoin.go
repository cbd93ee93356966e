package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// Join is the table of the keys that both tables have (Kafka Streams'
// KTable.join): f gives the value. A change of either table changes the row; a
// row that loses its partner is deleted. The row's timestamp is the later of
// the two rows'.
//
// The result has no store of its own: f is called for every change and every
// look-up and must depend on nothing but its arguments. Materialize gives it a
// store. Both tables must be co-partitioned, which is checked.
//
// A table may be joined with itself; one change of it is then one change of the
// result.
func (t *Table[K, V]) Join[VO, VR any](other *Table[K, VO], f func(V, VO) VR, vs ...serde.Serde[VR]) *Table[K, VR] {
	site := here()
	if f == nil {
		t.b.t.Errorf(site, "Join: the function is nil")
	}
	return tableJoin(t, site, "Join", other, operators.TableJoin[K, V, VO, VR]{Both: f}, vs)
}

// LeftJoin is Join that also has the keys which only this table has (Kafka
// Streams' KTable.leftJoin): f then gets a missing Opt.
func (t *Table[K, V]) LeftJoin[VO, VR any](
	other *Table[K, VO], f func(V, Opt[VO]) VR, vs ...serde.Serde[VR],
) *Table[K, VR] {
	site := here()
	if f == nil {
		t.b.t.Errorf(site, "LeftJoin: the function is nil")
	}
	return tableJoin(t, site, "LeftJoin", other, operators.TableJoin[K, V, VO, VR]{
		Both:     func(v V, vo VO) VR { return f(v, Some(vo)) },
		LeftOnly: func(v V) VR { return f(v, None[VO]()) },
	}, vs)
}

// OuterJoin is Join that has the keys of both tables (Kafka Streams'
// KTable.outerJoin): f gets a missing Opt for the side that lacks the key.
func (t *Table[K, V]) OuterJoin[VO, VR any](
	other *Table[K, VO], f func(Opt[V], Opt[VO]) VR, vs ...serde.Serde[VR],
) *Table[K, VR] {
	site := here()
	if f == nil {
		t.b.t.Errorf(site, "OuterJoin: the function is nil")
	}
	return tableJoin(t, site, "OuterJoin", other, operators.TableJoin[K, V, VO, VR]{
		Both:      func(v V, vo VO) VR { return f(Some(v), Some(vo)) },
		LeftOnly:  func(v V) VR { return f(Some(v), None[VO]()) },
		RightOnly: func(vo VO) VR { return f(None[V](), Some(vo)) },
	}, vs)
}

var tableJoinWords = map[string]string{
	"Join": "table-join", "LeftJoin": "table-left-join", "OuterJoin": "table-outer-join",
}

// tableJoin adds the nodes of a join: one per side, and one below both.
func tableJoin[K, V, VO, VR any](
	t *Table[K, V], site topology.Site, op string, other *Table[K, VO],
	j operators.TableJoin[K, V, VO, VR], vs []serde.Serde[VR],
) *Table[K, VR] {
	vr := last(t.b, site, op, "value", vs)
	f := t.from.lose(op, site, false, vr == nil)
	if other == nil || other.b != t.b {
		t.b.t.Errorf(site, "%s: the other table is nil or comes from another Builder", op)
		return &Table[K, VR]{from: f, ks: t.ks, vs: vr}
	}
	sameKeys(t, site, op, other)
	j.Left, j.Right, j.Dependent = t.n, other.n, dependent(t.n, other.n)
	word := tableJoinWords[op]
	if same, ok := any(func(v V) V { return v }).(func(V) VO); ok && t.n == other.n {
		f.n = t.add(topology.Node{
			Kind: topology.Join, Op: word, Site: site, View: true,
			Factory: j.SelfJoin(same), Getter: j.SelfGetter(same),
		})
		return &Table[K, VR]{from: f, ks: t.ks, vs: vr}
	}
	side := func(own, other *topology.Node, end string, factory operators.Factory) *topology.Node {
		return t.b.t.Add(topology.Node{
			Kind: topology.Join, Op: word + end, Site: site, Parents: []*topology.Node{own}, Uses: []*topology.Node{other},
			KeyedState: true, View: true, WantsOld: op != "Join", Factory: factory,
		})
	}
	parents := []*topology.Node{side(t.n, other.n, "-left", j.LeftSide()), side(other.n, t.n, "-right", j.RightSide())}
	f.n = t.b.t.Add(topology.Node{
		Kind: topology.Join, Op: word, Site: site, Parents: parents, View: true, OldNeedsStore: j.Dependent,
		Factory: operators.MergeChanges[K, VR](), Getter: j.Getter(),
	})
	return &Table[K, VR]{from: f, ks: t.ks, vs: vr}
}

// sameKeys checks that equal keys of two tables have equal bytes.
func sameKeys[K, V, VO any](t *Table[K, V], site topology.Site, op string, other *Table[K, VO]) {
	if !missing(t.ks) && !missing(other.ks) && t.ks.Fingerprint() != other.ks.Fingerprint() {
		t.b.t.Errorf(site, "%s: this table's keys are serialised as %s, the other's as %s: equal keys would not meet, use one serde for both",
			op, t.ks.Fingerprint(), other.ks.Fingerprint())
	}
}

// dependent reports whether a change of one table's stored rows may come from
// a change of the other's: then, when a join hears of the first, it sees rows
// of the other side that are already newer than what the result was made of.
func dependent(a, b *topology.Node) bool {
	basesA, basesB := bases(a), bases(b)
	return reaches(basesA, basesB) || reaches(basesB, basesA)
}

// bases are the nodes whose stores a table is computed from.
func bases(n *topology.Node) []*topology.Node {
	if !n.View {
		return []*topology.Node{n}
	}
	var out []*topology.Node
	for _, p := range n.Parents {
		out = append(out, bases(p)...)
	}
	return out
}

// reaches reports whether one of the nodes is, or is above, one of the targets.
func reaches(nodes, targets []*topology.Node) bool {
	above := map[*topology.Node]bool{}
	var walk func(n *topology.Node)
	walk = func(n *topology.Node) {
		if above[n] {
			return
		}
		above[n] = true
		for _, p := range n.Parents {
			walk(p)
		}
	}
	for _, n := range targets {
		walk(n)
	}
	for _, n := range nodes {
		if above[n] {
			return true
		}
	}
	return false
}

// Materialize keeps the rows of the table in the store of that name (Kafka
// Streams' Materialized.as). It is for a table that has no store because it is
// computed from others, by Filter, MapValues or a join: look-ups and old values
// then come from the store instead of calling the functions again.
func (t *Table[K, V]) Materialize(name string) *Table[K, V] {
	site := here()
	step := "Materialize(" + name + ")"
	ks, vs := needKey(t.from, site, step, t.ks), needValue(t.from, site, step, t.vs)
	t.b.addStore(site, name, operators.FormatTable, ks, vs)
	n := t.add(topology.Node{
		Kind: topology.Stateful, Op: "materialize", Name: name, Site: site, Stores: []string{name}, KeyedState: true,
		Factory: operators.Materialize(name, ks, vs), Getter: operators.TableGetter(name, ks, vs),
	})
	return &Table[K, V]{from: from{b: t.b, n: n}, ks: ks, vs: vs}
}
