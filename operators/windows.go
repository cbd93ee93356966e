package operators

import (
	"errors"
	"math"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// Windows are time windows in milliseconds: of fixed size unless Calendar or
// Unlimited says otherwise.
type Windows struct {
	// Advance 0 means Size: tumbling.
	Size, Grace, Advance int64
	// Calendar gives days or months.
	Calendar *Calendar
	// Unlimited is one window that begins at From and never ends.
	Unlimited bool
	From      int64
}

// own returns windows for the use of one task.
func (w Windows) own() Windows {
	if w.Calendar != nil {
		c := *w.Calendar
		w.Calendar = &c
	}
	return w
}

func (w *Windows) advance() int64 {
	if w.Advance > 0 {
		return w.Advance
	}
	return w.Size
}

// Operators reckon with times between these: any int64 may come as a record's
// timestamp, and window bounds and due times beyond it must not overflow. The
// record keeps its own.
const (
	maxTime = math.MaxInt64 / 4
	minTime = -maxTime
)

func clampTime(t int64) int64 { return min(max(t, minTime), maxTime) }

// floor is the largest multiple of step that is not above t.
func floor(t, step int64) int64 {
	r := t % step
	if r < 0 {
		r += step
	}
	return t - r
}

// first is the start of the first window that holds a time. Further ones are
// those of next up to the time itself. Windows that begin before the epoch hold
// only times before it, as with Kafka Streams, which has no such windows.
func (w *Windows) first(at int64) int64 {
	switch {
	case w.Calendar != nil:
		start, _ := w.Calendar.window(at)
		return start
	case w.Unlimited:
		return w.From
	}
	step := w.advance()
	start := floor(at-w.Size, step) + step
	if at >= 0 {
		start = max(start, 0)
	}
	return start
}

// next is the start of the window behind the one that begins at start.
func (w *Windows) next(start int64) int64 {
	switch {
	case w.Calendar != nil:
		return w.end(start)
	case w.Unlimited:
		return math.MaxInt64
	}
	return start + w.advance()
}

// end is the first millisecond that is not in the window any more.
func (w *Windows) end(start int64) int64 {
	switch {
	case w.Calendar != nil:
		_, end := w.Calendar.window(start)
		return end
	case w.Unlimited:
		return math.MaxInt64
	}
	return start + w.Size
}

// closed reports whether stream time passed the window's end plus grace.
func (w *Windows) closed(start, streamTime int64) bool {
	return !w.Unlimited && w.end(start) <= clampTime(streamTime)-w.Grace
}

// ended says which windows have ended at a time: those that begin before a
// start. The next one ends at next.
func (w *Windows) ended(at int64) (before, next int64) {
	switch {
	case w.Calendar != nil:
		return w.Calendar.window(at)
	case w.Unlimited:
		return math.MinInt64, math.MaxInt64
	}
	last := floor(at-w.Size, w.advance())
	return last + 1, last + w.advance() + w.Size
}

// expiry drops closed windows from a store when stream time closes new ones.
// Steps do not wait for it: they refuse a closed window by themselves.
type expiry struct {
	w       Windows
	drop    func(before int64) error
	dropped int64 // windows that begin before were dropped
	due     int64 // the stream time that closes the next window
}

func newExpiry(w Windows, drop func(before int64) error) *expiry {
	return &expiry{w: w.own(), drop: drop, dropped: math.MinInt64, due: 0}
}

func (e *expiry) advance(streamTime int64) error {
	if streamTime < e.due {
		return nil
	}
	before, next := e.w.ended(clampTime(streamTime) - e.w.Grace)
	if before > e.dropped {
		if err := e.drop(before); err != nil {
			return err
		}
		e.dropped = before
	}
	e.due = math.MaxInt64
	if next < math.MaxInt64 {
		e.due = next + e.w.Grace
	}
	return nil
}

// windowOpen opens the store of a windowed aggregation.
func windowOpen[K, A any](b *Build, name string, ks serde.Serde[K], as serde.Serde[A]) (*state.WindowStore[K, stamped[A]], error) {
	return openWindows[K, stamped[A]](b, name, ks, stampedSerde[A]{as})
}

// WindowedAggregation keeps one aggregate per key and window.
type WindowedAggregation[K, V, A, WK any] struct {
	Name  string
	W     Windows
	Key   serde.Serde[K]
	Value serde.Serde[A]
	Agg   Aggregator[K, V, A]
	Make  func(K, record.Window) WK
	Split func(WK) (K, record.Window)
	// OnClose: a result is sent once, when its window closes, instead of at every
	// update.
	OnClose bool
}

// Factory makes the step. Children that take a stream get the records that come
// too late for all of their windows.
func (d WindowedAggregation[K, V, A, WK]) Factory() Factory {
	return func(b *Build, outs []any) (any, error) {
		st, err := windowOpen(b, d.Name, d.Key, d.Value)
		if err != nil {
			return nil, err
		}
		tables, late := lateOuts[K, V](outs)
		a := &windowAgg[K, V, A, WK]{
			w: d.W.own(), agg: d.Agg, key: d.Make, st: st, keyNull: nullsOf(d.Key),
			next: nextChange[WK, A](tables), late: late, node: b.id(), m: b.g.env.Metrics(),
			sendOld: b.node.SendOld, onClose: d.OnClose,
		}
		a.revert = a.revertAll
		if d.OnClose {
			if _, err := st.Oldest(); err != nil {
				return nil, err
			}
			b.g.timers.closeBefore(a)
		}
		b.g.timers.expire(newExpiry(d.W, st.ExpireBefore))
		return Next[K, V](a.process), nil
	}
}

// lateOuts divides the children of a windowed step: those that take its table,
// and what sends late records to those that take a stream, nil without such.
func lateOuts[K, V any](outs []any) (tables []any, late Next[K, V]) {
	var streams []any
	for _, o := range outs {
		if _, ok := o.(Next[K, V]); ok {
			streams = append(streams, o)
		} else {
			tables = append(tables, o)
		}
	}
	if len(streams) > 0 {
		late = next[K, V](streams)
	}
	return tables, late
}

type windowAgg[K, V, A, WK any] struct {
	w       Windows
	agg     Aggregator[K, V, A]
	key     func(K, record.Window) WK
	st      *state.WindowStore[K, stamped[A]]
	keyNull nulls[K]
	next    NextChange[WK, A]
	late    Next[K, V]
	node    int32
	m       *Metrics
	sendOld bool
	onClose bool
	first   int64 // the oldest window when due was asked

	// The record in hand: its key, and its windows with their new aggregates.
	at     K
	work   []windowRow[A]
	revert func() (bool, error)
}

type windowRow[A any] struct {
	start  int64
	cur    stamped[A]
	old    A
	hasOld bool
}

// process first computes the aggregates of all windows and then stores and sends
// them: a failing aggregator leaves all of them as they were.
func (a *windowAgg[K, V, A, WK]) process(c *Context, k K, v V, n record.Null) error {
	if n != 0 || a.keyNull.is(k) || a.agg.skip.is(v) {
		a.m.NullDropped.Add(1)
		return nil
	}
	at := clampTime(c.Timestamp)
	a.at, a.work = k, a.work[:0]
	for start := a.w.first(at); start <= at; start = a.w.next(start) {
		if a.w.closed(start, c.StreamTime) {
			continue
		}
		if err := a.add(c, k, v, start); err != nil {
			return err
		}
	}
	if len(a.work) == 0 {
		a.m.late(clampTime(c.StreamTime) - at)
		if a.late != nil {
			return a.late(c, k, v, 0)
		}
		return nil
	}
	h := c.Headers
	for i := range a.work {
		c.Headers = h
		if err := a.update(c, k, &a.work[i]); err != nil {
			return err
		}
	}
	return nil
}

// add computes the aggregate of one window.
func (a *windowAgg[K, V, A, WK]) add(c *Context, k K, v V, start int64) error {
	a.work = append(a.work, windowRow[A]{start: start})
	r := &a.work[len(a.work)-1]
	if a.sendOld && !a.onClose {
		old, ok, err := a.st.GetOld(k, start)
		if err != nil {
			return err
		}
		r.old, r.hasOld = old.v, ok
	}
	cur, ok, err := a.st.Get(k, start)
	if err != nil {
		return err
	}
	c.node, c.revert = a.node, a.revert
	cur.step(a.agg, c.Timestamp, ok, k, v)
	c.revert = nil
	r.cur = cur
	return nil
}

// revertAll undoes what the aggregator did for the record in hand.
func (a *windowAgg[K, V, A, WK]) revertAll() (undone bool, err error) {
	undone = true
	for i := range a.work {
		ok, rerr := a.st.Revert(a.at, a.work[i].start)
		undone, err = undone && ok, errors.Join(err, rerr)
	}
	return undone, err
}

// update stores and sends the new aggregate of one window.
func (a *windowAgg[K, V, A, WK]) update(c *Context, k K, r *windowRow[A]) (err error) {
	ch := Change[A]{Old: r.old, HasOld: r.hasOld}
	if a.agg.null.is(r.cur.v) {
		err = a.st.Delete(k, r.start)
	} else {
		ch.New, ch.HasNew = r.cur.v, true
		err = a.st.Put(k, r.start, r.cur)
	}
	if err != nil {
		return err
	}
	if a.onClose {
		if r.start < a.first {
			c.g.timers.findDue()
		}
		return nil
	}
	c.Timestamp = r.cur.ts
	return a.next(c, a.key(k, record.Window{Start: r.start, End: a.w.end(r.start)}), ch)
}

// Getter looks rows up in the windowed table.
func (d WindowedAggregation[K, V, A, WK]) Getter() GetterFactory {
	return func(b *Build) (any, error) {
		st, err := windowOpen(b, d.Name, d.Key, d.Value)
		if err != nil {
			return nil, err
		}
		return Getter[WK, A](func(wk WK) (A, int64, bool, error) {
			k, w := d.Split(wk)
			s, ok, err := st.Get(k, w.Start)
			return s.v, s.ts, ok, err
		}), nil
	}
}
