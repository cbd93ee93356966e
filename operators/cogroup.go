package operators

import "github.com/tidegate/tidegate/record"

// Cogroup is one input of an aggregation that several streams feed. core makes
// the aggregation, of values that hold nothing, from a function that adds the
// value in hand: so it need not know the types of the inputs.
func Cogroup[K, V, A any](add func(K, V, A) A, core func(add func(K, struct{}, A) A) Factory) Factory {
	return func(b *Build, outs []any) (any, error) {
		var inHand V
		in, err := core(func(k K, _ struct{}, a A) A { return add(k, inHand, a) })(b, outs)
		if err != nil {
			return nil, err
		}
		next := in.(Next[K, struct{}])
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			inHand = v
			err := next(c, k, struct{}{}, n)
			var zero V
			inHand = zero
			return err
		}), nil
	}
}
