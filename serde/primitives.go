package serde

import (
	"encoding/binary"
	"fmt"
	"math"
)

// String is UTF-8 text, as Kafka's StringSerializer writes it. Bytes that are
// not valid UTF-8 pass unchanged in both directions.
func String() Serde[string] { return stringSerde{} }

// Bytes is the raw content. A decoded slice aliases the buffer it was read
// into: it is valid until the user function returns, and whoever keeps it
// longer copies it. Stores of the library copy by themselves.
func Bytes() Serde[[]byte] { return bytesSerde{} }

// Int64 is 8 bytes, big endian (Kafka's LongSerializer).
func Int64() Serde[int64] { return int64Serde{} }

// Int32 is 4 bytes, big endian (Kafka's IntegerSerializer).
func Int32() Serde[int32] { return int32Serde{} }

// Int16 is 2 bytes, big endian (Kafka's ShortSerializer).
func Int16() Serde[int16] { return int16Serde{} }

// Uint64 is 8 bytes, big endian: in stores, keys sort by value.
func Uint64() Serde[uint64] { return uint64Serde{} }

// Float64 is the IEEE 754 bits in 8 bytes, big endian (Kafka's
// DoubleSerializer).
func Float64() Serde[float64] { return float64Serde{} }

// Float32 is the IEEE 754 bits in 4 bytes, big endian (Kafka's
// FloatSerializer).
func Float32() Serde[float32] { return float32Serde{} }

// Bool is one byte, 0 or 1 (Kafka's BooleanSerializer).
func Bool() Serde[bool] { return boolSerde{} }

type (
	stringSerde  struct{}
	bytesSerde   struct{}
	int64Serde   struct{}
	int32Serde   struct{}
	int16Serde   struct{}
	uint64Serde  struct{}
	float64Serde struct{}
	float32Serde struct{}
	boolSerde    struct{}
)

func (stringSerde) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (stringSerde) Decode(b []byte) (string, error)             { return string(b), nil }
func (stringSerde) Fingerprint() string                         { return "string" }

func (bytesSerde) Append(dst []byte, v []byte) ([]byte, error) { return append(dst, v...), nil }
func (bytesSerde) Decode(b []byte) ([]byte, error)             { return b, nil }
func (bytesSerde) Fingerprint() string                         { return "bytes" }
func (bytesSerde) Aliases() bool                               { return true }
func (bytesSerde) Clone(v []byte) []byte                       { return append([]byte{}, v...) }

func (int64Serde) Append(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}

func (int64Serde) Decode(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, lengthError("int64", 8, b)
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}
func (int64Serde) Fingerprint() string { return "int64" }

func (int32Serde) Append(dst []byte, v int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(v)), nil
}

func (int32Serde) Decode(b []byte) (int32, error) {
	if len(b) != 4 {
		return 0, lengthError("int32", 4, b)
	}
	return int32(binary.BigEndian.Uint32(b)), nil
}
func (int32Serde) Fingerprint() string { return "int32" }

func (int16Serde) Append(dst []byte, v int16) ([]byte, error) {
	return binary.BigEndian.AppendUint16(dst, uint16(v)), nil
}

func (int16Serde) Decode(b []byte) (int16, error) {
	if len(b) != 2 {
		return 0, lengthError("int16", 2, b)
	}
	return int16(binary.BigEndian.Uint16(b)), nil
}
func (int16Serde) Fingerprint() string { return "int16" }

func (uint64Serde) Append(dst []byte, v uint64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, v), nil
}

func (uint64Serde) Decode(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, lengthError("uint64", 8, b)
	}
	return binary.BigEndian.Uint64(b), nil
}
func (uint64Serde) Fingerprint() string { return "uint64" }

func (float64Serde) Append(dst []byte, v float64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), nil
}

func (float64Serde) Decode(b []byte) (float64, error) {
	if len(b) != 8 {
		return 0, lengthError("float64", 8, b)
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
}
func (float64Serde) Fingerprint() string { return "float64" }

func (float32Serde) Append(dst []byte, v float32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(v)), nil
}

func (float32Serde) Decode(b []byte) (float32, error) {
	if len(b) != 4 {
		return 0, lengthError("float32", 4, b)
	}
	return math.Float32frombits(binary.BigEndian.Uint32(b)), nil
}
func (float32Serde) Fingerprint() string { return "float32" }

func (boolSerde) Append(dst []byte, v bool) ([]byte, error) {
	if v {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

func (boolSerde) Decode(b []byte) (bool, error) {
	if len(b) != 1 {
		return false, lengthError("bool", 1, b)
	}
	if b[0] > 1 {
		return false, fmt.Errorf("bool: want a byte 0 or 1, got %d", b[0])
	}
	return b[0] == 1, nil
}
func (boolSerde) Fingerprint() string { return "bool" }

// fixedSize is the length of an encoding that Kafka's ListSerializer knows to be
// the same for all values. A bool is not among them.
func (int64Serde) fixedSize() int   { return 8 }
func (int32Serde) fixedSize() int   { return 4 }
func (int16Serde) fixedSize() int   { return 2 }
func (uint64Serde) fixedSize() int  { return 8 }
func (float64Serde) fixedSize() int { return 8 }
func (float32Serde) fixedSize() int { return 4 }

func lengthError(what string, want int, b []byte) error {
	return fmt.Errorf("%s: want %d bytes, got %d (%s)", what, want, len(b), excerpt(b))
}

// excerpt shows the first bytes of undecodable content, in a form that is safe
// for logs.
func excerpt(b []byte) string {
	const limit = 32
	if len(b) > limit {
		return fmt.Sprintf("%q…", b[:limit])
	}
	return fmt.Sprintf("%q", b)
}
