package operators

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/tidegate/tidegate/serde"
)

func FuzzRowKey(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(binary.BigEndian.AppendUint64(appendRowKey(nil, -5, []byte("key"), -3), 7))
	f.Add(binary.BigEndian.AppendUint64(appendRowKey(nil, 60_000, nil, 60_001), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, at, seq, err := splitRowKey(b)
		if err != nil {
			return
		}
		again := binary.BigEndian.AppendUint64(appendRowKey(nil, timeOf(b), key, at), seq)
		if len(again) == len(b) && !bytes.Equal(again, b) { // a varint may be written longer than needed
			t.Fatalf("%x became %x", b, again)
		}
	})
}

func FuzzJoinRow(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 9, 1, 'v'})
	s := rowStore[string, []byte]{vs: serde.Bytes()}
	f.Fuzz(func(t *testing.T, b []byte) {
		row := joinRow[[]byte]{enc: b}
		if err := s.decode(&row); (err == nil) != (len(b) >= rowHead) {
			t.Fatalf("%x: %v", b, err)
		}
	})
}
