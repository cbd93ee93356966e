package operators

import (
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// TableJoin joins two tables by their keys. It keeps nothing: a row of the
// result follows from the two rows of its key, so the result's [Getter] and its
// old values are computed.
type TableJoin[K, V, VO, VR any] struct {
	Left, Right *topology.Node
	Both        func(V, VO) VR
	// LeftOnly and RightOnly make the result of a row without a partner; nil
	// where such a row is not in the result.
	LeftOnly  func(V) VR
	RightOnly func(VO) VR
	// Dependent: a change of one table may come from a change of the other, whose
	// row is then already newer than what the result was made of.
	Dependent bool
}

// exists reports whether the result may have had a row, given which sides had
// one. Of dependent sides one cannot know that: both rows of a key go at once,
// and each side, when it hears of it, no longer finds the other's.
func (j TableJoin[K, V, VO, VR]) exists(left, right bool) bool {
	return j.Dependent || left && right || left && j.LeftOnly != nil || right && j.RightOnly != nil
}

// row is the result's row of the two sides' rows.
func (j TableJoin[K, V, VO, VR]) row(l V, left bool, r VO, right bool) (vr VR, ok bool) {
	switch {
	case left && right:
		return j.Both(l, r), true
	case left && j.LeftOnly != nil:
		return j.LeftOnly(l), true
	case right && j.RightOnly != nil:
		return j.RightOnly(r), true
	}
	return vr, false
}

// LeftSide takes the changes of the left table.
func (j TableJoin[K, V, VO, VR]) LeftSide() Factory {
	return tableJoinSide[K, V](j.Right, j.exists, j.row)
}

// RightSide takes the changes of the right table.
func (j TableJoin[K, V, VO, VR]) RightSide() Factory {
	return tableJoinSide[K, VO](j.Left, func(right, left bool) bool { return j.exists(left, right) },
		func(r VO, right bool, l V, left bool) (VR, bool) { return j.row(l, left, r, right) })
}

// tableJoinSide joins the changes of one table with the present rows of
// another. The result's time is the later of the two rows'.
func tableJoinSide[K, A, B, VR any](
	other *topology.Node, exists func(own, other bool) bool, row func(A, bool, B, bool) (VR, bool),
) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, sendOld, wantsOld := nextChange[K, VR](outs), b.id(), b.node.SendOld, b.node.WantsOld
		get, err := getter[K, B](b, other)
		if err != nil {
			return nil, err
		}
		return NextChange[K, A](func(c *Context, k K, ch Change[A]) error {
			o, ots, has, err := get(k)
			if err != nil {
				return err
			}
			c.node = node
			var res Change[VR]
			res.New, res.HasNew = row(ch.New, ch.HasNew, o, has)
			var gone bool
			switch {
			case sendOld:
				res.Old, res.HasOld = row(ch.Old, ch.HasOld, o, has)
				gone = res.HasOld || exists(false, false)
			case wantsOld:
				gone = exists(ch.HasOld, has)
			default: // as if the row had been there
				gone = exists(true, has)
			}
			if !res.HasNew && !gone {
				return nil // was not in the result and is not now
			}
			if has {
				c.Timestamp = max(c.Timestamp, ots)
			}
			return next(c, k, res)
		}), nil
	}
}

// SelfJoin joins a table with itself: one change of it is one change of the
// result.
func (j TableJoin[K, V, VO, VR]) SelfJoin(same func(V) VO) Factory {
	return TableMapValues[K](func(v V) VR { return j.Both(v, same(v)) })
}

// SelfGetter is the look-up of a table joined with itself.
func (j TableJoin[K, V, VO, VR]) SelfGetter(same func(V) VO) GetterFactory {
	return TableMapValuesGetter[K](j.Left, func(v V) VR { return j.Both(v, same(v)) })
}

// Getter computes rows of the result.
func (j TableJoin[K, V, VO, VR]) Getter() GetterFactory {
	return func(b *Build) (any, error) {
		left, err := getter[K, V](b, j.Left)
		if err != nil {
			return nil, err
		}
		right, err := getter[K, VO](b, j.Right)
		if err != nil {
			return nil, err
		}
		return Getter[K, VR](func(k K) (vr VR, ts int64, ok bool, err error) {
			l, lts, hasLeft, err := left(k)
			if err != nil {
				return vr, 0, false, err
			}
			r, rts, hasRight, err := right(k)
			if err != nil {
				return vr, 0, false, err
			}
			if vr, ok = j.row(l, hasLeft, r, hasRight); !ok {
				return vr, 0, false, nil
			}
			switch {
			case !hasLeft:
				ts = rts
			case !hasRight:
				ts = lts
			default:
				ts = max(lts, rts)
			}
			return vr, ts, true, nil
		}), nil
	}
}

// MergeChanges passes changes on, whichever parent they come from.
func MergeChanges[K, V any]() Factory {
	return func(_ *Build, outs []any) (any, error) { return nextChange[K, V](outs), nil }
}

// Materialize keeps the rows of a table that has no store of its own. Its old
// values come from its store, not from its parents.
func Materialize[K, V any](name string, ks serde.Serde[K], vs serde.Serde[V]) Factory {
	valueNull := nullsOf(vs)
	return func(b *Build, outs []any) (any, error) {
		next, sendOld := nextChange[K, V](outs), b.node.SendOld
		st, err := openTable(b, name, ks, vs)
		if err != nil {
			return nil, err
		}
		return NextChange[K, V](func(c *Context, k K, ch Change[V]) error {
			res := Change[V]{New: ch.New, HasNew: ch.HasNew && !valueNull.is(ch.New)}
			switch {
			case sendOld:
				old, ok, err := st.GetOld(k)
				if err != nil {
					return err
				}
				res.Old, res.HasOld = old.v, ok
			case !res.HasNew:
				if _, res.HasOld, err = st.Get(k); err != nil {
					return err
				}
			}
			switch {
			case res.HasNew:
				err = st.Put(k, stamped[V]{c.Timestamp, res.New})
			case res.HasOld:
				err = st.Delete(k)
			default:
				return nil // was not there and is not now
			}
			if err != nil {
				return err
			}
			res.HasOld = res.HasOld && sendOld
			return next(c, k, res)
		}), nil
	}
}
