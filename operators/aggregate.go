package operators

import (
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// Aggregator folds values into an aggregate.
type Aggregator[K, V, A any] struct {
	// first makes the aggregate from a key's first value, add from a later one.
	// A value that is a null of its type is skipped, an aggregate that is one
	// deletes.
	first func(K, V) A
	add   func(K, V, A) A
	skip  nulls[V]
	null  nulls[A]
}

// Count counts records. vs may be nil.
func Count[K, V any](vs serde.Serde[V]) Aggregator[K, V, int64] {
	a := Aggregator[K, V, int64]{
		first: func(K, V) int64 { return 1 },
		add:   func(_ K, _ V, n int64) int64 { return n + 1 },
	}
	if vs != nil {
		a.skip = nullsOf(vs)
	}
	return a
}

// Reduce keeps the first value and combines later ones with it.
func Reduce[K, V any](f func(agg, v V) V, vs serde.Serde[V]) Aggregator[K, V, V] {
	return Aggregator[K, V, V]{
		first: func(_ K, v V) V { return v },
		add:   func(_ K, v V, a V) V { return f(a, v) },
		skip:  nullsOf(vs), null: nullsOf(vs),
	}
}

// Aggregate begins with init. A result that is the null of its type deletes.
func Aggregate[K, V, A any](init func() A, add func(K, V, A) A, as serde.Serde[A]) Aggregator[K, V, A] {
	return Aggregator[K, V, A]{
		first: func(k K, v V) A { return add(k, v, init()) },
		add:   add, null: nullsOf(as),
	}
}

// Aggregation keeps one aggregate per key.
func Aggregation[K, V, A any](name string, ks serde.Serde[K], as serde.Serde[A], agg Aggregator[K, V, A]) Factory {
	keyNull := nullsOf(ks)
	return func(b *Build, outs []any) (any, error) {
		next, node, m, sendOld := nextChange[K, A](outs), b.id(), b.g.env.Metrics(), b.node.SendOld
		st, err := openTable(b, name, ks, as)
		if err != nil {
			return nil, err
		}
		var at K // the key that revert is about
		revert := func() (bool, error) { return st.Revert(at) }
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n != 0 || keyNull.is(k) || agg.skip.is(v) {
				m.NullDropped.Add(1)
				return nil
			}
			var ch Change[A]
			if sendOld {
				old, ok, err := st.GetOld(k)
				if err != nil {
					return err
				}
				ch.Old, ch.HasOld = old.v, ok
			}
			cur, ok, err := st.Get(k)
			if err != nil {
				return err
			}
			c.node, at, c.revert = node, k, revert
			cur.step(agg, c.Timestamp, ok, k, v)
			c.revert = nil
			if agg.null.is(cur.v) {
				err = st.Delete(k)
			} else {
				ch.New, ch.HasNew = cur.v, true
				err = st.Put(k, cur)
			}
			if err != nil {
				return err
			}
			c.Timestamp = cur.ts
			return next(c, k, ch)
		}), nil
	}
}

// step folds one value in. The aggregate's time is the largest timestamp of
// the records in it.
func (s *stamped[A]) step[K, V any](agg Aggregator[K, V, A], ts int64, ok bool, k K, v V) {
	if !ok {
		s.ts, s.v = ts, agg.first(k, v)
		return
	}
	s.ts, s.v = max(s.ts, ts), agg.add(k, v, s.v)
}
