package operators

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzClosing: no bytes make it panic, and what it reads it writes again.
func FuzzClosing(f *testing.F) {
	f.Add(append(appendTime(appendTime(nil, 5), -3), "key"...))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, start, end, err := splitClosing(b)
		if err != nil {
			return
		}
		require.Equal(t, b, append(appendTime(appendTime(nil, end), start), key...))
	})
}
