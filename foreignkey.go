package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// JoinForeignKey joins each row of this table with the row of another table
// whose key it names (Kafka Streams' KTable.join with a foreignKeyExtractor): key
// returns the other table's key, or false for a row that names none, and f the
// value of the result, which is a table with this table's keys. A row that has
// no partner is not in it.
//
// Both tables may change. A change of this table's row gives one change of the
// result; a change of the other table's row gives one for each row that names
// it. A result's timestamp is the later of the two rows'.
//
// The result is kept in the store of that name, and this table's keys and
// versions in "name-rows". The rows meet beside the other table, to which they
// are sent through "<app>-name-subscriptions-repartition", and kept in the store
// "name-subscriptions"; answers come back through "<app>-name-answers-repartition".
// The tables need not be co-partitioned, but both must be partitioned by Kafka's
// murmur2 of their keys.
//
// The answers close a cycle of subtopologies: a change takes two hops to show in
// the result, and for a moment the result may miss it. key and f must depend on
// nothing but their arguments. If this table is windowed, its results and
// subscriptions stay when a window is dropped.
func (t *Table[K, V]) JoinForeignKey[KO, VO, VR any](
	name string, other *Table[KO, VO], key func(K, V) (KO, bool), f func(V, VO) VR, vs serde.Serde[VR],
) *Table[K, VR] {
	return foreignKey(t, here(), "JoinForeignKey", other, f == nil, operators.ForeignKeyJoin[K, V, KO, VO, VR]{
		Name: name, Of: key, Both: f,
	}, vs)
}

// LeftJoinForeignKey is JoinForeignKey that keeps the rows which name no row of
// the other table, or one that is not there (Kafka Streams' KTable.leftJoin with
// a foreignKeyExtractor): f then gets a missing Opt.
func (t *Table[K, V]) LeftJoinForeignKey[KO, VO, VR any](
	name string, other *Table[KO, VO], key func(K, V) (KO, bool), f func(V, Opt[VO]) VR, vs serde.Serde[VR],
) *Table[K, VR] {
	return foreignKey(t, here(), "LeftJoinForeignKey", other, f == nil, operators.ForeignKeyJoin[K, V, KO, VO, VR]{
		Name: name, Of: key,
		Both:     func(v V, vo VO) VR { return f(v, Some(vo)) },
		LeftOnly: func(v V) VR { return f(v, None[VO]()) },
	}, vs)
}

var foreignKeyWords = map[string]string{
	"JoinForeignKey": "foreign-key-join", "LeftJoinForeignKey": "foreign-key-left-join",
}

// foreignKey adds the steps of a join: see operators.ForeignKeyJoin.
func foreignKey[K, V, KO, VO, VR any](
	t *Table[K, V], site topology.Site, op string, other *Table[KO, VO], noJoiner bool,
	j operators.ForeignKeyJoin[K, V, KO, VO, VR], vs serde.Serde[VR],
) *Table[K, VR] {
	b, name := t.b, j.Name
	for _, step := range []string{"", "-subscriptions", "-answers"} {
		b.t.ClaimStep(name+step, site)
	}
	if j.Of == nil || noJoiner {
		b.t.Errorf(site, "%s(%q): a function is nil", op, name)
	}
	vs = given(b, site, "result's", vs)
	if other == nil || other.b != b {
		b.t.Errorf(site, "%s(%q): the other table is nil or comes from another Builder", op, name)
		return &Table[K, VR]{from: t.from, ks: t.ks, vs: vs}
	}
	step := op + "(" + name + ")"
	j.Left, j.Right = t.n, other.n
	j.Key, j.RightKey = needKey(t.from, site, step, t.ks), needKey(other.from, site, step, other.ks)
	j.RightVal = needValue(other.from, site, step, other.vs)
	left, right := serdeInfo(j.Key), serdeInfo(j.RightKey)
	b.t.AddStore(topology.Store{Name: j.RowStore(), Format: operators.FormatForeignRows, Key: left, Value: right, Site: site})
	b.t.AddStore(topology.Store{Name: j.SubscriptionStore(), Format: operators.FormatSubscriptions, Key: right, Value: left, Site: site})
	b.addStore(site, name, operators.FormatTable, j.Key, vs)

	node := func(end, store string, factory operators.Factory, uses *topology.Node, parents ...*topology.Node) *topology.Node {
		n := topology.Node{
			Kind: topology.Stateful, Op: foreignKeyWords[op] + end, Name: name, Site: site, Parents: parents,
			Stores: []string{store}, KeyedState: true, Factory: factory,
		}
		if uses != nil {
			n.Uses = []*topology.Node{uses}
		}
		return b.t.Add(n)
	}
	subscribe := node("-left", j.RowStore(), j.LeftSide(), nil, t.n)
	subscribed := node("-subscribe", j.SubscriptionStore(), j.Subscribe(), other.n, hop(b, site, subscribe, j.Subscriptions))
	changed := node("-right", j.SubscriptionStore(), j.RightSide(), nil, other.n)
	answers := b.t.Add(topology.Node{
		Op: foreignKeyWords[op] + "-answers", Name: name, Site: site, Parents: []*topology.Node{subscribed, changed},
		Factory: j.MergeAnswers(),
	})
	answered := node("-answer", j.RowStore(), j.Answer(), t.n, hop(b, site, answers, j.Answers))
	n := b.t.Add(topology.Node{
		Kind: topology.Stateful, Op: foreignKeyWords[op], Name: name, Site: site, KeyedState: true, Stores: []string{name},
		Parents: []*topology.Node{subscribe, answered},
		Factory: operators.Materialize(name, j.Key, vs), Getter: operators.TableGetter(name, j.Key, vs),
	})
	return &Table[K, VR]{from: from{b: b, n: n}, ks: j.Key, vs: vs}
}

// hop adds one of the two repartition steps of a join.
func hop(
	b *Builder, site topology.Site, parent *topology.Node,
	step func() (name, key, value string, sink, source operators.Factory),
) *topology.Node {
	name, key, value, sink, source := step()
	exactly := func(fingerprint string) topology.Serde {
		return topology.Serde{Fingerprint: fingerprint, Accepts: func(fp string) bool { return fp == fingerprint }}
	}
	return b.t.AddRepartition(parent, topology.Repartition{
		Name: name, Key: exactly(key), Value: exactly(value), Site: site,
	}, sink, source)
}
