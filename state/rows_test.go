package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
)

// What the typed stores take apart: no bytes make them panic, and what they read
// they write again.

func FuzzTimedRow(f *testing.F) {
	f.Add(appendRow(nil, 1000, []byte("key"), 1234))
	f.Add(appendRow(nil, -1000, nil, -1))
	f.Add([]byte("12345678\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, at, err := splitRow(b)
		if err != nil {
			return
		}
		segment, _, err := splitStart(b)
		require.NoError(t, err)
		k2, at2, err := splitRow(appendRow(nil, segment, key, at))
		require.NoError(t, err)
		require.Equal(t, key, k2)
		require.Equal(t, at, at2)
	})
}

func FuzzTTLIndex(f *testing.F) {
	f.Add(appendIndex(nil, 5, []byte("key")))
	f.Add([]byte{ttlIndex, 1, 2})
	f.Add([]byte{ttlEntry, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		at, key, err := splitIndex(b)
		if err == nil {
			require.Equal(t, b, appendIndex(nil, at, key))
		}
	})
}

func FuzzTTLEntry(f *testing.F) {
	s := mortalSerde[string]{serde.String()}
	b, _ := s.Append(nil, mortal[string]{at: 5, indexed: 105, v: "value"})
	f.Add(b)
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := s.Decode(b)
		if err != nil {
			return
		}
		again, err := s.Append(nil, m)
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}

func FuzzListHead(f *testing.F) {
	b, _ := headSerde{}.Append(nil, head{first: 3, next: 8})
	f.Add(b)
	f.Add(make([]byte, 16))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := headSerde{}.Decode(b)
		if err != nil {
			return
		}
		require.Less(t, h.first, h.next)
		again, err := headSerde{}.Append(nil, h)
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}
