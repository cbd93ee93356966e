package serde

import (
	"encoding/binary"
	"fmt"

	"github.com/tidegate/tidegate/record"
)

// WindowedSpan is a key within a window of any length, in the format of Kafka
// Streams' SessionWindowedSerializer: the key's bytes, then the window's end and
// start in 8 bytes each, big endian. Sessions and calendar windows are written
// so; a reader needs to know neither gap nor time zone.
//
// The partition is decided by the inner key alone.
func WindowedSpan[K any](ks Serde[K]) Serde[record.Windowed[K]] { return windowedSpan[K]{in: ks} }

type windowedSpan[K any] struct{ in Serde[K] }

const spanSuffix = 16

func (s windowedSpan[K]) Append(dst []byte, v record.Windowed[K]) ([]byte, error) {
	dst, err := s.in.Append(dst, v.Key)
	if err != nil {
		return dst, fmt.Errorf("windowed key: %w", err)
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.End))
	return binary.BigEndian.AppendUint64(dst, uint64(v.Start)), nil
}

func (s windowedSpan[K]) Decode(b []byte) (record.Windowed[K], error) {
	var w record.Windowed[K]
	cut := len(b) - spanSuffix
	if cut < 0 {
		return w, fmt.Errorf("windowed key: want at least %d bytes, got %d", spanSuffix, len(b))
	}
	end := int64(binary.BigEndian.Uint64(b[cut:]))
	start := int64(binary.BigEndian.Uint64(b[cut+8:]))
	if end < start {
		return w, fmt.Errorf("windowed key: the window ends at %d, before it starts at %d", end, start)
	}
	k, err := s.in.Decode(b[:cut:cut])
	if err != nil {
		return w, fmt.Errorf("windowed key: %w", err)
	}
	w.Key, w.Window = k, record.Window{Start: start, End: end}
	return w, nil
}

func (s windowedSpan[K]) Fingerprint() string {
	return fmt.Sprintf("windowed-span(%s)", s.in.Fingerprint())
}

func (s windowedSpan[K]) PartitionKey(b []byte) []byte {
	if len(b) < spanSuffix {
		return b
	}
	return partitionKey(s.in, b[:len(b)-spanSuffix])
}

func (s windowedSpan[K]) Aliases() bool { return Aliases(s.in) }

func (s windowedSpan[K]) Clone(v record.Windowed[K]) record.Windowed[K] {
	v.Key = Clone(s.in, v.Key)
	return v
}
