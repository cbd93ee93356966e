package operators

import (
	"fmt"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// SessionAggregator folds values into sessions and sessions into each other.
type SessionAggregator[K, V, A any] struct {
	Aggregator[K, V, A]
	// begin makes the aggregate into which the first session is merged; nil lets
	// the first session be that.
	begin func() A
	merge func(K, A, A) A
}

// SessionCount counts records. vs may be nil.
func SessionCount[K, V any](vs serde.Serde[V]) SessionAggregator[K, V, int64] {
	return SessionAggregator[K, V, int64]{
		Aggregator: Count[K](vs), merge: func(_ K, a, b int64) int64 { return a + b },
	}
}

// SessionReduce combines values, and sessions, with f.
func SessionReduce[K, V any](f func(agg, v V) V, vs serde.Serde[V]) SessionAggregator[K, V, V] {
	return SessionAggregator[K, V, V]{
		Aggregator: Reduce[K](f, vs), merge: func(_ K, a, b V) V { return f(a, b) },
	}
}

// SessionAggregate begins with init, merges sessions and adds the value.
func SessionAggregate[K, V, A any](
	init func() A, add func(K, V, A) A, merge func(K, A, A) A, as serde.Serde[A],
) SessionAggregator[K, V, A] {
	return SessionAggregator[K, V, A]{Aggregator: Aggregate(init, add, as), begin: init, merge: merge}
}

// SessionAggregation keeps one aggregate per key and session. A session takes
// the records of a key that are at most Gap milliseconds from another of its
// records.
//
// A session is closed when stream time is more than Gap + Grace behind its end.
// A record that only touches closed sessions, or none and is itself that old, is
// late. One that is not may still bring a closed session back that is not more
// than another Gap older; it is kept for so long. With OnClose it may not, since
// the result was sent.
type SessionAggregation[K, V, A, WK any] struct {
	Name       string
	Gap, Grace int64
	Key        serde.Serde[K]
	Value      serde.Serde[A]
	Agg        SessionAggregator[K, V, A]
	Make       func(K, record.Window) WK
	Split      func(WK) (K, record.Window)
	OnClose    bool
}

// Stores returns the definitions of the stores.
func (d SessionAggregation[K, V, A, WK]) Stores(key, value topology.Serde, site topology.Site) []topology.Store {
	out := []topology.Store{{
		Name: d.Name, Format: FormatSessions, Key: key, Value: value, Site: site,
		GraceMs: d.Grace, Windows: fmt.Sprintf("sessions with a gap of %d ms", d.Gap),
	}}
	if d.OnClose {
		out = append(out, closingStore(d.Name, key, site))
	}
	return out
}

// wait is how far stream time is behind the end of a session that is not closed
// yet, at most.
func (d SessionAggregation[K, V, A, WK]) wait() int64 { return d.Gap + d.Grace }

// SpanSegment is the segment length of a store of spans in which a look-up
// reaches that far to both sides and whose spans are kept for that long.
func SpanSegment(reach, kept int64) int64 { return max(2*reach+2, kept/8, minSegment) }

func (d SessionAggregation[K, V, A, WK]) open(b *Build) (*state.SessionStore[K, A], error) {
	return openSpans(b, d.Name, d.Key, d.Value, SpanSegment(d.Gap, d.wait()))
}

// openSpans opens a session store, the same for all who ask.
func openSpans[K, V any](b *Build, name string, ks serde.Serde[K], vs serde.Serde[V], segment int64) (*state.SessionStore[K, V], error) {
	if s, ok := b.stores[name]; ok {
		return s.(*state.SessionStore[K, V]), nil
	}
	kv, err := b.g.env.Store(name)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", name, err)
	}
	s, err := state.NewSessionStore(name, kv, ks, vs, segment)
	if err != nil {
		return nil, err
	}
	b.stores[name] = s
	return s, nil
}

// Factory makes the step; see WindowedAggregation.Factory.
func (d SessionAggregation[K, V, A, WK]) Factory() Factory {
	return func(b *Build, outs []any) (any, error) {
		st, err := d.open(b)
		if err != nil {
			return nil, err
		}
		tables, late := lateOuts[K, V](outs)
		a := &sessionAgg[K, V, A, WK]{
			gap: d.Gap, wait: d.wait(), agg: d.Agg, key: d.Make, st: st, keyNull: nullsOf(d.Key),
			next: nextChange[WK, A](tables), late: late, node: b.id(), m: b.g.env.Metrics(),
			sendOld: b.node.SendOld,
		}
		a.collect = a.found
		if d.OnClose {
			if a.closings, err = openClosings(b, d.Name, d.Key, d.wait(), a.sendClosed); err != nil {
				return nil, err
			}
		}
		b.g.timers.expire(newExpiry(
			Windows{Size: 2 * d.Gap, Grace: d.Grace, Advance: SpanSegment(d.Gap, d.wait())}, st.ExpireBefore,
		))
		return Next[K, V](a.process), nil
	}
}

// Getter looks rows up in the table of sessions.
func (d SessionAggregation[K, V, A, WK]) Getter() GetterFactory {
	return func(b *Build) (any, error) {
		st, err := d.open(b)
		if err != nil {
			return nil, err
		}
		return Getter[WK, A](func(wk WK) (A, int64, bool, error) {
			k, w := d.Split(wk)
			v, ok, err := st.Get(k, w.Start, w.End)
			return v, w.End, ok, err
		}), nil
	}
}

