package serde

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// List is a list of elements in the format of Kafka's ListSerializer. A nil
// slice is written as an empty list and read as one that is not nil.
//
// Elements whose Kafka serializer has a fixed length (Int16, Int32, Int64,
// Uint64, Float32, Float64, UUID, Time and TimeNanos) follow each other without
// a length each; all others have their length before them. A list with null
// elements, as a Java program may write, needs List(Nullable(s)).
func List[T any](s Serde[T]) Serde[[]T] {
	l := listSerde[T]{in: s}
	if f, ok := s.(interface{ fixedSize() int }); ok {
		l.size = f.fixedSize()
	}
	l.null, _ = s.(NullSerde[T])
	return l
}

type listSerde[T any] struct {
	in   Serde[T]
	size int // of an element, 0 when it varies
	null NullSerde[T]
}

// The two layouts of Kafka's ListSerializer.
const (
	listConstantSize = 0 // layout, count of nulls, their indexes, count, elements
	listVariableSize = 1 // layout, count, for each element: length or −1, element

	listNullLength = -1
)

func (s listSerde[T]) isNull(v T) bool { return s.null != nil && s.null.IsNull(v) }

func (s listSerde[T]) Append(dst []byte, v []T) ([]byte, error) {
	if len(v) > math.MaxInt32 {
		return dst, fmt.Errorf("list: %d elements are more than Kafka's format allows", len(v))
	}
	if s.size > 0 {
		dst = append(dst, listConstantSize)
		dst = s.appendNulls(dst, v)
	} else {
		dst = append(dst, listVariableSize)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	for i, e := range v {
		var err error
		if dst, err = s.appendElement(dst, e); err != nil {
			return dst, fmt.Errorf("list: element %d: %w", i, err)
		}
	}
	return dst, nil
}

func (s listSerde[T]) appendNulls(dst []byte, v []T) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	if s.null == nil {
		return dst
	}
	n := uint32(0)
	for i, e := range v {
		if s.null.IsNull(e) {
			dst = binary.BigEndian.AppendUint32(dst, uint32(i))
			n++
		}
	}
	binary.BigEndian.PutUint32(dst[at:], n)
	return dst
}

func (s listSerde[T]) appendElement(dst []byte, e T) ([]byte, error) {
	null := s.isNull(e)
	if s.size > 0 {
		if null {
			return dst, nil
		}
		return s.in.Append(dst, e)
	}
	if null {
		return binary.BigEndian.AppendUint32(dst, math.MaxUint32), nil // −1
	}
	at := len(dst)
	dst, err := s.in.Append(append(dst, 0, 0, 0, 0), e)
	if err != nil {
		return dst, err
	}
	n := len(dst) - at - 4
	if n > math.MaxInt32 {
		return dst, fmt.Errorf("%d bytes are more than Kafka's format allows", n)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(n))
	return dst, nil
}

var (
	errListShort = errors.New("list: the bytes end before the list does")
	errListNull  = errors.New("is null: use serde.List(serde.Nullable(s))")
)

func (s listSerde[T]) Decode(b []byte) ([]T, error) {
	if len(b) == 0 {
		return nil, errListShort
	}
	layout, b := b[0], b[1:]
	switch {
	case layout == listConstantSize && s.size > 0:
		return s.decodeConstant(b)
	case layout == listVariableSize && s.size == 0:
		return s.decodeVariable(b)
	}
	return nil, fmt.Errorf("list: layout %d does not belong to elements of format %s", layout, s.in.Fingerprint())
}

// listCount reads a count that b must have room for at size bytes each.
func listCount(b []byte, size int) (n int, rest []byte, err error) {
	if len(b) < 4 {
		return 0, nil, errListShort
	}
	n, rest = int(int32(binary.BigEndian.Uint32(b))), b[4:]
	if n < 0 {
		return 0, nil, fmt.Errorf("list: the count is %d", n)
	}
	if n > len(rest)/size {
		return 0, nil, errListShort
	}
	return n, rest, nil
}

func (s listSerde[T]) decodeConstant(b []byte) ([]T, error) {
	nulls, b, err := listCount(b, 4)
	if err != nil {
		return nil, err
	}
	indexes, b := b[:4*nulls], b[4*nulls:]
	if len(b) < 4 {
		return nil, errListShort
	}
	n := int(int32(binary.BigEndian.Uint32(b)))
	if b = b[4:]; n < nulls || n-nulls != len(b)/s.size || len(b)%s.size != 0 {
		return nil, fmt.Errorf("list: %d elements of %d bytes, %d of them null, do not fill %d bytes", n, s.size, nulls, len(b))
	}
	out := make([]T, n)
	null := 0 // of the nulls, how many were placed
	for i := range out {
		if null < nulls && int(int32(binary.BigEndian.Uint32(indexes[4*null:]))) == i {
			if s.null == nil {
				return nil, fmt.Errorf("list: element %d %w", i, errListNull)
			}
			out[i] = s.null.Null()
			null++
			continue
		}
		if len(b) == 0 {
			break
		}
		if out[i], err = s.in.Decode(b[:s.size:s.size]); err != nil {
			return nil, fmt.Errorf("list: element %d: %w", i, err)
		}
		b = b[s.size:]
	}
	if null != nulls {
		return nil, errors.New("list: the indexes of the null elements are not in order within the list")
	}
	return out, nil
}

func (s listSerde[T]) decodeVariable(b []byte) ([]T, error) {
	n, b, err := listCount(b, 4)
	if err != nil {
		return nil, err
	}
	out := make([]T, n)
	for i := range out {
		if len(b) < 4 {
			return nil, errListShort
		}
		size := int(int32(binary.BigEndian.Uint32(b)))
		b = b[4:]
		switch {
		case size == listNullLength && s.null != nil:
			out[i] = s.null.Null()
			continue
		case size == listNullLength:
			return nil, fmt.Errorf("list: element %d %w", i, errListNull)
		case size < 0:
			return nil, fmt.Errorf("list: element %d has the length %d", i, size)
		case size > len(b):
			return nil, errListShort
		}
		if out[i], err = s.in.Decode(b[:size:size]); err != nil {
			return nil, fmt.Errorf("list: element %d: %w", i, err)
		}
		b = b[size:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("list: %d bytes behind the last element", len(b))
	}
	return out, nil
}

func (s listSerde[T]) Fingerprint() string { return "list(" + s.in.Fingerprint() + ")" }

// Accepts: a list is readable when its elements are, as long as they have the
// same layout.
func (s listSerde[T]) Accepts(fingerprint string) bool {
	n := len(fingerprint)
	return n > 6 && fingerprint[:5] == "list(" && fingerprint[n-1] == ')' && Accepts(s.in, fingerprint[5:n-1])
}

func (s listSerde[T]) Aliases() bool { return Aliases(s.in) }

func (s listSerde[T]) Clone(v []T) []T {
	out := slices.Clone(v)
	for i := range out {
		out[i] = Clone(s.in, out[i])
	}
	return out
}
