package serde

import "errors"

// Serde serialises values of type T. Implementations are stateless and safe
// for concurrent use: one value serves all tasks.
type Serde[T any] interface {
	// Append appends the encoding of v to dst and returns the extended slice.
	// It must not keep dst or v.
	Append(dst []byte, v T) ([]byte, error)
	// Decode returns the value that b encodes. b is never null (nil), but may
	// be empty; it is valid only during the call, unless the serde implements
	// [Cloner].
	Decode(b []byte) (T, error)
	// Fingerprint names the format. It is stored in every checkpoint.
	Fingerprint() string
}

// ErrUnavailable is wrapped by the errors of a serde that could not reach what
// it needs, such as a schema registry. The record is not to blame: such an error
// fails the task even where the failure handler skips bad records.
var ErrUnavailable = errors.New("not the record's fault")

// Evolver is implemented by a serde that can read what an earlier serde wrote.
type Evolver interface {
	// Accepts reports whether bytes written by a serde with that fingerprint
	// can be decoded.
	Accepts(fingerprint string) bool
}

// Cloner is implemented by a serde whose decoded values alias the decoded
// bytes. Whoever keeps such a value longer than the bytes keeps a clone.
type Cloner[T any] interface {
	Clone(v T) T
}

// NullSerde is implemented by a serde whose Go type has a null of its own.
type NullSerde[T any] interface {
	IsNull(v T) bool
	Null() T
}

// PartitionKeyer is implemented by a key serde of which only a part decides
// the partition: a windowed key goes where its inner key goes, as with Kafka
// Streams' WindowedStreamPartitioner.
type PartitionKeyer interface {
	// PartitionKey returns the part of an encoded key that is hashed.
	PartitionKey(encoded []byte) []byte
}

// Aliases reports whether decoded values of s alias the bytes they were decoded
// from.
func Aliases[T any](s Serde[T]) bool {
	if _, ok := s.(Cloner[T]); !ok {
		return false
	}
	a, ok := s.(Aliaser)
	return !ok || a.Aliases()
}

// Clone returns v, or a copy of it where a decoded value would alias the bytes
// it was decoded from.
func Clone[T any](s Serde[T], v T) T {
	if Aliases(s) {
		return s.(Cloner[T]).Clone(v)
	}
	return v
}

// CloneFunc returns the clone function of s, or nil when decoded values of s
// do not alias the bytes they were decoded from. Each call makes one: Clone is
// for a single value.
func CloneFunc[T any](s Serde[T]) func(T) T {
	if Aliases(s) {
		return s.(Cloner[T]).Clone
	}
	return nil
}

// Aliaser is implemented by a serde whose decoded values may alias the bytes
// they were decoded from, depending on what it is composed of.
type Aliaser interface {
	Aliases() bool
}

// Accepts reports whether s reads what a serde with that fingerprint wrote.
func Accepts[T any](s Serde[T], fingerprint string) bool {
	if s.Fingerprint() == fingerprint {
		return true
	}
	e, ok := s.(Evolver)
	return ok && e.Accepts(fingerprint)
}