type sessionAgg[K, V, A, WK any] struct {
	gap, wait int64
	agg       SessionAggregator[K, V, A]
	key       func(K, record.Window) WK
	st        *state.SessionStore[K, A]
	closings  *closings[K] // nil unless on close
	keyNull   nulls[K]
	next      NextChange[WK, A]
	late      Next[K, V]
	node      int32
	m         *Metrics
	sendOld   bool

	// The record in hand: the sessions that it touches, and all of them and it as
	// one.
	touched    []session[A]
	start, end int64
	collect    func(start, end int64, v A) (bool, error)
}

type session[A any] struct {
	start, end int64
	v          A
}

func (a *sessionAgg[K, V, A, WK]) found(start, end int64, v A) (bool, error) {
	a.touched = append(a.touched, session[A]{start, end, v})
	a.start, a.end = min(a.start, start), max(a.end, end)
	return true, nil
}

func (a *sessionAgg[K, V, A, WK]) process(c *Context, k K, v V, n record.Null) error {
	if n != 0 || a.keyNull.is(k) || a.agg.skip.is(v) {
		a.m.NullDropped.Add(1)
		return nil
	}
	at := clampTime(c.Timestamp)
	open := clampTime(c.StreamTime) - a.wait // sessions that end earlier are closed
	from := max(at-a.gap, open-a.gap)
	if a.closings != nil {
		from = max(from, open)
	}
	a.touched, a.start, a.end = a.touched[:0], at, at
	if err := a.st.Find(k, from, at+a.gap, a.collect); err != nil {
		return err
	}
	if a.end < open {
		a.m.late(clampTime(c.StreamTime) - at)
		if a.late != nil {
			return a.late(c, k, v, 0)
		}
		return nil
	}
	c.node = a.node
	agg := a.fold(k, v)
	return a.update(c, k, agg)
}

// fold makes the aggregate of the touched sessions and the value. It changes
// nothing but values of its own, so that a failure leaves the store as it was.
func (a *sessionAgg[K, V, A, WK]) fold(k K, v V) A {
	if len(a.touched) == 0 {
		return a.agg.first(k, v)
	}
	rest := a.touched
	var agg A
	if a.agg.begin != nil {
		agg = a.agg.begin()
	} else {
		agg, rest = rest[0].v, rest[1:]
	}
	for i := range rest {
		agg = a.agg.merge(k, agg, rest[i].v)
	}
	return a.agg.add(k, v, agg)
}

// update replaces the touched sessions by the merged one in the store, and then
// tells it.
func (a *sessionAgg[K, V, A, WK]) update(c *Context, k K, agg A) error {
	for i := range a.touched {
		s := &a.touched[i]
		if a.sendOld && a.closings == nil {
			// Merging may have changed the value that was found.
			v, _, err := a.st.Get(k, s.start, s.end)
			if err != nil {
				return err
			}
			s.v = v
		}
		if s.start == a.start && s.end == a.end {
			continue
		}
		if err := a.remove(k, s.start, s.end); err != nil {
			return err
		}
	}
	if err := a.put(c, k, agg); err != nil || a.closings != nil {
		return err
	}
	return a.tell(c, k, agg)
}

// tell sends that the touched sessions are gone, and the merged one: as with
// Kafka Streams also when it is one of them, unless it is of a single moment.
func (a *sessionAgg[K, V, A, WK]) tell(c *Context, k K, agg A) error {
	h := c.Headers
	var ch Change[A]
	for i := range a.touched {
		s := &a.touched[i]
		var gone Change[A]
		if a.sendOld {
			gone.Old, gone.HasOld = s.v, true
		}
		if a.start == a.end {
			ch = gone
			continue
		}
		c.Timestamp, c.Headers = s.end, h
		if err := a.next(c, a.key(k, record.Window{Start: s.start, End: s.end}), gone); err != nil {
			return err
		}
	}
	if !a.agg.null.is(agg) {
		ch.New, ch.HasNew = agg, true
	}
	c.Timestamp, c.Headers = a.end, h
	return a.next(c, a.key(k, record.Window{Start: a.start, End: a.end}), ch)
}

func (a *sessionAgg[K, V, A, WK]) remove(k K, start, end int64) error {
	if a.closings != nil {
		if err := a.closings.remove(k, start, end); err != nil {
			return err
		}
	}
	return a.st.Delete(k, start, end)
}

// put stores the merged session, or deletes it if its aggregate is null.
func (a *sessionAgg[K, V, A, WK]) put(c *Context, k K, agg A) error {
	if a.agg.null.is(agg) {
		return a.remove(k, a.start, a.end)
	}
	if a.closings != nil {
		if err := a.closings.add(c, k, a.start, a.end); err != nil {
			return err
		}
	}
	return a.st.Put(k, a.start, a.end, agg)
}

// sendClosed sends the result of a session that closed.
func (a *sessionAgg[K, V, A, WK]) sendClosed(c *Context, k K, start, end int64) error {
	v, ok, err := a.st.Get(k, start, end)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("store %q: the session from %d to %d, which closes, is not there", a.st.Name(), start, end)
	}
	return a.next(c, a.key(k, record.Window{Start: start, End: end}), Change[A]{New: v, HasNew: true})
}
