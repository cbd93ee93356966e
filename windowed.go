package tidegate

import (
	"math"
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// TimeWindowed is a stream grouped by key and window (Kafka Streams'
// TimeWindowedKStream).
//
// Every record updates the result of each of its windows and is followed by the
// updated results, with the largest timestamp of the records in the window;
// EmitOnClose changes that. A record all of whose windows ended more than the
// grace before stream time is late: it is dropped and counted in Health.Late, or
// sent where LateTo says. (Kafka Streams counts each closed window of a record.)
type TimeWindowed[K, V, WK any] struct {
	g *Grouped[K, V]
	w TimeWindows
	windowed[K, V, WK]
}

// windowed is what time windows and sessions share.
type windowed[K, V, WK any] struct {
	key     func(serde.Serde[K]) WindowKey[K, WK]
	onClose bool
	late    func(*Stream[K, V])
}

// WindowedBy divides each group into windows; key makes the result's key type:
//
//	g.WindowedBy(tidegate.Tumbling(time.Minute).Grace(5*time.Second), tidegate.ByWindow)
func (g *Grouped[K, V]) WindowedBy[WK any](
	w TimeWindows, key func(serde.Serde[K], WindowFormat) WindowKey[K, WK],
) *TimeWindowed[K, V, WK] {
	return g.windowed(here(), w, key)
}

func (g *Grouped[K, V]) windowed[WK any](
	site topology.Site, w TimeWindows, key func(serde.Serde[K], WindowFormat) WindowKey[K, WK],
) *TimeWindowed[K, V, WK] {
	if err := w.mistake(); err != nil {
		g.s.b.t.Errorf(site, "%v", err)
		w = Tumbling(time.Millisecond)
	}
	return &TimeWindowed[K, V, WK]{g: g, w: w, windowed: windowedBy[K, V](g.s.b, site, "WindowedBy", w.format(), key)}
}

func windowedBy[K, V, WK any](
	b *Builder, site topology.Site, op string, f WindowFormat, key func(serde.Serde[K], WindowFormat) WindowKey[K, WK],
) windowed[K, V, WK] {
	if key == nil {
		b.t.Errorf(site, "%s: the key function is nil: pass tidegate.ByWindow", op)
		key = func(serde.Serde[K], WindowFormat) WindowKey[K, WK] {
			return WindowKey[K, WK]{
				Make: func(K, Window) (k WK) { return k }, Split: func(WK) (k K, w Window) { return k, w },
				Serde: noSerde[WK]{},
			}
		}
	}
	return windowed[K, V, WK]{key: func(ks serde.Serde[K]) WindowKey[K, WK] { return key(ks, f) }}
}

// EmitOnClose sends the result of each window once, when stream time passed its
// end plus the grace, instead of at every update (Kafka Streams'
// EmitStrategy.onWindowClose). Results come in the order of windows and then of
// serialised keys, with the largest timestamp of the records in the window and
// without headers.
//
// No window is left out when stream time jumps or the application is started
// again in between. Windows close only while records come: the last ones stay
// open until stream time passes their end.
func (w *TimeWindowed[K, V, WK]) EmitOnClose() *TimeWindowed[K, V, WK] {
	if w.w.kind == unlimited {
		w.g.s.b.t.Errorf(here(), "EmitOnClose: unlimited windows never close")
	}
	out := *w
	out.onClose = true
	return &out
}

// LateTo hands the late records to steps of f's choice, as they came, instead of
// only counting them (Flink's sideOutputLateData). f is called once for each
// aggregation of these windows, while the topology is described:
//
//	windows.LateTo(func(late *tidegate.Stream[string, Click]) { late.To("late-clicks") })
func (w *TimeWindowed[K, V, WK]) LateTo(f func(late *Stream[K, V])) *TimeWindowed[K, V, WK] {
	if f == nil {
		w.g.s.b.t.Errorf(here(), "LateTo: the function is nil")
	}
	out := *w
	out.late = f
	return &out
}

// Count counts the records of each key and window, in the store of that name.
func (w *TimeWindowed[K, V, WK]) Count(name string) *Table[WK, int64] {
	s, site := w.g.input(), here()
	return timeWindowed(w, site, "windowed-count", name, operators.Count[K](s.vs), serde.Int64())
}

// Reduce combines the values of each key and window; see Grouped.Reduce.
func (w *TimeWindowed[K, V, WK]) Reduce(name string, f func(agg, v V) V) *Table[WK, V] {
	s, site := w.g.input(), here()
	if f == nil {
		s.b.t.Errorf(site, "Reduce(%q): the function is nil", name)
	}
	vs := needValue(s.from, site, "Reduce("+name+")", s.vs)
	return timeWindowed(w, site, "windowed-reduce", name, operators.Reduce[K](f, vs), vs)
}

// Aggregate folds the values of each key and window; see Grouped.Aggregate.
func (w *TimeWindowed[K, V, WK]) Aggregate[A any](
	name string, init func() A, add func(k K, v V, a A) A, as serde.Serde[A],
) *Table[WK, A] {
	s, site := w.g.input(), here()
	if init == nil || add == nil {
		s.b.t.Errorf(site, "Aggregate(%q): a function is nil", name)
	}
	as = given(s.b, site, "aggregate's", as)
	return timeWindowed(w, site, "windowed-aggregate", name, operators.Aggregate(init, add, as), as)
}

// timeWindowed adds the node of a windowed aggregation.
func timeWindowed[K, V, WK, A any](
	w *TimeWindowed[K, V, WK], site topology.Site, op, name string, agg operators.Aggregator[K, V, A], as serde.Serde[A],
) *Table[WK, A] {
	s := w.g.input()
	ks, wk := w.keys(s, site, op, name)
	n := topology.Node{
		Kind: topology.Stateful, Op: op, Name: name, Site: site, Stores: []string{name}, KeyedState: true,
	}
	kept := w.w.grace.Milliseconds() // after the window's end
	if w.w.kind == sliding {
		o := operators.SlidingAggregation[K, V, A, WK]{
			Name: name, Difference: w.w.size.Milliseconds(), Grace: w.w.grace.Milliseconds(),
			Key: ks, Value: as, Agg: agg, Make: wk.Make, Split: wk.Split, OnClose: w.onClose,
		}
		n.Stores = nil
		for _, st := range o.Stores(serdeInfo(ks), serdeInfo(as), site) {
			s.b.t.AddStore(st)
			n.Stores = append(n.Stores, st.Name)
		}
		n.Factory, n.Getter = o.Factory(), o.Getter()
		kept++ // the end is in the window
	} else {
		o := operators.WindowedAggregation[K, V, A, WK]{
			Name: name, W: w.w.windows(), Key: ks, Value: as, Agg: agg, Make: wk.Make, Split: wk.Split, OnClose: w.onClose,
		}
		s.b.t.AddStore(w.w.store(name, o.W, serdeInfo(ks), serdeInfo(as), site))
		n.Factory, n.Getter = o.Factory(), o.Getter()
	}
	f := from{b: s.b, n: s.add(n)}
	w.sendLate(s, f.n, site)
	return &Table[WK, A]{
		from: f, ks: wk.Serde, vs: as,
		closeAt: closeAt(wk.Split, func(win Window) int64 { return win.End + kept }),
	}
}

// store is the definition of the store of windows that do not slide.
func (w TimeWindows) store(name string, o operators.Windows, key, value topology.Serde, site topology.Site) topology.Store {
	st := topology.Store{
		Name: name, Format: operators.FormatWindows, Key: key, Value: value,
		SizeMs: o.Size, GraceMs: o.Grace, Windows: w.describe(), Site: site,
	}
	switch c := o.Calendar; {
	case c != nil:
		st.WindowEnd = c.End
	case o.Unlimited:
		st.WindowEnd = func(int64) int64 { return math.MaxInt64 }
	}
	return st
}

// keys returns the serde of the group's keys and the key of its windows.
func (w *windowed[K, V, WK]) keys(s *Stream[K, V], site topology.Site, op, name string) (serde.Serde[K], WindowKey[K, WK]) {
	ks := needKey(s.from, site, op+" "+name, s.ks)
	wk := w.key(ks)
	if wk.Serde == nil || wk.Make == nil || wk.Split == nil {
		s.b.t.Errorf(site, "%s %s: the WindowKey is incomplete: it needs Make, Split and Serde", op, name)
		wk.Serde = noSerde[WK]{}
	}
	return ks, wk
}

// sendLate describes what becomes of the late records of a node.
func (w *windowed[K, V, WK]) sendLate(s *Stream[K, V], n *topology.Node, site topology.Site) {
	if w.late == nil {
		return
	}
	f := s.from
	f.n = n
	f.n = f.add(topology.Node{Op: "late", Site: site, Factory: operators.Merge[K, V]()})
	w.late(s.same(f))
}

// closeAt is the Table.closeAt of windows that close at a time of their own.
func closeAt[K, WK any](split func(WK) (K, record.Window), at func(Window) int64) func(WK) int64 {
	return func(k WK) int64 {
		_, w := split(k)
		return at(w)
	}
}
