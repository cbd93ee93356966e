package stores_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

func TestKVScans(t *testing.T) { onEngines(t, testKVScans) }

func testKVScans(t *testing.T, opts []tidegatetest.Option) {
	def := tidegate.KeyValueStore("s", str, serde.Int64())
	wdef := tidegate.WindowStore("w", time.Hour, str, serde.Int64())
	var s *tidegate.KV[string, int64]
	var w *tidegate.WindowKV[string, int64]
	r := callsWith(t, opts, func(c *strCtx, _, _ string) error {
		got := []string{}
		take := func(k string, v int64) bool { got = append(got, fmt.Sprint(k, v)); return true }
		check := func(want string, err error) {
			require.NoError(t, err)
			require.Equal(t, want, strings.Join(got, " "))
			got = got[:0]
		}
		require.NoError(t, s.PutAll(maps.All(map[string]int64{"a": 1, "ab": 2, "b": 3, "\xff": 4, "\xffa": 5})))
		check("a1 ab2 b3 \xff4 \xffa5", s.All(take))
		check("\xffa5 \xff4 b3 ab2 a1", s.All(take, tidegate.Descending))
		check("a1 ab2", s.Range("a", "b", take))
		check("ab2 a1", s.Range("a", "b", take, tidegate.Descending))
		check("a1", s.Range("", "ab", take, tidegate.Ascending))
		check("", s.Range("b", "a", take))
		check("", s.Range("b", "b", take))
		check("a1 ab2", s.Prefix("a", str, take))
		check("\xffa5 \xff4", s.Prefix("\xff", str, take, tidegate.Descending))
		check("a1 ab2 b3 \xff4 \xffa5", s.Prefix("", str, take))
		old, had, err := s.PutIfAbsent("a", 9)
		require.Equal(t, int64(1), old)
		require.True(t, had)
		require.NoError(t, err)
		_, had, err = s.PutIfAbsent("c", 9)
		require.False(t, had)
		require.NoError(t, err)
		// A scan is not disturbed by what happens to the store.
		check("a1 ab2 b3 c9 \xff4 \xffa5", s.All(func(k string, v int64) bool {
			require.NoError(t, errors.Join(s.Delete(k), s.Put("z"+k, v)))
			return take(k, v)
		}))
		check("za1 zab2", s.Prefix("za", str, take))
		for i, k := range []string{"a", "b", "a"} {
			require.NoError(t, w.Put(k, int64(10*(i/2)), int64(i)))
		}
		wtake := func(start int64, k string, v int64) bool { return take(fmt.Sprint(start, k), v) }
		check("0a0 10a2 0b1", w.Range(0, 11, wtake))
		check("0b1 0a0", w.Range(0, 10, wtake, tidegate.Descending))
		return nil
	}, func(c *strCtx) (err error) {
		if s, err = c.Store(def); err != nil {
			return err
		}
		w, err = c.WindowStore(wdef)
		return err
	}, def, wdef)
	r.in("k", "v", 5)
}

func TestVersionedStoreInProcessor(t *testing.T) {
	def := tidegate.VersionedStore("s", 100*ms, str, str)
	var s *tidegate.VersionedKV[string, string]
	r := calls(t, func(c *strCtx, k, v string) error {
		ts := c.Record().Timestamp
		if v == "delete" {
			_, err := s.Delete(k, ts)
			return err
		}
		if v != "?" {
			stored, err := s.Put(k, v, ts)
			return errors.Join(err, c.Forward(k, fmt.Sprint(stored)))
		}
		v, at, ok, err := s.GetAsOf(k, ts)
		require.NoError(t, err)
		out := fmt.Sprint(v, at, ok)
		require.NoError(t, s.History(k, 0, 1<<60, func(v tidegate.Version[string]) bool {
			out += fmt.Sprint(";", v.Value, v.From)
			return true
		}, tidegate.Descending))
		v, at, ok, err = s.Get(k)
		return errors.Join(err, c.Forward(k, out+fmt.Sprint("|", v, at, ok)))
	}, func(c *strCtx) (err error) { s, err = c.VersionedStore(def); return err }, def)
	r.in("k", "a", 1000)
	r.in("k", "b", 1100)
	r.in("k", "c", 1050)
	r.in("k", "d", 999)
	require.Equal(t, "k=true@1000 k=true@1100 k=true@1050 k=false@999", r.out())
	require.Equal(t, int64(1), r.d.Late())
	r.d.Restart()
	r.in("k", "?", 1049)
	require.Equal(t, "k=a1000 true;b1100;c1050;a1000|b1100 true@1049", r.out())
	r.in("k", "delete", 1120)
	r.in("k", "?", 1119)
	require.Equal(t, "k=b1100 true;b1100;c1050;a1000|0 false@1119", r.out())
	st := r.d.VersionedStore("s", str, str)
	v, at, ok := st.GetAsOf("k", 1060)
	require.Equal(t, []any{"c", int64(1050), true}, []any{v, at, ok})
	_, _, ok = st.Get("k")
	require.False(t, ok)
	require.Equal(t, []tidegate.Version[string]{
		{From: 1000, To: 1050, Value: "a"}, {From: 1050, To: 1100, Value: "c"}, {From: 1100, To: 1120, Value: "b"},
	}, st.InPartition(0).History("k"))

	b := tidegate.NewBuilder()
	b.Stream("in", str, str).Process("p", func() strProc { return nil }, tidegate.VersionedStore("s", -1, str, str))
	_, err := b.Build()
	require.ErrorContains(t, err, `versioned store "s": history -1ns must be at least 1ms`)
}
