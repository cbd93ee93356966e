package operators

import "github.com/tidegate/tidegate/record"

// The plain forms call the user's function alone; the Ctx forms are in
// statelessctx.go. Each notes its node first, so that a panic can be
// attributed.

// Filter passes the records for which f is keep; a tombstone passes.
func Filter[K, V any](f func(K, V) bool, keep bool) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := next[K, V](outs), b.id()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if !n.Value() {
				c.node = node
				if f(k, v) != keep {
					return nil
				}
			}
			return next(c, k, v, n)
		}), nil
	}
}

// MapValues replaces the value; a tombstone passes.
func MapValues[K, V, V2 any](f func(V) V2) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := next[K, V2](outs), b.id()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			var v2 V2
			if !n.Value() {
				c.node = node
				v2 = f(v)
			}
			return next(c, k, v2, n)
		}), nil
	}
}

// Map replaces key and value; a tombstone has no new key and is dropped.
func Map[K, V, K2, V2 any](f func(K, V) (K2, V2)) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, m := next[K2, V2](outs), b.id(), b.g.env.Metrics()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Value() {
				m.NullDropped.Add(1)
				return nil
			}
			c.node = node
			k2, v2 := f(k, v)
			return next(c, k2, v2, 0)
		}), nil
	}
}

// SelectKey replaces the key; a tombstone has no new key and is dropped.
func SelectKey[K, V, K2 any](f func(K, V) K2) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, m := next[K2, V](outs), b.id(), b.g.env.Metrics()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Value() {
				m.NullDropped.Add(1)
				return nil
			}
			c.node = node
			return next(c, f(k, v), v, 0)
		}), nil
	}
}

// Peek calls f and passes the record on.
func Peek[K, V any](f func(K, V)) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := next[K, V](outs), b.id()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if !n.Value() {
				c.node = node
				f(k, v)
			}
			return next(c, k, v, n)
		}), nil
	}
}

// ForEach calls f.
func ForEach[K, V any](f func(K, V)) Factory { return Peek(f) }

// Merge passes records on, whichever parent they come from.
func Merge[K, V any]() Factory {
	return func(_ *Build, outs []any) (any, error) { return next[K, V](outs), nil }
}

// Branches are the predicates of a split, in the order of its children. The
// DSL fills it while branches are described.
type Branches[K, V any] struct {
	Preds []func(K, V) bool
	// Ctx are those with context and error, where Preds has nil.
	Ctx []func(*record.RecordContext, K, V) (bool, error)
	// Default is the index of the branch for the rest, −1 when there is none.
	Default int
}

// Split sends a record to the first branch whose predicate is true, else to
// the default branch, and a tombstone to all.
func Split[K, V any](br *Branches[K, V]) Factory {
	return func(b *Build, outs []any) (any, error) {
		all, node := next[K, V](outs), b.id()
		nexts := make([]Next[K, V], len(outs))
		for i, o := range outs {
			nexts[i] = o.(Next[K, V])
		}
		preds, ctx, def := br.Preds, br.Ctx, br.Default
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Value() {
				return all(c, k, v, n)
			}
			c.node = node
			for i, p := range preds {
				switch {
				case p != nil:
					if p(k, v) {
						return nexts[i](c, k, v, n)
					}
				case ctx[i] != nil:
					hit, err := ctx[i](&c.RecordContext, k, v)
					if err != nil {
						return c.fail(KindUser, err)
					}
					if hit {
						return nexts[i](c, k, v, n)
					}
				}
			}
			if def >= 0 {
				return nexts[def](c, k, v, n)
			}
			return nil
		}), nil
	}
}
