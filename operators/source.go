package operators

import (
	"fmt"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// Source decodes the records of a topic.
func Source[K, V any](ks serde.Serde[K], vs serde.Serde[V]) Factory {
	keyNull, valueNull := nullsOf(ks), nullsOf(vs)
	return func(b *Build, outs []any) (any, error) {
		next, node, g := next[K, V](outs), b.id(), b.g
		return SourceFunc(func(c *Context, r *record.Raw) error {
			g.cur, c.g, c.node = c, g, node
			c.Offset, c.Timestamp, c.Headers = r.Offset, r.Timestamp, r.Headers
			var (
				k   K
				v   V
				n   record.Null
				err error
			)
			if r.Key == nil {
				k, n = keyNull.null(record.KeyNull)
			} else if k, err = ks.Decode(r.Key); err != nil {
				return c.failAt(node, KindDecode, fmt.Errorf("key: %w", err))
			}
			if r.Value == nil {
				var flag record.Null
				v, flag = valueNull.null(record.ValueNull)
				n |= flag
			} else if v, err = vs.Decode(r.Value); err != nil {
				return c.failAt(node, KindDecode, fmt.Errorf("value: %w", err))
			}
			return next(c, k, v, n)
		}), nil
	}
}
