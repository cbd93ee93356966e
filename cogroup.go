package tidegate

import (
	"slices"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// Cogrouped is several grouped streams that are folded into one aggregate per
// key (Kafka Streams' CogroupedKStream):
//
//	orders.Cogroup(addOrder).
//		Cogroup(payments, addPayment).
//		Aggregate("accounts", newAccount, serde.JSON[Account]())
//
// It replaces joins and merges where each stream adds its own part: one store,
// one update per record, whichever stream it comes from.
type Cogrouped[K, A any] struct {
	b     *Builder
	parts []cogroupPart[K, A]
}

// cogroupPart is one of the streams, without the type of its values.
type cogroupPart[K, A any] struct {
	site topology.Site
	// input is the stream partitioned by the group's key.
	input func() (from, serde.Serde[K])
	// factory is that of the stream's step in the aggregation that core makes.
	factory func(core func(add func(K, struct{}, A) A) operators.Factory) operators.Factory
}

// Cogroup begins an aggregation of several streams with this one. add folds a
// value of this stream into the aggregate; see Grouped.Aggregate.
func (g *Grouped[K, V]) Cogroup[A any](add func(k K, v V, a A) A) *Cogrouped[K, A] {
	c := &Cogrouped[K, A]{b: g.s.b}
	return cogroup(c, here(), g, add)
}

// Cogroup adds another stream, with its own function. The streams must be
// co-partitioned and serialise their keys alike: where a stream's key was
// changed before, it is repartitioned through the topic of its group.
func (c *Cogrouped[K, A]) Cogroup[V any](g *Grouped[K, V], add func(k K, v V, a A) A) *Cogrouped[K, A] {
	site := here()
	if g == nil || g.s.b != c.b {
		c.b.t.Errorf(site, "Cogroup: the grouped stream is nil or comes from another Builder")
		return c
	}
	return cogroup(c, site, g, add)
}

func cogroup[K, V, A any](c *Cogrouped[K, A], site topology.Site, g *Grouped[K, V], add func(K, V, A) A) *Cogrouped[K, A] {
	if add == nil {
		c.b.t.Errorf(site, "Cogroup: the function is nil")
	}
	return &Cogrouped[K, A]{b: c.b, parts: append(slices.Clone(c.parts), cogroupPart[K, A]{
		site: site,
		input: func() (from, serde.Serde[K]) {
			s := g.input()
			return s.from, s.ks
		},
		factory: func(core func(func(K, struct{}, A) A) operators.Factory) operators.Factory {
			return operators.Cogroup(add, core)
		},
	})}
}

// Aggregate folds the values of all streams into one aggregate per key, in the
// store of that name; init makes the first one. With A = Opt[T] and as =
// serde.Nullable, an add that returns None deletes the key.
func (c *Cogrouped[K, A]) Aggregate(name string, init func() A, as serde.Serde[A]) *Table[K, A] {
	site := here()
	as = c.check(site, name, init, as)
	ins, ks := c.inputs(site, name)
	c.b.addStore(site, name, operators.FormatTable, ks, as)
	f := c.add(site, name, "cogroup", ins, func(add func(K, struct{}, A) A) operators.Factory {
		return operators.Aggregation(name, ks, as, operators.Aggregate(init, add, as))
	}, operators.MergeChanges[K, A](), operators.TableGetter(name, ks, as))
	return &Table[K, A]{from: f, ks: ks, vs: as}
}

func (c *Cogrouped[K, A]) check(site topology.Site, name string, init func() A, as serde.Serde[A]) serde.Serde[A] {
	if init == nil {
		c.b.t.Errorf(site, "Aggregate(%q): the function is nil", name)
	}
	return given(c.b, site, "aggregate's", as)
}

// inputs returns the streams by their keys, and the serde of the keys.
func (c *Cogrouped[K, A]) inputs(site topology.Site, name string) (ins []from, ks serde.Serde[K]) {
	for _, p := range c.parts {
		f, own := p.input()
		own = needKey(f, site, "Cogroup "+name, own)
		if ks == nil {
			ks = own
		} else if !missing(ks) && !missing(own) && ks.Fingerprint() != own.Fingerprint() {
			c.b.t.Errorf(p.site, "Cogroup: this stream's keys are serialised as %s, the first one's as %s: equal keys would not meet, use one serde for all",
				own.Fingerprint(), ks.Fingerprint())
		}
		ins = append(ins, f)
	}
	return ins, ks
}

// add adds the step of each stream and the table below all of them.
func (c *Cogrouped[K, A]) add(
	site topology.Site, name, op string, ins []from, core func(func(K, struct{}, A) A) operators.Factory,
	merge operators.Factory, get operators.GetterFactory,
) from {
	var steps []*topology.Node
	for i, p := range c.parts {
		steps = append(steps, ins[i].add(topology.Node{
			Kind: topology.Stateful, Op: op + "-input", Name: name, Site: p.site, Stores: []string{name}, KeyedState: true,
			Factory: p.factory(core),
		}))
	}
	return from{b: c.b, n: c.b.t.Add(topology.Node{
		Kind: topology.Stateful, Op: op, Name: name, Site: site, Parents: steps, Stores: []string{name},
		KeyedState: true, View: true, Factory: merge, Getter: get,
	})}
}
