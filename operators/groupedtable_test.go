package operators

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
)

func TestDelta(t *testing.T) {
	s := DeltaSerde(serde.String())
	require.Equal(t, "change-1("+serde.String().Fingerprint()+")", s.Fingerprint())
	for _, ch := range []Change[string]{
		{New: "n", HasNew: true}, {Old: "o", HasOld: true}, {New: "n", HasNew: true, Old: "o", HasOld: true},
		{HasNew: true, HasOld: true},
	} {
		b, err := s.Append([]byte("x"), ch)
		require.NoError(t, err)
		got, err := s.Decode(b[1:])
		require.NoError(t, err)
		require.Equal(t, ch, got)
	}
	_, err := s.Decode([]byte{2, 1})
	require.ErrorContains(t, err, "version 2")
	for _, b := range [][]byte{nil, {1}, {1, 0}, {1, 4, 0}, {1, 1}, {1, 1, 5, 'x'}, {1, 1, 0, 'x'}} {
		_, err := s.Decode(b)
		require.ErrorIs(t, err, errDelta, "%x", b)
	}
}

func FuzzDelta(f *testing.F) {
	f.Add([]byte{1, 3, 1, 'o', 'n'})
	f.Add([]byte{1, 1, 1, 'o'})
	f.Add([]byte{1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := DeltaSerde(serde.String())
		ch, err := s.Decode(b)
		if err != nil {
			return
		}
		again, err := s.Append(nil, ch)
		require.NoError(t, err)
		got, err := s.Decode(again)
		require.NoError(t, err)
		require.Equal(t, ch, got)
	})
}
