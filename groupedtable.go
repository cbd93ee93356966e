package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// GroupedTable is a table whose rows are grouped by a new key (Kafka Streams'
// KGroupedTable). Several aggregations of one GroupedTable share its
// repartition topic.
type GroupedTable[K, V any] struct {
	from // the source behind the repartition topic, once a step needs it
	ks   serde.Serde[K]
	vs   serde.Serde[V]
	site topology.Site
	join func() *topology.Node
}

// GroupBy groups the rows by a new key, with a new value, through the repartition
// topic "<app>-name-repartition". When a row changes, its old value is taken out
// of its group and the new one put in. Both in one group are one update of it;
// else the old group is updated first.
//
// f must depend on nothing but its arguments: it is called again for the old
// value. A row for which it returns a missing Opt (serde.Nullable) is in no
// group.
func (t *Table[K, V]) GroupBy[K2, V2 any](
	name string, f func(K, V) (K2, V2), ks serde.Serde[K2], vs serde.Serde[V2],
) *GroupedTable[K2, V2] {
	site := here()
	t.b.t.ClaimStep(name, site)
	if f == nil {
		t.b.t.Errorf(site, "GroupBy(%q): the function is nil", name)
	}
	ks, vs = given(t.b, site, "key", ks), given(t.b, site, "value", vs)
	return &GroupedTable[K2, V2]{
		from: from{b: t.b}, ks: ks, vs: vs, site: site,
		join: func() *topology.Node {
			delta := operators.DeltaSerde(vs)
			return t.b.t.AddRepartition(t.n, topology.Repartition{
				Name: name, Key: serdeInfo(ks), Value: serdeInfo(delta), Site: site, WantsOld: true,
			}, operators.GroupTable(name, f, ks, vs), operators.Source(ks, delta))
		},
	}
}

// input adds the repartition step at the first call.
func (g *GroupedTable[K, V]) input() from {
	if g.n == nil {
		g.n = g.join()
	}
	return g.from
}

// Count counts the rows of each key, in the store of that name. A key whose last
// row went stays, with 0.
func (g *GroupedTable[K, V]) Count(name string) *Table[K, int64] {
	return aggregateRows(g, here(), "count-rows", name, operators.CountRows[K, V](), serde.Int64())
}

// Reduce combines the values of each key: the first value is kept as it is, each
// further row gives add(aggregate, value), and a row that goes sub(aggregate,
// value). sub must undo add, whatever came in between.
func (g *GroupedTable[K, V]) Reduce(name string, add, sub func(agg, v V) V) *Table[K, V] {
	site := here()
	if add == nil || sub == nil {
		g.b.t.Errorf(site, "Reduce(%q): a function is nil", name)
	}
	return aggregateRows(g, site, "reduce-rows", name, operators.ReduceRows[K](add, sub, g.vs), g.vs)
}

// Aggregate folds the rows of each key into an aggregate: add(k, v, a) puts a row
// in, sub(k, v, a) takes one out; both may change a and return it, and sub must
// undo add, whatever came in between. With A = Opt[T] and as = serde.Nullable,
// returning None deletes the key, for example when its last row went.
func (g *GroupedTable[K, V]) Aggregate[A any](
	name string, init func() A, add, sub func(k K, v V, a A) A, as serde.Serde[A],
) *Table[K, A] {
	site := here()
	if init == nil || add == nil || sub == nil {
		g.b.t.Errorf(site, "Aggregate(%q): a function is nil", name)
	}
	as = given(g.b, site, "aggregate's", as)
	return aggregateRows(g, site, "aggregate-rows", name, operators.AggregateRows(init, add, sub, as), as)
}

func aggregateRows[K, V, A any](
	g *GroupedTable[K, V], site topology.Site, op, name string, agg operators.TableAggregator[K, V, A], as serde.Serde[A],
) *Table[K, A] {
	g.b.addStore(site, name, operators.FormatTable, g.ks, as)
	n := g.input().add(topology.Node{
		Kind: topology.Stateful, Op: op, Name: name, Site: site, Stores: []string{name}, KeyedState: true,
		Factory: operators.TableAggregation(name, g.ks, as, agg), Getter: operators.TableGetter(name, g.ks, as),
	})
	return &Table[K, A]{from: from{b: g.b, n: n}, ks: g.ks, vs: as}
}
