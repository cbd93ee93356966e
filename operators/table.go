package operators

import (
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

func openTable[K, V any](b *Build, name string, ks serde.Serde[K], vs serde.Serde[V]) (*state.KVStore[K, stamped[V]], error) {
	return openKV[K, stamped[V]](b, name, ks, stampedSerde[V]{vs})
}

// Table keeps the last value per key. Updates are taken in the order in which
// they arrive, whatever their timestamps.
func Table[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) Factory {
	keyNull, valueNull := nullsOf(ks), nullsOf(vs)
	return func(b *Build, outs []any) (any, error) {
		next, m, sendOld := nextChange[K, V](outs), b.g.env.Metrics(), b.node.SendOld
		st, err := openTable(b, name, ks, vs)
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
				old, ok, err := st.GetOld(k)
				if err != nil {
					return err
				}
				ch.Old, ch.HasOld = old.v, ok
			}
			if n.Value() || valueNull.is(v) {
				err = st.Delete(k)
			} else {
				ch.New, ch.HasNew = v, true
				err = st.Put(k, stamped[V]{c.Timestamp, v})
			}
			if err != nil {
				return err
			}
			return next(c, k, ch)
		}), nil
	}
}

// TableGetter looks rows up in a table's store.
func TableGetter[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) GetterFactory {
	return func(b *Build) (any, error) {
		st, err := openTable(b, name, ks, vs)
		if err != nil {
			return nil, err
		}
		return Getter[K, V](func(k K) (V, int64, bool, error) {
			s, ok, err := st.Get(k)
			return s.v, s.ts, ok, err
		}), nil
	}
}

// ToStream turns updates into records with the new value.
func ToStream[K, V any](vs serde.Serde[V]) Factory {
	valueNull := nulls[V]{}
	if vs != nil {
		valueNull = nullsOf(vs)
	}
	return func(_ *Build, outs []any) (any, error) {
		next := next[K, V](outs)
		return NextChange[K, V](func(c *Context, k K, ch Change[V]) error {
			if ch.HasNew {
				return next(c, k, ch.New, 0)
			}
			v, n := valueNull.null(record.ValueNull)
			return next(c, k, v, n)
		}), nil
	}
}

// TableFilter passes the rows for which f is true; others are absent.
func TableFilter[K, V any](f func(K, V) bool) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, sendOld := nextChange[K, V](outs), b.id(), b.node.SendOld
		return NextChange[K, V](func(c *Context, k K, ch Change[V]) error {
			c.node = node
			var zero V
			if ch.HasNew && !f(k, ch.New) {
				ch.New, ch.HasNew = zero, false
			}
			if ch.HasOld && !f(k, ch.Old) {
				ch.Old, ch.HasOld = zero, false
			}
			if sendOld && !ch.HasNew && !ch.HasOld {
				return nil // was not in the table and is not now
			}
			return next(c, k, ch)
		}), nil
	}
}

// TableFilterGetter is the look-up of a filtered table.
func TableFilterGetter[K, V any](parent *topology.Node, f func(K, V) bool) GetterFactory {
	return func(b *Build) (any, error) {
		get, err := getter[K, V](b, parent)
		if err != nil {
			return nil, err
		}
		return Getter[K, V](func(k K) (V, int64, bool, error) {
			v, ts, ok, err := get(k)
			if err != nil || !ok || !f(k, v) {
				var zero V
				return zero, 0, false, err
			}
			return v, ts, true, nil
		}), nil
	}
}

// TableMapValues replaces the values of rows.
func TableMapValues[K, V, V2 any](f func(V) V2) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := nextChange[K, V2](outs), b.id()
		return NextChange[K, V](func(c *Context, k K, ch Change[V]) error {
			c.node = node
			ch2 := Change[V2]{HasNew: ch.HasNew, HasOld: ch.HasOld}
			if ch.HasNew {
				ch2.New = f(ch.New)
			}
			if ch.HasOld {
				ch2.Old = f(ch.Old)
			}
			return next(c, k, ch2)
		}), nil
	}
}

// TableMapValuesGetter is the look-up of a mapped table.
func TableMapValuesGetter[K, V, V2 any](parent *topology.Node, f func(V) V2) GetterFactory {
	return func(b *Build) (any, error) {
		get, err := getter[K, V](b, parent)
		if err != nil {
			return nil, err
		}
		return Getter[K, V2](func(k K) (V2, int64, bool, error) {
			v, ts, ok, err := get(k)
			if err != nil || !ok {
				var zero V2
				return zero, 0, false, err
			}
			return f(v), ts, true, nil
		}), nil
	}
}
