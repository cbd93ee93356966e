package review_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
)

// Until when a row of an outer side waits is a part of its key, so state of other
// windows is other state, also where before and after are exchanged.
func TestWindowsOfOuterJoinsAreInTheFingerprint(t *testing.T) {
	seen := map[string]tidegate.JoinWindows{}
	for _, w := range []tidegate.JoinWindows{
		tidegate.JoinWithin(0).Before(10 * ms).After(50 * ms),
		tidegate.JoinWithin(0).Before(50 * ms).After(10 * ms),
		tidegate.JoinWithin(30 * ms),
		tidegate.JoinWithin(30 * ms).Grace(ms),
	} {
		b := tidegate.NewBuilder()
		b.Stream("l", str, str).LeftJoinStream("j", b.Stream("r", str, str), w, func(l string, _ tidegate.Opt[string]) string { return l }, str)
		top, err := b.Build()
		require.NoError(t, err)
		res, err := top.Graph().Resolve("app", map[string]int32{"l": 1, "r": 1})
		require.NoError(t, err)
		other, same := seen[res.Fingerprint()]
		require.False(t, same, "%v and %v", w, other)
		seen[res.Fingerprint()] = w
	}
}
