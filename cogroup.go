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
	parts []cogroupPart[K]
}

// cogroupPart is one of the streams, without the type of its values.
type cogroupPart[K any] struct {
	site topology.Site
	// input is the stream partitioned by the group's key.
	input   func() (from, serde.Serde[K])
	factory operators.Factory
}

// Cogroup begins an aggregation of several streams with this one. add folds a
// value of this stream into the aggregate; see Grouped.Aggregate.
func (g *Grouped[K, V]) Cogroup[A any](add func(k K, v V, a A) A) *Cogrouped[K, A] {
	return cogroup(&Cogrouped[K, A]{b: g.s.b}, here(), g, add)
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
	return &Cogrouped[K, A]{b: c.b, parts: append(slices.Clone(c.parts), cogroupPart[K]{
		site:    site,
		factory: operators.Cogroup(add),
		input: func() (from, serde.Serde[K]) {
			s := g.input()
			return s.from, s.ks
		},
	})}
}

// Aggregate folds the values of all streams into one aggregate per key, in the
// store of that name; init makes the first one. With A = Opt[T] and as =
// serde.Nullable, an add that returns None deletes the key.
func (c *Cogrouped[K, A]) Aggregate(name string, init func() A, as serde.Serde[A]) *Table[K, A] {
	site := here()
	if init == nil {
		c.b.t.Errorf(site, "Aggregate(%q): the function is nil", name)
	}
	as = given(c.b, site, "aggregate's", as)
	return aggregate(c.folds(site, name), site, "cogroup", name, operators.Aggregate(init, applyFold[K, A], as), as)
}

// applyFold adds the value that a fold stands for.
func applyFold[K, A any](k K, fold func(K, A) A, a A) A { return fold(k, a) }

// folds is one stream of what all parts add.
func (c *Cogrouped[K, A]) folds(site topology.Site, name string) *Stream[K, func(K, A) A] {
	var (
		ks    serde.Serde[K]
		steps []*topology.Node
	)
	for _, p := range c.parts {
		f, own := p.input()
		own = needKey(f, site, "Cogroup "+name, own)
		if ks == nil {
			ks = own
		} else if !missing(ks) && !missing(own) && ks.Fingerprint() != own.Fingerprint() {
			c.b.t.Errorf(p.site, "Cogroup: this stream's keys are serialised as %s, the first one's as %s: equal keys would not meet, use one serde for all",
				own.Fingerprint(), ks.Fingerprint())
		}
		steps = append(steps, f.add(topology.Node{Op: "cogroup-input", Name: name, Site: p.site, Factory: p.factory}))
	}
	n := c.b.t.Add(topology.Node{
		Op: "cogroup-inputs", Name: name, Site: site, Parents: steps, Factory: operators.Merge[K, func(K, A) A](),
	})
	return &Stream[K, func(K, A) A]{from: from{b: c.b, n: n}, ks: ks}
}

// CogroupedWindows is several grouped streams, divided into windows (Kafka
// Streams' TimeWindowedCogroupedKStream); see TimeWindowed.
type CogroupedWindows[K, A, WK any] struct {
	c       *Cogrouped[K, A]
	windows func(*Stream[K, func(K, A) A]) *TimeWindowed[K, func(K, A) A, WK]
	onClose bool
}

// WindowedBy divides each group into windows; see Grouped.WindowedBy.
func (c *Cogrouped[K, A]) WindowedBy[WK any](
	w TimeWindows, key func(serde.Serde[K], WindowFormat) WindowKey[K, WK],
) *CogroupedWindows[K, A, WK] {
	site := here()
	return &CogroupedWindows[K, A, WK]{c: c, windows: func(s *Stream[K, func(K, A) A]) *TimeWindowed[K, func(K, A) A, WK] {
		return (&Grouped[K, func(K, A) A]{s: s, site: site}).windowed(site, w, key)
	}}
}

// EmitOnClose sends the result of each window once; see
// TimeWindowed.EmitOnClose.
func (w *CogroupedWindows[K, A, WK]) EmitOnClose() *CogroupedWindows[K, A, WK] {
	out := *w
	out.onClose = true
	return &out
}

// Aggregate folds the values of each key and window; see Cogrouped.Aggregate.
func (w *CogroupedWindows[K, A, WK]) Aggregate(name string, init func() A, as serde.Serde[A]) *Table[WK, A] {
	site := here()
	if init == nil {
		w.c.b.t.Errorf(site, "Aggregate(%q): the function is nil", name)
	}
	as = given(w.c.b, site, "aggregate's", as)
	windows := w.windows(w.c.folds(site, name))
	if w.onClose {
		windows = windows.EmitOnClose()
	}
	return timeWindowed(windows, site, "windowed-cogroup", name, operators.Aggregate(init, applyFold[K, A], as), as)
}

// CogroupedSessions is several grouped streams, divided into sessions (Kafka
// Streams' SessionWindowedCogroupedKStream); see SessionWindowed.
type CogroupedSessions[K, A, WK any] struct {
	c       *Cogrouped[K, A]
	windows func(*Stream[K, func(K, A) A]) *SessionWindowed[K, func(K, A) A, WK]
	onClose bool
}

// SessionWindowedBy divides each group into sessions, to which the records of
// all streams belong; see Grouped.SessionWindowedBy.
func (c *Cogrouped[K, A]) SessionWindowedBy[WK any](
	w SessionWindows, key func(serde.Serde[K], WindowFormat) WindowKey[K, WK],
) *CogroupedSessions[K, A, WK] {
	site := here()
	return &CogroupedSessions[K, A, WK]{c: c, windows: func(s *Stream[K, func(K, A) A]) *SessionWindowed[K, func(K, A) A, WK] {
		return (&Grouped[K, func(K, A) A]{s: s, site: site}).sessions(site, w, key)
	}}
}

// EmitOnClose sends the result of each session once; see
// SessionWindowed.EmitOnClose.
func (w *CogroupedSessions[K, A, WK]) EmitOnClose() *CogroupedSessions[K, A, WK] {
	out := *w
	out.onClose = true
	return &out
}

// Aggregate folds the values of each key and session; merge makes one aggregate
// of two, as in SessionWindowed.Aggregate.
func (w *CogroupedSessions[K, A, WK]) Aggregate(
	name string, init func() A, merge func(k K, a, b A) A, as serde.Serde[A],
) *Table[WK, A] {
	site := here()
	if init == nil || merge == nil {
		w.c.b.t.Errorf(site, "Aggregate(%q): a function is nil", name)
	}
	as = given(w.c.b, site, "aggregate's", as)
	windows := w.windows(w.c.folds(site, name))
	if w.onClose {
		windows = windows.EmitOnClose()
	}
	return sessionWindowed(windows, site, "session-cogroup", name, operators.SessionAggregate(init, applyFold[K, A], merge, as), as)
}
