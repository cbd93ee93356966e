package tidegate

import (
	"math"
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// TimeWindows are windows of fixed size over event time.
type TimeWindows struct {
	size, grace time.Duration
}

// Tumbling are windows of that size, one behind the other without overlap, the
// first beginning at the epoch (Kafka Streams' TimeWindows.ofSizeAndGrace
// without advance). The grace is 0 unless Grace sets it.
func Tumbling(size time.Duration) TimeWindows { return TimeWindows{size: size} }

// Grace sets how long after its end, in stream time, a window still takes late
// records. A later record is dropped and counted. The window's state is kept
// for size + grace.
func (w TimeWindows) Grace(d time.Duration) TimeWindows { w.grace = d; return w }

// check notes what is wrong with the windows and returns valid ones.
func (w TimeWindows) check(b *Builder, site topology.Site) operators.Windows {
	const ms = time.Millisecond
	switch {
	case w.size < ms:
		b.t.Errorf(site, "window size %v: must be at least 1ms", w.size)
	case w.grace < 0:
		b.t.Errorf(site, "window grace %v: must not be negative", w.grace)
	case w.size%ms != 0 || w.grace%ms != 0:
		b.t.Errorf(site, "window size %v and grace %v: event time has whole milliseconds", w.size, w.grace)
	case w.size > math.MaxInt64-w.grace:
		b.t.Errorf(site, "window size %v plus grace %v overflows", w.size, w.grace)
	default:
		return operators.Windows{Size: w.size.Milliseconds(), Grace: w.grace.Milliseconds()}
	}
	return operators.Windows{Size: 1}
}

// WindowKey makes the key type of a windowed table from a key and a window.
// ByWindow is the usual one; a user's own type needs its own WindowKey.
type WindowKey[K, WK any] struct {
	Make  func(K, Window) WK
	Split func(WK) (K, Window)
	Serde serde.Serde[WK]
}

// ByWindow keys windowed results by Windowed[K], in the format of Kafka
// Streams' time-windowed keys. It is passed to WindowedBy as it is.
func ByWindow[K any](ks serde.Serde[K], size time.Duration) WindowKey[K, Windowed[K]] {
	return WindowKey[K, Windowed[K]]{
		Make:  func(k K, w Window) Windowed[K] { return Windowed[K]{Key: k, Window: w} },
		Split: func(w Windowed[K]) (K, Window) { return w.Key, w.Window },
		Serde: serde.Windowed(ks, size),
	}
}

// TimeWindowed is a stream grouped by key and window (Kafka Streams'
// TimeWindowedKStream).
//
// Every record updates the result of its window and is followed by the updated
// result, with the largest timestamp of the records in it. A record whose
// window ended more than the grace before stream time is dropped and counted in
// Health.Late.
type TimeWindowed[K, V, WK any] struct {
	g    *Grouped[K, V]
	w    operators.Windows
	make func(serde.Serde[K]) WindowKey[K, WK]
}

// WindowedBy divides each group into windows; key makes the result's key type:
//
//	g.WindowedBy(tidegate.Tumbling(time.Minute).Grace(5*time.Second), tidegate.ByWindow)
func (g *Grouped[K, V]) WindowedBy[WK any](
	w TimeWindows, key func(serde.Serde[K], time.Duration) WindowKey[K, WK],
) *TimeWindowed[K, V, WK] {
	site := here()
	if key == nil {
		g.s.b.t.Errorf(site, "WindowedBy: the key function is nil: pass tidegate.ByWindow")
		key = func(serde.Serde[K], time.Duration) WindowKey[K, WK] {
			return WindowKey[K, WK]{Serde: noSerde[WK]{}}
		}
	}
	return &TimeWindowed[K, V, WK]{
		g: g, w: w.check(g.s.b, site),
		make: func(ks serde.Serde[K]) WindowKey[K, WK] { return key(ks, w.size) },
	}
}

// Count counts the records of each key and window, in the store of that name.
func (w *TimeWindowed[K, V, WK]) Count(name string) *Table[WK, int64] {
	s, site := w.g.input(), here()
	return windowed(w, site, "windowed-count", name, operators.Count[K](s.vs), serde.Int64())
}

// Reduce combines the values of each key and window; see Grouped.Reduce.
func (w *TimeWindowed[K, V, WK]) Reduce(name string, f func(agg, v V) V) *Table[WK, V] {
	s, site := w.g.input(), here()
	if f == nil {
		s.b.t.Errorf(site, "Reduce(%q): the function is nil", name)
	}
	vs := needValue(s.from, site, "Reduce("+name+")", s.vs)
	return windowed(w, site, "windowed-reduce", name, operators.Reduce[K](f, vs), vs)
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
	return windowed(w, site, "windowed-aggregate", name, operators.Aggregate(init, add, as), as)
}

// windowed adds the node of a windowed aggregation.
func windowed[K, V, WK, A any](
	w *TimeWindowed[K, V, WK], site topology.Site, op, name string, agg operators.Aggregator[K, V, A], as serde.Serde[A],
) *Table[WK, A] {
	s := w.g.input()
	ks := needKey(s.from, site, op+" "+name, s.ks)
	wk := w.make(ks)
	if wk.Serde == nil || wk.Make == nil || wk.Split == nil {
		s.b.t.Errorf(site, "%s %s: the WindowKey is incomplete: it needs Make, Split and Serde", op, name)
		wk.Serde = noSerde[WK]{}
	}
	s.b.t.AddStore(topology.Store{
		Name: name, Format: operators.FormatWindows, Key: serdeInfo(ks), Value: serdeInfo(as),
		SizeMs: w.w.Size, GraceMs: w.w.Grace, Site: site,
	})
	n := s.add(topology.Node{
		Kind: topology.Stateful, Op: op, Name: name, Site: site, Stores: []string{name}, KeyedState: true,
		Factory: operators.WindowedAggregation(name, w.w, ks, as, agg, wk.Make),
		Getter:  operators.WindowedGetter(name, w.w, ks, as, wk.Split),
	})
	grace := w.w.Grace
	return &Table[WK, A]{
		from: from{b: s.b, n: n}, ks: wk.Serde, vs: as,
		closeAt: func(k WK) int64 {
			_, win := wk.Split(k)
			return win.End + grace
		},
	}
}
