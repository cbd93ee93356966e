package stores_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// A window store answers by key and time, exactly up to its retention, before and
// after a restart.
func TestWindowScans(t *testing.T) { onEngines(t, testWindowScans) }

func testWindowScans(t *testing.T, opts []tidegatetest.Option) {
	def := tidegate.WindowStore("w", 8000*ms, str, str)
	var w *tidegate.WindowKV[string, string]
	r := callsWith(t, opts, func(c *strCtx, k, v string) error {
		at := c.Record().Timestamp
		if v != "?" {
			return w.Put(k, at, v)
		}
		var all []string
		take := func(start int64, v string) bool { all = append(all, fmt.Sprint(start, v)); return true }
		check := func(err error) { require.NoError(t, err); all = append(all, "|") }
		check(w.Fetch(k, math.MinInt64, math.MaxInt64, take))
		check(w.Fetch(k, 2500, 7000, take, tidegate.Descending))
		check(w.Fetch(k, 7000, 7000, take))
		check(w.Range(1000, 7000, func(start int64, k, v string) bool { return take(start, k+v) }))
		check(w.Range(1000, 7000, func(start int64, k, v string) bool {
			take(start, k+v)
			return len(all) < 100 && start > 2500
		}, tidegate.Descending))
		n, err := w.ApproximateLen()
		require.NoError(t, err)
		return c.Forward(k, strings.Join(all, " ")+fmt.Sprint(n))
	}, func(c *strCtx) (err error) { w, err = c.WindowStore(def); return err }, def)
	// The key bb is longer than b, and its bytes would lie between b and its time.
	for _, at := range []int64{1000, 2500, 2501, 6999, 7000} {
		r.in("b", "v", at)
		r.in("bb", "w", at)
	}
	want := "b=1000v 2500v 2501v 6999v 7000v | 6999v 2501v 2500v | | 1000bv 1000bbw 2500bv 2501bv 2500bbw 2501bbw 6999bv 6999bbw | " +
		"6999bbw 6999bv 2501bbw 2500bbw |10@%d"
	r.in("b", "?", 9000)
	require.Equal(t, fmt.Sprintf(want, 9000), r.out())
	r.d.Restart()
	r.in("b", "?", 9000)
	require.Equal(t, fmt.Sprintf(want, 9000), r.out())
	// At 10501 what began before 2501 is gone, though its segment is still there.
	r.in("b", "?", 10501)
	require.Equal(t, "b=2501v 6999v 7000v | 6999v 2501v | | 2501bv 2501bbw 6999bv 6999bbw | 6999bbw 6999bv 2501bbw 2501bv |10@10501", r.out())
	r.in("b", "late", 2500)
	require.Equal(t, int64(1), r.d.Late())
	st := r.d.WindowStore("w", str, str)
	v, ok := st.Get("bb", 7000)
	require.True(t, ok)
	require.Equal(t, "w", v)
	_, ok = st.Get("bb", 1000)
	require.False(t, ok, "dropped with its segment")
	require.Len(t, st.All(), 8)
	r.d.Restart()
	r.in("b", "?", 16_000)
	require.Equal(t, "b=| | | | |8@16000", r.out(), "nothing is seen, and dropped after the record")
	require.Empty(t, st.All())
	r.in("b", "", 9_223_372_036_854)
	require.Len(t, st.All(), 1)
}

func TestWindowStoreMistakes(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).Process("p", func() strProc { return nil },
		tidegate.WindowStore("w", 0, str, serde.Int64()))
	_, err := b.Build()
	require.ErrorContains(t, err, `window store "w": retention 0s must be at least 1ms`)
}
