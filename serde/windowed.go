package serde

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/tidegate/tidegate/record"
)

// Windowed is a key within a time window of that size, in the format of Kafka
// Streams' TimeWindowedSerializer: the key's bytes, then the window's start in
// 8 bytes, big endian. The end is start + size, as with Kafka's
// TimeWindowedDeserializer.
//
// The partition is decided by the inner key alone.
func Windowed[K any](ks Serde[K], size time.Duration) Serde[record.Windowed[K]] {
	return windowed[K]{in: ks, size: size.Milliseconds()}
}

type windowed[K any] struct {
	in   Serde[K]
	size int64
}

const windowSuffix = 8

func (s windowed[K]) Append(dst []byte, v record.Windowed[K]) ([]byte, error) {
	dst, err := s.in.Append(dst, v.Key)
	if err != nil {
		return dst, fmt.Errorf("windowed key: %w", err)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(v.Start)), nil
}

func (s windowed[K]) Decode(b []byte) (record.Windowed[K], error) {
	var w record.Windowed[K]
	cut := len(b) - windowSuffix
	if cut < 0 {
		return w, fmt.Errorf("windowed key: want at least %d bytes, got %d", windowSuffix, len(b))
	}
	start := int64(binary.BigEndian.Uint64(b[cut:]))
	if start > math.MaxInt64-s.size {
		return w, fmt.Errorf("windowed key: window start %d plus size %d overflows", start, s.size)
	}
	k, err := s.in.Decode(b[:cut:cut])
	if err != nil {
		return w, fmt.Errorf("windowed key: %w", err)
	}
	w.Key, w.Window = k, record.Window{Start: start, End: start + s.size}
	return w, nil
}

func (s windowed[K]) Fingerprint() string {
	return fmt.Sprintf("windowed(%s,%dms)", s.in.Fingerprint(), s.size)
}

func (s windowed[K]) PartitionKey(b []byte) []byte {
	if len(b) < windowSuffix {
		return b
	}
	return partitionKey(s.in, b[:len(b)-windowSuffix])
}

func (s windowed[K]) Aliases() bool { return Aliases(s.in) }

func (s windowed[K]) Clone(v record.Windowed[K]) record.Windowed[K] {
	v.Key = Clone(s.in, v.Key)
	return v
}
