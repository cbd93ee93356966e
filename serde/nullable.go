package serde

import (
	"errors"

	"github.com/tidegate/tidegate/record"
)

// Nullable makes Kafka's null a value of the Go type: a missing Opt is null in
// the topic, and a null record reaches user functions as a missing Opt. The
// bytes of a present value are those of s, so the fingerprint is that of s.
func Nullable[T any](s Serde[T]) Serde[record.Opt[T]] { return nullable[T]{s} }

type nullable[T any] struct{ in Serde[T] }

var errNullEncoded = errors.New("a missing value has no encoding: it is written as Kafka's null, which a key in a store, or a part of a composed key, cannot be")

func (s nullable[T]) Append(dst []byte, v record.Opt[T]) ([]byte, error) {
	x, ok := v.Get()
	if !ok {
		return dst, errNullEncoded
	}
	return s.in.Append(dst, x)
}

func (s nullable[T]) Decode(b []byte) (record.Opt[T], error) {
	x, err := s.in.Decode(b)
	if err != nil {
		return record.None[T](), err
	}
	return record.Some(x), nil
}

func (s nullable[T]) Fingerprint() string          { return s.in.Fingerprint() }
func (s nullable[T]) Accepts(fp string) bool       { return Accepts(s.in, fp) }
func (s nullable[T]) IsNull(v record.Opt[T]) bool  { return !v.IsSome() }
func (s nullable[T]) Null() record.Opt[T]          { return record.None[T]() }
func (s nullable[T]) Aliases() bool                { return Aliases(s.in) }
func (s nullable[T]) PartitionKey(b []byte) []byte { return partitionKey(s.in, b) }

func (s nullable[T]) Clone(v record.Opt[T]) record.Opt[T] {
	x, ok := v.Get()
	if ok {
		return record.Some(Clone(s.in, x))
	}
	return v
}

// fixedSize is that of the inner serde: a list of nullable elements has the
// layout of a list of plain ones.
func (s nullable[T]) fixedSize() int {
	if f, ok := s.in.(interface{ fixedSize() int }); ok {
		return f.fixedSize()
	}
	return 0
}

func partitionKey[T any](s Serde[T], b []byte) []byte {
	if p, ok := s.(PartitionKeyer); ok {
		return p.PartitionKey(b)
	}
	return b
}
