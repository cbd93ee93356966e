package registry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	magic      = 0
	headerSize = 5
)

// AppendHeader appends the byte 0 and a schema's id.
func AppendHeader(dst []byte, id int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, magic), uint32(id))
}

// ParseHeader splits a record into its schema's id and what follows.
func ParseHeader(b []byte) (id int, rest []byte, err error) {
	if len(b) < headerSize {
		return 0, nil, fmt.Errorf("%d bytes are too few for the header of a schema registry's record", len(b))
	}
	if b[0] != magic {
		return 0, nil, fmt.Errorf("the record begins with the byte %#x and not with 0: it was not written with a schema registry", b[0])
	}
	n := binary.BigEndian.Uint32(b[1:])
	if n > math.MaxInt32 {
		return 0, nil, fmt.Errorf("the schema id %d is out of range", n)
	}
	return int(n), b[headerSize:], nil
}

// AppendIndexes appends the path of a Protobuf message within its file: the
// index of the outermost message, then that of the message within it, and so on.
// Numbers are zigzag varints, the length first; the path [0] is the one byte 0.
func AppendIndexes(dst []byte, path []int) []byte {
	if len(path) == 1 && path[0] == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, int64(len(path)))
	for _, i := range path {
		dst = binary.AppendVarint(dst, int64(i))
	}
	return dst
}

// maxDepth bounds how deep messages may be nested.
const maxDepth = 100

var errIndexes = errors.New("the path of the message within its file is damaged")

// ParseIndexes splits what follows the header of a Protobuf record into the path
// of the message and the payload.
func ParseIndexes(b []byte) (path []int, rest []byte, err error) {
	n, size := binary.Varint(b)
	if size <= 0 || n < 0 || n > maxDepth {
		return nil, nil, errIndexes
	}
	b = b[size:]
	if n == 0 {
		return []int{0}, b, nil
	}
	for range n {
		i, size := binary.Varint(b)
		if size <= 0 || i < 0 || i > math.MaxInt32 {
			return nil, nil, errIndexes
		}
		path, b = append(path, int(i)), b[size:]
	}
	return path, b, nil
}

// SkipIndexes returns what follows the path of a Protobuf message. It accepts
// what ParseIndexes does, and allocates nothing.
func SkipIndexes(b []byte) (rest []byte, err error) {
	n, size := binary.Varint(b)
	if size <= 0 || n < 0 || n > maxDepth {
		return nil, errIndexes
	}
	for b = b[size:]; n > 0; n-- {
		i, size := binary.Varint(b)
		if size <= 0 || i < 0 || i > math.MaxInt32 {
			return nil, errIndexes
		}
		b = b[size:]
	}
	return b, nil
}
