package tidegate

import (
	"iter"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
)

// FilterCtx is Filter with context and error.
func (s *Stream[K, V]) FilterCtx(f func(*RecordContext, K, V) (bool, error)) *Stream[K, V] {
	return s.same(s.stateless("filter", here(), f == nil, operators.FilterCtx(f, true)))
}

// FilterNotCtx is FilterNot with context and error.
func (s *Stream[K, V]) FilterNotCtx(f func(*RecordContext, K, V) (bool, error)) *Stream[K, V] {
	return s.same(s.stateless("filter-not", here(), f == nil, operators.FilterCtx(f, false)))
}

// MapValuesCtx is MapValues with context, key and error.
func (s *Stream[K, V]) MapValuesCtx[V2 any](
	f func(*RecordContext, K, V) (V2, error), vs ...serde.Serde[V2],
) *Stream[K, V2] {
	return withValue(s, "MapValuesCtx", here(), f == nil, operators.MapValuesCtx(f), vs)
}

// MapCtx is Map with context and error.
func (s *Stream[K, V]) MapCtx[K2, V2 any](
	f func(*RecordContext, K, V) (K2, V2, error), serdes ...Serdes[K2, V2],
) *Stream[K2, V2] {
	return withBoth(s, "MapCtx", here(), f == nil, operators.MapCtx(f), serdes)
}

// FlatMapCtx is FlatMap with context and error.
func (s *Stream[K, V]) FlatMapCtx[K2, V2 any](
	f func(*RecordContext, K, V) (iter.Seq2[K2, V2], error), serdes ...Serdes[K2, V2],
) *Stream[K2, V2] {
	return withBoth(s, "FlatMapCtx", here(), f == nil, operators.FlatMapCtx(f), serdes)
}

// FlatMapValuesCtx is FlatMapValues with context, key and error.
func (s *Stream[K, V]) FlatMapValuesCtx[V2 any](
	f func(*RecordContext, K, V) (iter.Seq[V2], error), vs ...serde.Serde[V2],
) *Stream[K, V2] {
	return withValue(s, "FlatMapValuesCtx", here(), f == nil, operators.FlatMapValuesCtx(f), vs)
}

// SelectKeyCtx is SelectKey with context and error.
func (s *Stream[K, V]) SelectKeyCtx[K2 any](
	f func(*RecordContext, K, V) (K2, error), ks ...serde.Serde[K2],
) *Stream[K2, V] {
	return withKey(s, "SelectKeyCtx", here(), f == nil, operators.SelectKeyCtx(f), ks)
}

// PeekCtx is Peek with context and error.
func (s *Stream[K, V]) PeekCtx(f func(*RecordContext, K, V) error) *Stream[K, V] {
	return s.same(s.stateless("peek", here(), f == nil, operators.PeekCtx(f)))
}

// ForEachCtx is ForEach with context and error.
func (s *Stream[K, V]) ForEachCtx(f func(*RecordContext, K, V) error) {
	s.stateless("for-each", here(), f == nil, operators.ForEachCtx(f))
}
