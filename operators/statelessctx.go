package operators

import "github.com/tidegate/tidegate/record"

// FilterCtx is Filter with context and error.
func FilterCtx[K, V any](f func(*record.RecordContext, K, V) (bool, error), keep bool) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := next[K, V](outs), b.id()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if !n.Value() {
				c.node = node
				ok, err := f(&c.RecordContext, k, v)
				if err != nil {
					return c.fail(KindUser, err)
				}
				if ok != keep {
					return nil
				}
			}
			return next(c, k, v, n)
		}), nil
	}
}

// MapValuesCtx is MapValues with context, key and error.
func MapValuesCtx[K, V, V2 any](f func(*record.RecordContext, K, V) (V2, error)) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := next[K, V2](outs), b.id()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			var v2 V2
			if !n.Value() {
				c.node = node
				var err error
				if v2, err = f(&c.RecordContext, k, v); err != nil {
					return c.fail(KindUser, err)
				}
			}
			return next(c, k, v2, n)
		}), nil
	}
}

// MapCtx is Map with context and error.
func MapCtx[K, V, K2, V2 any](f func(*record.RecordContext, K, V) (K2, V2, error)) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, m := next[K2, V2](outs), b.id(), b.g.env.Metrics()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Value() {
				m.NullDropped.Add(1)
				return nil
			}
			c.node = node
			k2, v2, err := f(&c.RecordContext, k, v)
			if err != nil {
				return c.fail(KindUser, err)
			}
			return next(c, k2, v2, 0)
		}), nil
	}
}

// SelectKeyCtx is SelectKey with context and error.
func SelectKeyCtx[K, V, K2 any](f func(*record.RecordContext, K, V) (K2, error)) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, m := next[K2, V](outs), b.id(), b.g.env.Metrics()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Value() {
				m.NullDropped.Add(1)
				return nil
			}
			c.node = node
			k2, err := f(&c.RecordContext, k, v)
			if err != nil {
				return c.fail(KindUser, err)
			}
			return next(c, k2, v, 0)
		}), nil
	}
}

// PeekCtx is Peek with context and error.
func PeekCtx[K, V any](f func(*record.RecordContext, K, V) error) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := next[K, V](outs), b.id()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if !n.Value() {
				c.node = node
				if err := f(&c.RecordContext, k, v); err != nil {
					return c.fail(KindUser, err)
				}
			}
			return next(c, k, v, n)
		}), nil
	}
}

// ForEachCtx is ForEach with context and error.
func ForEachCtx[K, V any](f func(*record.RecordContext, K, V) error) Factory { return PeekCtx(f) }
