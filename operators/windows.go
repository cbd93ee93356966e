package operators

import (
	"math"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// Windows are time windows in milliseconds. Advance 0 means Size: tumbling.
type Windows struct {
	Size, Grace, Advance int64
}

func (w Windows) advance() int64 {
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

// closed reports whether stream time passed the window's end plus grace.
func (w Windows) closed(start, streamTime int64) bool {
	return start <= clampTime(streamTime)-w.Grace-w.Size
}

// expiry drops closed windows from a store when stream time closes new ones.
// Steps do not wait for it: they refuse a closed window by themselves.
type expiry struct {
	w       Windows
	drop    func(before int64) error
	dropped int64 // the largest start that was dropped
	due     int64 // the stream time that closes the next window
}

func newExpiry(w Windows, drop func(before int64) error) *expiry {
	return &expiry{w: w, drop: drop, dropped: math.MinInt64, due: 0}
}

func (e *expiry) advance(streamTime int64) error {
	if streamTime < e.due {
		return nil
	}
	streamTime = clampTime(streamTime)
	step := e.w.advance()
	last := floor(streamTime-e.w.Grace-e.w.Size, step)
	if last > e.dropped {
		if err := e.drop(last + 1); err != nil {
			return err
		}
		e.dropped = last
	}
	e.due = last + step + e.w.Size + e.w.Grace
	return nil
}

// windowOpen opens the store of a windowed aggregation.
func windowOpen[K, A any](b *Build, name string, ks serde.Serde[K], as serde.Serde[A]) (*state.WindowStore[K, stamped[A]], error) {
	return openWindows[K, stamped[A]](b, name, ks, stampedSerde[A]{as})
}

// WindowedAggregation keeps one aggregate per key and window.
func WindowedAggregation[K, V, A, WK any](
	name string, w Windows, ks serde.Serde[K], as serde.Serde[A], agg Aggregator[K, V, A],
	key func(K, record.Window) WK,
) Factory {
	return func(b *Build, outs []any) (any, error) {
		st, err := windowOpen(b, name, ks, as)
		if err != nil {
			return nil, err
		}
		a := &windowAgg[K, V, A, WK]{
			w: w, agg: agg, key: key, st: st, keyNull: nullsOf(ks),
			next: nextChange[WK, A](outs), node: b.id(), m: b.g.env.Metrics(),
			sendOld: b.node.SendOld,
		}
		a.revert = func() (bool, error) { return st.Revert(a.at, a.atStart) }
		b.g.timers.expire(newExpiry(w, st.ExpireBefore))
		return Next[K, V](a.process), nil
	}
}

type windowAgg[K, V, A, WK any] struct {
	w       Windows
	agg     Aggregator[K, V, A]
	key     func(K, record.Window) WK
	st      *state.WindowStore[K, stamped[A]]
	keyNull nulls[K]
	next    NextChange[WK, A]
	node    int32
	m       *Metrics
	sendOld bool

	at      K // what revert is about
	atStart int64
	revert  func() (bool, error)
}

func (a *windowAgg[K, V, A, WK]) process(c *Context, k K, v V, n record.Null) error {
	if n != 0 || a.keyNull.is(k) || a.agg.skip.is(v) {
		a.m.NullDropped.Add(1)
		return nil
	}
	ts, h := c.Timestamp, c.Headers
	step := a.w.advance()
	at := clampTime(ts)
	last := floor(at, step)
	if a.w.closed(last, c.StreamTime) {
		a.m.late(clampTime(c.StreamTime) - at)
		return nil
	}
	for start := floor(at-a.w.Size, step) + step; start <= last; start += step {
		if a.w.closed(start, c.StreamTime) {
			continue
		}
		c.Timestamp, c.Headers = ts, h
		if err := a.update(c, k, v, start); err != nil {
			return err
		}
	}
	return nil
}

func (a *windowAgg[K, V, A, WK]) update(c *Context, k K, v V, start int64) error {
	var ch Change[A]
	if a.sendOld {
		old, ok, err := a.st.GetOld(k, start)
		if err != nil {
			return err
		}
		ch.Old, ch.HasOld = old.v, ok
	}
	cur, ok, err := a.st.Get(k, start)
	if err != nil {
		return err
	}
	c.node, a.at, a.atStart, c.revert = a.node, k, start, a.revert
	cur.step(a.agg, c.Timestamp, ok, k, v)
	c.revert = nil
	if a.agg.null.is(cur.v) {
		err = a.st.Delete(k, start)
	} else {
		ch.New, ch.HasNew = cur.v, true
		err = a.st.Put(k, start, cur)
	}
	if err != nil {
		return err
	}
	c.Timestamp = cur.ts
	return a.next(c, a.key(k, record.Window{Start: start, End: start + a.w.Size}), ch)
}

// WindowedGetter looks rows up in a windowed table.
func WindowedGetter[K, A, WK any](
	name string, _ Windows, ks serde.Serde[K], as serde.Serde[A], split func(WK) (K, record.Window),
) GetterFactory {
	return func(b *Build) (any, error) {
		st, err := windowOpen(b, name, ks, as)
		if err != nil {
			return nil, err
		}
		return Getter[WK, A](func(wk WK) (A, int64, bool, error) {
			k, w := split(wk)
			s, ok, err := st.Get(k, w.Start)
			return s.v, s.ts, ok, err
		}), nil
	}
}
