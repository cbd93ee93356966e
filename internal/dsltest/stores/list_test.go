package stores_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/tidegatetest"
)

func TestListStore(t *testing.T) {
	onEnginesRestarting(t, func(t *testing.T, opts []tidegatetest.Option, then func(*run)) {
		def := tidegate.ListStore("l", str, str)
		var l *tidegate.ListKV[string, string]
		r := callsWith(t, opts, func(c *strCtx, k, v string) error {
			var got []string
			take := func(v string) bool { got = append(got, v); return true }
			op, arg, _ := strings.Cut(v, " ")
			switch op {
			case "append":
				return l.Append(k, strings.Split(arg, " ")...)
			case "all":
				require.NoError(t, l.Each(k, take))
				got = append(got, "|")
				require.NoError(t, l.Each(k, take, tidegate.Descending))
			case "first":
				v, ok, err := l.RemoveFirst(k)
				require.NoError(t, err)
				got = append(got, fmt.Sprint(v, ok))
			case "last":
				v, ok, err := l.RemoveLast(k)
				require.NoError(t, err)
				got = append(got, fmt.Sprint(v, ok))
			case "trim":
				var n int64
				_, err := fmt.Sscan(arg, &n)
				require.NoError(t, err)
				removed, err := l.Trim(k, n)
				require.NoError(t, err)
				got = append(got, fmt.Sprint(removed))
			case "at":
				for i := int64(-1); i < 4; i++ {
					v, ok, err := l.At(k, i)
					require.NoError(t, err)
					got = append(got, fmt.Sprint(v, ok))
				}
			case "keys":
				require.NoError(t, l.Keys(func(k string, n int64) bool { return take(fmt.Sprint(k, n)) }))
			case "move": // the list may be changed while it is read
				require.NoError(t, l.Each(k, func(v string) bool {
					_, _, err := l.RemoveFirst(k)
					require.NoError(t, err)
					require.NoError(t, l.Append(k, v+"'"))
					return take(v)
				}))
			}
			n, err := l.Len(k)
			require.NoError(t, err)
			return c.Forward(k, fmt.Sprint(strings.Join(got, " "), " ", n))
		}, func(c *strCtx) (err error) { l, err = c.ListStore(def); return err }, def)
		at := int64(0)
		do := func(k, v, want string) {
			t.Helper()
			at++
			r.in(k, v, at)
			if want != "" {
				want = fmt.Sprintf("%s=%s@%d", k, want, at)
			}
			require.Equal(t, want, r.out())
			then(r)
		}
		do("a", "all", "| 0")
		do("a", "first", "false 0")
		do("a", "trim 0", "0 0")
		do("a", "append 1 2 3 4", "")
		do("aa", "append x", "")
		do("", "append y z", "")
		do("a", "all", "1 2 3 4 | 4 3 2 1 4")
		do("a", "first", "1true 3")
		do("a", "last", "4true 2")
		do("a", "append 5", "")
		do("a", "at", "false 2true 3true 5true false 3")
		do("a", "move", "2 3 5 3")
		do("a", "all", "2' 3' 5' | 5' 3' 2' 3")
		do("", "keys", "2 a3 aa1 2")
		do("a", "trim 2", "1 2")
		do("a", "trim 2", "0 2")
		require.Equal(t, []string{"3'", "5'"}, r.d.ListStore("l", str, str).Get("a"))
		do("a", "append "+strings.TrimSpace(strings.Repeat("w ", 100)), "")
		do("a", "trim 1", "101 1")
		do("a", "all", "w | w 1")
		do("a", "append v", "")
		do("a", "trim -5", "2 0")
		do("a", "all", "| 0")
		do("a", "append 9", "")
		do("a", "all", "9 | 9 1")
		do("aa", "last", "xtrue 0")
		require.Equal(t, []string{"", "a"}, r.d.ListStore("l", str, str).InPartition(0).Keys())
		require.Nil(t, r.d.ListStore("l", str, str).Get("aa"))
	})
}
