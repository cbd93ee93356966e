package operators

import (
	"iter"

	"github.com/tidegate/tidegate/record"
)

// FlatMap replaces a record by a sequence; a tombstone is dropped.
func FlatMap[K, V, K2, V2 any](f func(K, V) iter.Seq2[K2, V2]) Factory {
	return FlatMapCtx(func(_ *record.RecordContext, k K, v V) (iter.Seq2[K2, V2], error) { return f(k, v), nil })
}

// FlatMapCtx is FlatMap with context and error.
func FlatMapCtx[K, V, K2, V2 any](f func(*record.RecordContext, K, V) (iter.Seq2[K2, V2], error)) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, m := next[K2, V2](outs), b.id(), b.g.env.Metrics()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Value() {
				m.NullDropped.Add(1)
				return nil
			}
			c.node = node
			seq, err := f(&c.RecordContext, k, v)
			if err != nil {
				return c.fail(KindUser, err)
			}
			if seq == nil {
				return nil
			}
			ts, h := c.Timestamp, c.Headers
			for k2, v2 := range seq {
				if err := next(c, k2, v2, 0); err != nil {
					return err
				}
				c.node, c.Timestamp, c.Headers = node, ts, h
			}
			return nil
		}), nil
	}
}

// FlatMapValues replaces a value by a sequence; a tombstone passes.
func FlatMapValues[K, V, V2 any](f func(V) iter.Seq[V2]) Factory {
	return FlatMapValuesCtx(func(_ *record.RecordContext, _ K, v V) (iter.Seq[V2], error) { return f(v), nil })
}

// FlatMapValuesCtx is FlatMapValues with context, key and error.
func FlatMapValuesCtx[K, V, V2 any](f func(*record.RecordContext, K, V) (iter.Seq[V2], error)) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := next[K, V2](outs), b.id()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Value() {
				var zero V2
				return next(c, k, zero, n)
			}
			c.node = node
			seq, err := f(&c.RecordContext, k, v)
			if err != nil {
				return c.fail(KindUser, err)
			}
			if seq == nil {
				return nil
			}
			ts, h := c.Timestamp, c.Headers
			for v2 := range seq {
				if err := next(c, k, v2, n); err != nil {
					return err
				}
				c.node, c.Timestamp, c.Headers = node, ts, h
			}
			return nil
		}), nil
	}
}
