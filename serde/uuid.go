package serde

import (
	"encoding/hex"
	"fmt"
)

// UUID is the text form of a UUID in 36 lower-case characters, as Kafka's
// UUIDSerializer writes it. T is any type whose underlying type is [16]byte,
// such as uuid.UUID of github.com/google/uuid. Upper-case digits are read too;
// as a key, such a record is then another one than its lower-case twin, since
// keys are compared as bytes, until it is written again.
func UUID[T ~[16]byte]() Serde[T] { return uuidSerde[T]{} }

// UUIDBytes is a UUID in its 16 bytes, most significant first. Kafka has no
// serializer for it; it is the compact form for stores and topics that only Go
// programs read.
func UUIDBytes[T ~[16]byte]() Serde[T] { return uuidBytesSerde[T]{} }

type (
	uuidSerde[T ~[16]byte]      struct{}
	uuidBytesSerde[T ~[16]byte] struct{}
)

const uuidText = 36

// uuidGroups are the bounds of the groups of hexadecimal digits, in bytes of
// the UUID; each but the last is followed by a hyphen.
var uuidGroups = [...][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}}

func (uuidSerde[T]) Append(dst []byte, v T) ([]byte, error) {
	b := [16]byte(v)
	for i, g := range uuidGroups {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, b[g[0]:g[1]])
	}
	return dst, nil
}

func (uuidSerde[T]) Decode(b []byte) (T, error) {
	if len(b) != uuidText {
		var zero T
		return zero, lengthError("uuid", uuidText, b)
	}
	var out [16]byte
	at := 0
	for i, g := range uuidGroups {
		if i > 0 {
			if b[at] != '-' {
				var zero T
				return zero, fmt.Errorf("uuid: want a hyphen at position %d (%s)", at, excerpt(b))
			}
			at++
		}
		n := 2 * (g[1] - g[0])
		if _, err := hex.Decode(out[g[0]:g[1]], b[at:at+n]); err != nil {
			var zero T
			return zero, fmt.Errorf("uuid: %w (%s)", err, excerpt(b))
		}
		at += n
	}
	return T(out), nil
}

func (uuidSerde[T]) Fingerprint() string { return "uuid" }
func (uuidSerde[T]) fixedSize() int      { return uuidText }

func (uuidBytesSerde[T]) Append(dst []byte, v T) ([]byte, error) {
	b := [16]byte(v)
	return append(dst, b[:]...), nil
}

func (uuidBytesSerde[T]) Decode(b []byte) (T, error) {
	if len(b) != 16 {
		var zero T
		return zero, lengthError("uuid-bytes", 16, b)
	}
	return T([16]byte(b)), nil
}

func (uuidBytesSerde[T]) Fingerprint() string { return "uuid-bytes" }
