package stores_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

func TestTimestampedStore(t *testing.T) {
	onEnginesRestarting(t, func(t *testing.T, opts []tidegatetest.Option, then func(*run)) {
		def := tidegate.TimestampedKeyValueStore("s", str, serde.Nullable(str))
		var s *tidegate.TimestampedKV[string, tidegate.Opt[string]]
		r := callsWith(t, opts, func(c *strCtx, k, v string) error {
			at := c.Record().Timestamp
			switch v {
			case "all":
				var all []string
				take := func(k string, v tidegate.Opt[string], at int64) bool {
					all = append(all, fmt.Sprint(k, v.Or(""), at))
					return k != "stop"
				}
				require.NoError(t, s.All(take, tidegate.Descending))
				require.NoError(t, s.Range("b", "c", take))
				require.NoError(t, s.Prefix("a", str, take))
				n, err := s.ApproximateLen()
				require.NoError(t, err)
				return c.Forward(k, fmt.Sprint(strings.Join(all, " "), " ", n))
			case "?":
				old, ts, had, err := s.PutIfAbsent(k, tidegate.Some("new"), at)
				require.NoError(t, err)
				return c.Forward(k, fmt.Sprint(old.Or("-"), ts, had))
			case "none":
				return s.Put(k, tidegate.None[string](), at)
			}
			if err := s.Put(k, tidegate.Some(v), at-100); err != nil {
				return err
			}
			got, ts, ok, err := s.Get(k)
			require.Equal(t, []any{tidegate.Some(v), at - 100, true, nil}, []any{got, ts, ok, err})
			return nil
		}, func(c *strCtx) (err error) { s, err = c.TimestampedStore(def); return err }, def)
		r.in("a", "1", 10)
		then(r)
		r.in("b", "2", 20)
		r.in("b", "3", 30)
		then(r)
		r.in("ab", "4", 40)
		r.in("c", "?", 50)
		r.in("c", "?", 60)
		then(r)
		require.Equal(t, "c=-0 false@50 c=new50 true@60", r.out())
		r.in("x", "all", 70)
		require.Equal(t, "x=cnew50 b3-70 ab4-60 a1-90 b3-70 a1-90 ab4-60 4@70", r.out())
		at, ok := r.d.Store("s", str, str).UpdatedAt("b")
		require.Equal(t, int64(-70), at)
		require.True(t, ok)
		r.in("b", "none", 80)
		then(r)
		_, ok = r.d.Store("s", str, str).Get("b")
		require.False(t, ok)
	})
}
