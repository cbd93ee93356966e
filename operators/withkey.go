package operators

import (
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/topology"
)

// MapValuesWithKey is MapValues with the key.
func MapValuesWithKey[K, V, V2 any](f func(K, V) V2) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := next[K, V2](outs), b.id()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			var v2 V2
			if !n.Value() {
				c.node = node
				v2 = f(k, v)
			}
			return next(c, k, v2, n)
		}), nil
	}
}

// TableMapValuesWithKey is TableMapValues with the key.
func TableMapValuesWithKey[K, V, V2 any](f func(K, V) V2) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := nextChange[K, V2](outs), b.id()
		return NextChange[K, V](func(c *Context, k K, ch Change[V]) error {
			c.node = node
			ch2 := Change[V2]{HasNew: ch.HasNew, HasOld: ch.HasOld}
			if ch.HasNew {
				ch2.New = f(k, ch.New)
			}
			if ch.HasOld {
				ch2.Old = f(k, ch.Old)
			}
			return next(c, k, ch2)
		}), nil
	}
}

// TableMapValuesWithKeyGetter is the look-up of such a table.
func TableMapValuesWithKeyGetter[K, V, V2 any](parent *topology.Node, f func(K, V) V2) GetterFactory {
	return func(b *Build) (any, error) {
		get, err := getter[K, V](b, parent)
		if err != nil {
			return nil, err
		}
		return Getter[K, V2](func(k K) (v2 V2, ts int64, ok bool, err error) {
			v, ts, ok, err := get(k)
			if err != nil || !ok {
				return v2, 0, false, err
			}
			return f(k, v), ts, true, nil
		}), nil
	}
}

// Each calls f for every record, tombstones too, and ends the stream.
func Each[K, V any](f func(K, V, record.Null) error) Factory {
	return func(b *Build, _ []any) (any, error) {
		node := b.id()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			c.node = node
			if err := f(k, v, n); err != nil {
				return c.fail(KindUser, err)
			}
			return nil
		}), nil
	}
}
