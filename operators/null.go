package operators

import (
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// nulls knows the null of a Go type that has one (serde.Nullable). The zero
// nulls is that of a plain type.
type nulls[T any] struct{ s serde.NullSerde[T] }

func nullsOf[T any](s serde.Serde[T]) nulls[T] {
	n, _ := s.(serde.NullSerde[T])
	return nulls[T]{n}
}

// is reports whether v is the null of its type.
func (n nulls[T]) is(v T) bool { return n.s != nil && n.s.IsNull(v) }

// null returns a null: as a value where the type has one, else as the flag.
func (n nulls[T]) null(flag record.Null) (T, record.Null) {
	if n.s != nil {
		return n.s.Null(), 0
	}
	var zero T
	return zero, flag
}
