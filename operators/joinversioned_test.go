package operators

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

func FuzzBufferedRecord(f *testing.F) {
	c := &Context{}
	c.Timestamp, c.Headers = -7, record.Headers{{Key: "a", Value: []byte("x")}, {Key: "", Value: nil}, {Key: "b", Value: []byte{}}}
	b, err := appendBuffered(nil, c, "key", int64(5), serde.String(), serde.Int64())
	require.NoError(f, err)
	f.Add(b)
	f.Add(b[:len(b)-9])
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := joinBuffer[string, int64]{ks: serde.String(), vs: serde.Int64()}
		c := &Context{}
		k, v, err := s.decode(c, b)
		if err != nil {
			return
		}
		again, err := appendBuffered(nil, c, k, v, s.ks, s.vs)
		require.NoError(t, err)
		c2 := &Context{}
		k2, v2, err := s.decode(c2, again)
		require.NoError(t, err)
		require.Equal(t, k, k2)
		require.Equal(t, v, v2)
		require.Equal(t, c.RecordContext, c2.RecordContext)
	})
}
