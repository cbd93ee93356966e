package operators

import (
	"fmt"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// SlidingAggregation keeps one aggregate per key and sliding window: a window of
// Difference milliseconds, both ends in it, that begins or ends at a record of
// the key. Which windows there are is said in the DSL (tidegate.Sliding).
//
// Records are not kept. What a new window holds follows from its neighbours: the
// largest timestamp in a window (that of its aggregate) tells which records it
// has, and the last window before a time has the same records as one that would
// begin at its first. So a record reads the windows of its key that begin in
// [t − 2·Difference, t + 1], changes those that it is in, and makes up to three:
//
//	left    ends at the record: what the last window before it holds, if that
//	        reaches into it, and the record
//	right   begins behind it: what the last window that holds the record holds, if
//	        anything in it is later
//	behind  begins behind the record before it: only the record, since else it
//	        would be there
//
// A window is closed when stream time is more than Grace behind its end.
type SlidingAggregation[K, V, A, WK any] struct {
	Name              string
	Difference, Grace int64
	Key               serde.Serde[K]
	Value             serde.Serde[A]
	Agg               Aggregator[K, V, A]
	Make              func(K, record.Window) WK
	Split             func(WK) (K, record.Window)
	OnClose           bool
}

// Stores returns the definitions of the stores.
func (d SlidingAggregation[K, V, A, WK]) Stores(key, value topology.Serde, site topology.Site) []topology.Store {
	out := []topology.Store{{
		Name: d.Name, Format: FormatSliding, Key: key, Value: value, Site: site,
		SizeMs: d.Difference, GraceMs: d.Grace, Windows: "sliding",
	}}
	if d.OnClose {
		out = append(out, closingStore(d.Name, key, site))
	}
	return out
}

func (d SlidingAggregation[K, V, A, WK]) segment() int64 {
	return SpanSegment(d.Difference, 2*d.Difference+d.Grace)
}

func (d SlidingAggregation[K, V, A, WK]) open(b *Build) (*state.SessionStore[K, stamped[A]], error) {
	return openSpans[K, stamped[A]](b, d.Name, d.Key, stampedSerde[A]{d.Value}, d.segment())
}

// Factory makes the step; see WindowedAggregation.Factory.
func (d SlidingAggregation[K, V, A, WK]) Factory() Factory {
	return func(b *Build, outs []any) (any, error) {
		st, err := d.open(b)
		if err != nil {
			return nil, err
		}
		tables, late := lateOuts[K, V](outs)
		a := &slidingAgg[K, V, A, WK]{
			diff: d.Difference, grace: d.Grace, agg: d.Agg, key: d.Make, st: st, keyNull: nullsOf(d.Key),
			next: nextChange[WK, A](tables), late: late, node: b.id(), m: b.g.env.Metrics(),
			sendOld: b.node.SendOld && !d.OnClose,
		}
		a.collect = a.found
		if d.OnClose {
			if a.closings, err = openClosings(b, d.Name, d.Key, d.Grace, a.sendClosed); err != nil {
				return nil, err
			}
		}
		// Closed windows are read for new ones up to the difference later.
		b.g.timers.expire(newExpiry(
			Windows{Size: d.Difference + 1, Grace: d.Grace, Advance: d.segment()}, st.ExpireBefore,
		))
		return Next[K, V](a.process), nil
	}
}

// Getter looks rows up in the windowed table.
func (d SlidingAggregation[K, V, A, WK]) Getter() GetterFactory {
	return func(b *Build) (any, error) {
		st, err := d.open(b)
		if err != nil {
			return nil, err
		}
		return Getter[WK, A](func(wk WK) (A, int64, bool, error) {
			k, w := d.Split(wk)
			s, ok, err := st.Get(k, w.Start, w.Start+d.Difference)
			return s.v, s.ts, ok, err
		}), nil
	}
}

type slidingAgg[K, V, A, WK any] struct {
	diff, grace int64
	agg         Aggregator[K, V, A]
	key         func(K, record.Window) WK
	st          *state.SessionStore[K, stamped[A]]
	closings    *closings[K] // nil unless on close
	keyNull     nulls[K]
	next        NextChange[WK, A]
	late        Next[K, V]
	node        int32
	m           *Metrics
	sendOld     bool

	// The record in hand: its time, the time before which windows are closed, the
	// windows around it and what becomes of them.
	at, open int64
	early    bool
	rows     []slidingRow[A]
	work     []windowRow[A]
	added    bool // the record is in a window
	collect  func(start, end int64, s stamped[A]) (bool, error)
}

// slidingRow is a window that was found; last is the latest record in it.
type slidingRow[A any] struct {
	start, end, last int64
	s                stamped[A]
}

// found takes the windows around the record, and the last one before it.
func (a *slidingAgg[K, V, A, WK]) found(start, end int64, s stamped[A]) (bool, error) {
	a.rows = append(a.rows, slidingRow[A]{start, end, clampTime(s.ts), s})
	return a.early || end >= a.at, nil
}

func (a *slidingAgg[K, V, A, WK]) process(c *Context, k K, v V, n record.Null) error {
	if n != 0 || a.keyNull.is(k) || a.agg.skip.is(v) {
		a.m.NullDropped.Add(1)
		return nil
	}
	a.at = clampTime(c.Timestamp)
	a.open = clampTime(c.StreamTime) - a.grace
	a.early = a.at >= 0 && a.at < a.diff
	a.rows, a.work, a.added = a.rows[:0], a.work[:0], false
	if a.at+a.diff >= a.open {
		c.node = a.node
		if err := a.plan(c, k, v); err != nil {
			return err
		}
	}
	if !a.added {
		a.m.late(clampTime(c.StreamTime) - a.at)
		if a.late != nil {
			return a.late(c, k, v, 0)
		}
		return nil
	}
	return a.update(c, k)
}

// plan computes the windows that change, and stores nothing: a failing aggregator
// leaves everything as it was.
func (a *slidingAgg[K, V, A, WK]) plan(c *Context, k K, v V) error {
	from := max(a.at-a.diff, a.open-a.diff-1)
	if a.at >= 0 {
		from = max(from, a.diff) // no window begins before the epoch
	}
	if err := a.st.Range(k, from, a.at+1+a.diff, !a.early, a.collect); err != nil {
		return err
	}
	if a.early {
		return a.planEarly(c, k, v)
	}
	var left, right *slidingRow[A]
	var leftIs, rightIs, sameTime, hasPrev bool
	var prev int64 // the record before
	for i := range a.rows {
		r := &a.rows[i]
		switch {
		case r.start == a.at+1:
			rightIs = true
		case r.end >= a.at:
			leftIs = leftIs || r.end == a.at
			if r.end > a.at && right == nil {
				right = r
			}
			if err := a.add(c, k, v, r); err != nil {
				return err
			}
			if r.end == a.at {
				sameTime = r.last >= a.at
				prev, hasPrev = r.last, !sameTime
			}
		default:
			left = r
			if !hasPrev || r.last > prev {
				prev, hasPrev = r.last, true
			}
		}
		if sameTime {
			return nil // a record of that time has made all windows
		}
	}
	if hasPrev && prev+1+a.diff >= a.at {
		a.behind(c, k, v, prev)
	}
	if !leftIs {
		w := slidingRow[A]{start: a.at - a.diff, end: a.at}
		if hasPrev && left != nil && prev >= w.start {
			w.s = left.s
			a.fold(c, k, v, &w, true)
		} else {
			a.fold(c, k, v, &w, false)
		}
	}
	return a.right(k, right, rightIs)
}

// planEarly is plan for the records before the first window that may begin: all
// of them are in [0, diff].
func (a *slidingAgg[K, V, A, WK]) planEarly(c *Context, k K, v V) error {
	var all, right *slidingRow[A]
	var rightIs, hasPrev bool
	var prev int64
	for i := range a.rows {
		r := &a.rows[i]
		switch r.start {
		case 0:
			all = r
			prev, hasPrev = r.last, r.last < a.at
		case a.at + 1:
			rightIs = true
		default:
			right = r
			if err := a.add(c, k, v, r); err != nil {
				return err
			}
		}
	}
	if right == nil && all != nil && all.last > a.at {
		right = all
	}
	if err := a.right(k, right, rightIs); err != nil {
		return err
	}
	if hasPrev {
		a.behind(c, k, v, prev)
	}
	if all == nil {
		a.fold(c, k, v, &slidingRow[A]{start: 0, end: a.diff}, false)
		return nil
	}
	return a.add(c, k, v, all)
}

// add adds the record to a window that is there.
func (a *slidingAgg[K, V, A, WK]) add(c *Context, k K, v V, r *slidingRow[A]) error {
	if r.end < a.open {
		return nil
	}
	a.fold(c, k, v, r, true)
	if a.sendOld { // the aggregator may have changed the value that was read
		w := &a.work[len(a.work)-1]
		old, ok, err := a.st.Get(k, r.start, r.end)
		w.old, w.hasOld = old.v, ok
		return err
	}
	return nil
}

// behind makes the window behind the record before, if it is not there.
func (a *slidingAgg[K, V, A, WK]) behind(c *Context, k K, v V, prev int64) {
	for i := range a.rows {
		if a.rows[i].start == prev+1 {
			return
		}
	}
	a.fold(c, k, v, &slidingRow[A]{start: prev + 1, end: prev + 1 + a.diff}, false)
}

// right makes the window behind the record, if anything is in it.
func (a *slidingAgg[K, V, A, WK]) right(k K, from *slidingRow[A], is bool) error {
	if is || from == nil || from.last <= a.at {
		return nil
	}
	// The record was added to the value that was read.
	s, ok, err := a.st.Get(k, from.start, from.end)
	if err != nil || !ok {
		return err
	}
	a.work = append(a.work, windowRow[A]{start: a.at + 1, cur: s})
	return nil
}

// fold computes a window's aggregate with the record.
func (a *slidingAgg[K, V, A, WK]) fold(c *Context, k K, v V, r *slidingRow[A], ok bool) {
	if r.end < a.open {
		return
	}
	s := r.s
	s.step(a.agg, c.Timestamp, ok, k, v)
	a.work = append(a.work, windowRow[A]{start: r.start, cur: s})
	a.added = true
}

// update stores what was planned, and then tells it.
func (a *slidingAgg[K, V, A, WK]) update(c *Context, k K) error {
	for i := range a.work {
		w := &a.work[i]
		var err error
		if a.agg.null.is(w.cur.v) {
			err = a.remove(k, w.start)
		} else {
			err = a.put(c, k, w)
		}
		if err != nil {
			return err
		}
	}
	if a.closings != nil {
		return nil
	}
	h := c.Headers
	for i := range a.work {
		w := &a.work[i]
		ch := Change[A]{Old: w.old, HasOld: w.hasOld}
		if !a.agg.null.is(w.cur.v) {
			ch.New, ch.HasNew = w.cur.v, true
		}
		c.Timestamp, c.Headers = w.cur.ts, h
		if err := a.next(c, a.key(k, record.Window{Start: w.start, End: w.start + a.diff}), ch); err != nil {
			return err
		}
	}
	return nil
}

func (a *slidingAgg[K, V, A, WK]) put(c *Context, k K, w *windowRow[A]) error {
	if a.closings != nil {
		if err := a.closings.add(c, k, w.start, w.start+a.diff); err != nil {
			return err
		}
	}
	return a.st.Put(k, w.start, w.start+a.diff, w.cur)
}

func (a *slidingAgg[K, V, A, WK]) remove(k K, start int64) error {
	if a.closings != nil {
		if err := a.closings.remove(k, start, start+a.diff); err != nil {
			return err
		}
	}
	return a.st.Delete(k, start, start+a.diff)
}

// sendClosed sends the result of a window that closed.
func (a *slidingAgg[K, V, A, WK]) sendClosed(c *Context, k K, start, end int64) error {
	s, ok, err := a.st.Get(k, start, end)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("store %q: the window from %d to %d, which closes, is not there", a.st.Name(), start, end)
	}
	c.Timestamp = s.ts
	return a.next(c, a.key(k, record.Window{Start: start, End: end}), Change[A]{New: s.v, HasNew: true})
}
