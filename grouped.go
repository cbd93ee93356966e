package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// Grouped is a stream grouped by key (Kafka Streams' KGroupedStream). Several
// aggregations of one Grouped share its repartition topic.
type Grouped[K, V any] struct {
	s    *Stream[K, V]
	name string
	site topology.Site
}

// GroupByKey groups by the present key. The name is that of the repartition
// topic "<app>-name-repartition", which is used only where the key was changed
// before; it must be unique in any case, so that a step added upstream later
// cannot make two names collide.
func (s *Stream[K, V]) GroupByKey(name string) *Grouped[K, V] {
	site := here()
	s.b.t.ClaimStep(name, site)
	return &Grouped[K, V]{s: s, name: name, site: site}
}

// GroupBy groups by a new key, through the repartition topic
// "<app>-name-repartition".
func (s *Stream[K, V]) GroupBy[K2 any](name string, f func(K, V) K2, ks serde.Serde[K2]) *Grouped[K2, V] {
	site := here()
	s.b.t.ClaimStep(name, site)
	k := withKey(s, "SelectKey", site, f == nil, operators.SelectKey(f), []serde.Serde[K2]{given(s.b, site, "key", ks)})
	return &Grouped[K2, V]{s: k, name: name, site: site}
}

// input returns the stream partitioned by the group's key; the first call adds
// the repartition step, if one is needed.
func (g *Grouped[K, V]) input() *Stream[K, V] {
	g.s = byKey(g.s, g.site, g.name)
	return g.s
}

// Count counts the records of each key, in the store of that name. Every
// record updates the table; null values are skipped.
func (g *Grouped[K, V]) Count(name string) *Table[K, int64] {
	s, site := g.input(), here()
	return aggregate(s, site, "count", name, operators.Count[K](s.vs), serde.Int64())
}

// Reduce combines the values of each key: the first value is kept as it is,
// each later one gives f(aggregate, value).
func (g *Grouped[K, V]) Reduce(name string, f func(agg, v V) V) *Table[K, V] {
	s, site := g.input(), here()
	if f == nil {
		s.b.t.Errorf(site, "Reduce(%q): the function is nil", name)
	}
	vs := needValue(s.from, site, "Reduce("+name+")", s.vs)
	return aggregate(s, site, "reduce", name, operators.Reduce[K](f, vs), vs)
}

// Aggregate folds the values of each key into an aggregate: add(k, v, a)
// returns the next one, and may change a and return it. With A = Opt[T] and
// as = serde.Nullable, returning None deletes the key.
func (g *Grouped[K, V]) Aggregate[A any](
	name string, init func() A, add func(k K, v V, a A) A, as serde.Serde[A],
) *Table[K, A] {
	s, site := g.input(), here()
	if init == nil || add == nil {
		s.b.t.Errorf(site, "Aggregate(%q): a function is nil", name)
	}
	as = given(s.b, site, "aggregate's", as)
	return aggregate(s, site, "aggregate", name, operators.Aggregate(init, add, as), as)
}

// aggregate adds the node of an unwindowed aggregation.
func aggregate[K, V, A any](
	s *Stream[K, V], site topology.Site, op, name string, agg operators.Aggregator[K, V, A], as serde.Serde[A],
) *Table[K, A] {
	ks := needKey(s.from, site, op+" "+name, s.ks)
	s.b.addStore(site, name, operators.FormatTable, ks, as)
	n := s.add(topology.Node{
		Kind: topology.Stateful, Op: op, Name: name, Site: site, Stores: []string{name}, KeyedState: true,
		Factory: operators.Aggregation(name, ks, as, agg), Getter: operators.TableGetter(name, ks, as),
	})
	return &Table[K, A]{from: from{b: s.b, n: n}, ks: ks, vs: as}
}
