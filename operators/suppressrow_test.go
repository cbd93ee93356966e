package operators

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

func heldRows() []heldRow[[]byte] {
	return []heldRow[[]byte]{
		{},
		{time: -1, ts: math.MinInt64, v: []byte{}, hasV: true},
		{time: math.MaxInt64, ts: 7, prior: []byte("before"), hasPrior: true},
		{time: 5, ts: 6, v: []byte("v"), hasV: true, prior: []byte{}, hasPrior: true, h: record.Headers{
			{Key: "", Value: nil}, {Key: "k", Value: []byte{}}, {Key: "key", Value: []byte("value")},
		}},
	}
}

func TestHeldRowFormat(t *testing.T) {
	s := heldSerde[[]byte]{serde.Bytes()}
	for _, r := range heldRows() {
		b, err := s.Append(nil, r)
		require.NoError(t, err)
		r.size = int64(len(b))
		got, err := s.Decode(b)
		require.NoError(t, err)
		got = s.Clone(got)
		clear(b) // a clone shares nothing with what it came from
		require.Equal(t, r, got)
	}
	b, err := s.Append(nil, heldRow[[]byte]{time: 1, ts: 2, v: []byte("v"), hasV: true})
	require.NoError(t, err)
	require.Equal(t, "0000000000000001"+"0000000000000002"+"01"+"00"+"76", hex.EncodeToString(b))
}

func FuzzHeldRow(f *testing.F) {
	s := heldSerde[[]byte]{serde.Bytes()}
	for _, r := range heldRows() {
		b, _ := s.Append(nil, r)
		f.Add(b)
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := s.Decode(b)
		if err != nil {
			return
		}
		again, err := s.Append(nil, r)
		if err != nil || len(again) == len(b) && !bytes.Equal(again, b) { // a varint may be written longer than needed
			t.Fatalf("%x became %x: %v", b, again, err)
		}
	})
}
