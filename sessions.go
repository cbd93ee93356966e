package tidegate

import (
	"fmt"
	"math"
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// SessionWindows are periods in which a key has records that are never further
// apart than a gap.
type SessionWindows struct {
	gap, grace time.Duration
}

// Session are sessions that end when a key has no record for longer than the gap
// (Kafka Streams' SessionWindows.ofInactivityGapAndGrace). The grace is 0 unless
// Grace sets it. A session's window is from its first to its last record; both
// are in it.
func Session(gap time.Duration) SessionWindows { return SessionWindows{gap: gap} }

// Grace sets how long after a session ended, the gap behind its last record, it
// still takes late records. Later ones are dropped and counted, unless they touch
// a session that is still open.
func (w SessionWindows) Grace(d time.Duration) SessionWindows { w.grace = d; return w }

// mistake says what is wrong with the sessions.
func (w SessionWindows) mistake() error {
	const ms = time.Millisecond
	switch {
	case w.gap < ms:
		return fmt.Errorf("session gap %v: must be at least 1ms", w.gap)
	case w.grace < 0:
		return fmt.Errorf("session grace %v: must not be negative", w.grace)
	case w.gap%ms != 0 || w.grace%ms != 0:
		return fmt.Errorf("session gap %v and grace %v: event time has whole milliseconds", w.gap, w.grace)
	case w.gap > math.MaxInt64/2 || 2*w.gap > math.MaxInt64-w.grace:
		return fmt.Errorf("session gap %v plus grace %v overflows", w.gap, w.grace)
	}
	return nil
}

// SessionWindowed is a stream grouped by key and session (Kafka Streams'
// SessionWindowedKStream).
//
// Every record makes, extends or joins sessions. The table has a row per session,
// with the session's end as timestamp: when a record changes a session, the row
// of the old window is deleted and one of the new window follows, also when both
// are the same window. EmitOnClose sends results only.
//
// A session is closed when stream time is more than the gap and the grace behind
// its end. Late records, which are that old and touch no open session, are
// dropped and counted in Health.Late, or sent where LateTo says. Sessions are
// looked up by key and time: the cost does not depend on how many there are.
type SessionWindowed[K, V, WK any] struct {
	g *Grouped[K, V]
	w SessionWindows
	windowed[K, V, WK]
}

// SessionWindowedBy divides each group into sessions; key makes the result's key
// type:
//
//	g.SessionWindowedBy(tidegate.Session(30*time.Minute), tidegate.ByWindow)
func (g *Grouped[K, V]) SessionWindowedBy[WK any](
	w SessionWindows, key func(serde.Serde[K], WindowFormat) WindowKey[K, WK],
) *SessionWindowed[K, V, WK] {
	return g.sessions(here(), w, key)
}

func (g *Grouped[K, V]) sessions[WK any](
	site topology.Site, w SessionWindows, key func(serde.Serde[K], WindowFormat) WindowKey[K, WK],
) *SessionWindowed[K, V, WK] {
	if err := w.mistake(); err != nil {
		g.s.b.t.Errorf(site, "%v", err)
		w = Session(time.Millisecond)
	}
	return &SessionWindowed[K, V, WK]{
		g: g, w: w, windowed: windowedBy[K, V](g.s.b, site, "SessionWindowedBy", WindowFormat{}, key),
	}
}

// EmitOnClose sends the result of each session once, when it is closed, instead
// of at every update; see TimeWindowed.EmitOnClose. A closed session is final: a
// record that comes within the gap of it after all, out of order by more than the
// grace, begins another one. The store "name-closing" knows what is still to be
// sent.
func (w *SessionWindowed[K, V, WK]) EmitOnClose() *SessionWindowed[K, V, WK] {
	out := *w
	out.onClose = true
	return &out
}

// LateTo hands the late records to steps of f's choice; see TimeWindowed.LateTo.
func (w *SessionWindowed[K, V, WK]) LateTo(f func(late *Stream[K, V])) *SessionWindowed[K, V, WK] {
	if f == nil {
		w.g.s.b.t.Errorf(here(), "LateTo: the function is nil")
	}
	out := *w
	out.late = f
	return &out
}

// Count counts the records of each key and session, in the store of that name.
func (w *SessionWindowed[K, V, WK]) Count(name string) *Table[WK, int64] {
	s, site := w.g.input(), here()
	return sessionWindowed(w, site, "session-count", name, operators.SessionCount[K](s.vs), serde.Int64())
}

// Reduce combines the values of each key and session; see Grouped.Reduce. Where
// sessions become one, f combines their aggregates, the earlier one first.
func (w *SessionWindowed[K, V, WK]) Reduce(name string, f func(agg, v V) V) *Table[WK, V] {
	s, site := w.g.input(), here()
	if f == nil {
		s.b.t.Errorf(site, "Reduce(%q): the function is nil", name)
	}
	vs := needValue(s.from, site, "Reduce("+name+")", s.vs)
	return sessionWindowed(w, site, "session-reduce", name, operators.SessionReduce[K](f, vs), vs)
}

// Aggregate folds the values of each key and session; see Grouped.Aggregate. Each
// record's aggregate begins with init; the sessions that it touches are merged
// into that, the earliest first (Kafka Streams' Merger), and then the value is
// added. merge may change its first argument and return it.
func (w *SessionWindowed[K, V, WK]) Aggregate[A any](
	name string, init func() A, add func(k K, v V, a A) A, merge func(k K, a, b A) A, as serde.Serde[A],
) *Table[WK, A] {
	s, site := w.g.input(), here()
	if init == nil || add == nil || merge == nil {
		s.b.t.Errorf(site, "Aggregate(%q): a function is nil", name)
	}
	as = given(s.b, site, "aggregate's", as)
	return sessionWindowed(w, site, "session-aggregate", name, operators.SessionAggregate(init, add, merge, as), as)
}

// sessionWindowed adds the node of an aggregation over sessions.
func sessionWindowed[K, V, WK, A any](
	w *SessionWindowed[K, V, WK], site topology.Site, op, name string,
	agg operators.SessionAggregator[K, V, A], as serde.Serde[A],
) *Table[WK, A] {
	s := w.g.input()
	ks, wk := w.keys(s, site, op, name)
	o := operators.SessionAggregation[K, V, A, WK]{
		Name: name, Gap: w.w.gap.Milliseconds(), Grace: w.w.grace.Milliseconds(),
		Key: ks, Value: as, Agg: agg, Make: wk.Make, Split: wk.Split, OnClose: w.onClose,
	}
	var stores []string
	for _, st := range o.Stores(serdeInfo(ks), serdeInfo(as), site) {
		s.b.t.AddStore(st)
		stores = append(stores, st.Name)
	}
	n := s.add(topology.Node{
		Kind: topology.Stateful, Op: op, Name: name, Site: site, Stores: stores, KeyedState: true,
		Factory: o.Factory(), Getter: o.Getter(),
	})
	w.sendLate(s, n, site)
	// With updates, a record that is not late may bring a closed session back that
	// is a gap older.
	kept := 2*o.Gap + o.Grace + 1
	if w.onClose {
		kept = o.Gap + o.Grace + 1
	}
	return &Table[WK, A]{
		from: from{b: s.b, n: n}, ks: wk.Serde, vs: as,
		closeAt: closeAt(wk.Split, func(win Window) int64 { return win.End + kept }),
	}
}
