package operators

import (
	"fmt"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// AsOf looks up the row of a versioned table that was valid at a time. What is
// older than the history at the stream time now is not there, whether or not it
// was expired already.
type AsOf[K, V any] func(k K, at, now int64) (v V, timestamp int64, ok bool, err error)

// AsOfFactory makes the AsOf of a versioned table.
type AsOfFactory func(b *Build) (any, error)

// asOf returns the AsOf of a versioned table's node.
func asOf[K, V any](b *Build, n *topology.Node) (AsOf[K, V], error) {
	f, ok := n.AsOf.(AsOfFactory)
	if !ok {
		return nil, fmt.Errorf("step %q is not a versioned table", n.Label())
	}
	a, err := f(b)
	if err != nil {
		return nil, fmt.Errorf("step %q: %w", n.Label(), err)
	}
	return a.(AsOf[K, V]), nil
}

// openVersioned returns the versioned store of that name, the same to all who
// ask; what is older than the history is dropped.
func openVersioned[K, V any](b *Build, name string, ks serde.Serde[K], vs serde.Serde[V], history int64) (*state.VersionedStore[K, V], error) {
	if s, ok := b.stores[name]; ok {
		return s.(*state.VersionedStore[K, V]), nil
	}
	kv, err := b.g.env.Store(name)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", name, err)
	}
	s, err := state.NewVersionedStore(name, kv, ks, vs, history, b.g.cache, b.storeOptions(name)...)
	if err != nil {
		return nil, err
	}
	b.stores[name] = s
	b.g.flush = append(b.g.flush, s.Flush)
	segment := state.VersionSegment(history)
	b.g.timers.expire(newExpiry(Windows{Size: segment - 1, Grace: history, Advance: segment}, s.ExpireBefore))
	return s, nil
}

// VersionedTable keeps the versions of each key's value. A record that is older
// than the history is dropped and counted late; one that is not the latest of
// its key changes the history, which is no change of the table's row.
func VersionedTable[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V], history int64) Factory {
	keyNull, valueNull := nullsOf(ks), nullsOf(vs)
	return func(b *Build, outs []any) (any, error) {
		next, m, sendOld := nextChange[K, V](outs), b.g.env.Metrics(), b.node.SendOld
		st, err := openVersioned(b, name, ks, vs, history)
		if err != nil {
			return nil, err
		}
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Key() || keyNull.is(k) {
				m.NullDropped.Add(1)
				return nil
			}
			var ch Change[V]
			if sendOld {
				if ch.Old, _, ch.HasOld, err = st.GetOld(k); err != nil {
					return err
				}
			}
			has := !n.Value() && !valueNull.is(v)
			end, ok, err := st.Put(k, v, has, c.Timestamp, c.StreamTime)
			switch {
			case err != nil:
				return err
			case !ok:
				m.late(clampTime(c.StreamTime) - clampTime(c.Timestamp))
				return nil
			case end != state.NoEnd:
				return nil
			}
			if has {
				ch.New, ch.HasNew = v, true
			}
			return next(c, k, ch)
		}), nil
	}
}

// VersionedGetter looks up the latest rows of a versioned table.
func VersionedGetter[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V], history int64) GetterFactory {
	return func(b *Build) (any, error) {
		st, err := openVersioned(b, name, ks, vs, history)
		if err != nil {
			return nil, err
		}
		return Getter[K, V](st.Get), nil
	}
}

// VersionedAsOf looks up rows of a versioned table as of a time.
func VersionedAsOf[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V], history int64) AsOfFactory {
	return func(b *Build) (any, error) {
		st, err := openVersioned(b, name, ks, vs, history)
		if err != nil {
			return nil, err
		}
		return AsOf[K, V](func(k K, at, now int64) (v V, ts int64, ok bool, err error) {
			return ReadAsOf(st, k, at, now)
		}), nil
	}
}

// ReadAsOf answers the same before and after the history was expired.
func ReadAsOf[K, V any](st *state.VersionedStore[K, V], k K, at, now int64) (v V, ts int64, ok bool, err error) {
	if at = clampTime(at); at >= st.Oldest(now) {
		return st.GetAsOf(k, at)
	}
	if v, ts, ok, err = st.Get(k); err != nil || !ok || ts > at {
		var zero V
		return zero, 0, false, err
	}
	return v, ts, true, nil
}

// TableFilterAsOf is the look-up of a filtered versioned table.
func TableFilterAsOf[K, V any](parent *topology.Node, f func(K, V) bool) AsOfFactory {
	return func(b *Build) (any, error) {
		get, err := asOf[K, V](b, parent)
		if err != nil {
			return nil, err
		}
		return AsOf[K, V](func(k K, at, now int64) (V, int64, bool, error) {
			v, ts, ok, err := get(k, at, now)
			if err != nil || !ok || !f(k, v) {
				var zero V
				return zero, 0, false, err
			}
			return v, ts, true, nil
		}), nil
	}
}

// TableMapValuesAsOf is the look-up of a mapped versioned table.
func TableMapValuesAsOf[K, V, V2 any](parent *topology.Node, f func(K, V) V2) AsOfFactory {
	return func(b *Build) (any, error) {
		get, err := asOf[K, V](b, parent)
		if err != nil {
			return nil, err
		}
		return AsOf[K, V2](func(k K, at, now int64) (V2, int64, bool, error) {
			v, ts, ok, err := get(k, at, now)
			if err != nil || !ok {
				var zero V2
				return zero, 0, false, err
			}
			return f(k, v), ts, true, nil
		}), nil
	}
}
