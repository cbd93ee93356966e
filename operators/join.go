package operators

import (
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/topology"
)

// JoinTable joins a record with its row; records without one are dropped.
func JoinTable[K, V, VT, VR any](table *topology.Node, f func(V, VT) VR) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, m := next[K, VR](outs), b.id(), b.g.env.Metrics()
		get, err := getter[K, VT](b, table)
		if err != nil {
			return nil, err
		}
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n != 0 {
				m.NullDropped.Add(1)
				return nil
			}
			c.node = node
			row, _, ok, err := get(k)
			if err != nil || !ok {
				return err
			}
			return next(c, k, f(v, row), 0)
		}), nil
	}
}

// LeftJoinTable is JoinTable that keeps records without a row, and those with
// a null key.
func LeftJoinTable[K, V, VT, VR any](table *topology.Node, f func(V, record.Opt[VT]) VR) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, m := next[K, VR](outs), b.id(), b.g.env.Metrics()
		get, err := getter[K, VT](b, table)
		if err != nil {
			return nil, err
		}
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			if n.Value() {
				m.NullDropped.Add(1)
				return nil
			}
			c.node = node
			row := record.None[VT]()
			if !n.Key() {
				r, _, ok, err := get(k)
				if err != nil {
					return err
				}
				if ok {
					row = record.Some(r)
				}
			}
			return next(c, k, f(v, row), n)
		}), nil
	}
}
