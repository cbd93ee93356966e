package operators

import "github.com/tidegate/tidegate/record"

// Cogroup is one input of an aggregation that several streams feed. What it
// sends is not the value but the function that adds it, one per task, so that
// the aggregation need not know the types of its inputs and nothing is boxed.
func Cogroup[K, V, A any](add func(K, V, A) A) Factory {
	return func(_ *Build, outs []any) (any, error) {
		var inHand V
		fold := func(k K, a A) A { return add(k, inHand, a) }
		next := next[K, func(K, A) A](outs)
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			inHand = v
			err := next(c, k, fold, n)
			var zero V
			inHand = zero
			return err
		}), nil
	}
}
