package state

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzSpanKey: no bytes make it panic, and what it reads it writes again.
func FuzzSpanKey(f *testing.F) {
	f.Add(appendStart(appendSpan(nil, 0, []byte("key"), 5), 3))
	f.Add([]byte("12345678\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		key, start, end, err := splitSpan(b)
		if err != nil {
			return
		}
		segment, _, err := splitStart(b)
		require.NoError(t, err)
		k2, s2, e2, err := splitSpan(appendStart(appendSpan(nil, segment, key, end), start))
		require.NoError(t, err)
		require.Equal(t, key, k2)
		require.Equal(t, []int64{start, end}, []int64{s2, e2})
	})
}
