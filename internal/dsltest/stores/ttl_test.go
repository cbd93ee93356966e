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

// ttlRun answers "get" with the value or a miss; other values are put.
func ttlRun(t *testing.T, opts []tidegatetest.Option, options ...tidegate.TTLOption) *run {
	t.Helper()
	def := tidegate.KeyValueStore("s", str, str).TTL(100*ms, options...)
	var s *tidegate.KV[string, string]
	return callsWith(t, opts, func(c *strCtx, k, v string) error {
		switch v {
		case "get":
			v, ok, err := s.Get(k)
			require.NoError(t, err)
			if !ok {
				require.Empty(t, v)
				v = "miss"
			}
			return c.Forward(k, v)
		case "delete":
			return s.Delete(k)
		case "all":
			var all []string
			require.NoError(t, s.All(func(k, v string) bool { all = append(all, k+v); return true }, tidegate.Descending))
			require.NoError(t, s.Range("b", "d", func(k, v string) bool { all = append(all, k+v); return true }))
			n, err := s.ApproximateLen()
			require.NoError(t, err)
			return c.Forward(k, fmt.Sprint(strings.Join(all, " "), " ", n))
		case "?":
			_, had, err := s.PutIfAbsent(k, "new")
			require.NoError(t, err)
			return c.Forward(k, fmt.Sprint(had))
		}
		return s.Put(k, v)
	}, func(c *strCtx) (err error) { s, err = c.Store(def); return err }, def)
}

// onEnginesRestarting also runs a test with a checkpoint and a restore after
// every step.
func onEnginesRestarting(t *testing.T, f func(t *testing.T, opts []tidegatetest.Option, then func(*run))) {
	t.Helper()
	onEngines(t, func(t *testing.T, opts []tidegatetest.Option) {
		t.Run("straight", func(t *testing.T) { f(t, opts, func(*run) {}) })
		t.Run("restarting", func(t *testing.T) { f(t, opts, func(r *run) { r.d.Restart() }) })
	})
}

func TestTTL(t *testing.T) {
	// Values at times; "get" has a wanted answer.
	type step struct {
		at    int64
		value string
		want  string
	}
	for name, test := range map[string]struct {
		options []tidegate.TTLOption
		steps   []step
	}{
		"write refreshes": {steps: []step{
			{0, "a", ""}, {20, "get", "a"}, {50, "b", ""}, {120, "get", "b"},
			{170, "c", ""}, {220, "get", "c"}, {300, "get", "miss"},
		}},
		"at its end": {steps: []step{{0, "a", ""}, {99, "get", "a"}, {100, "get", "miss"}}},
		"return until cleaned": {
			options: []tidegate.TTLOption{tidegate.ReturnUntilCleaned},
			steps:   []step{{0, "a", ""}, {120, "get", "a"}, {121, "get", "miss"}},
		},
		"read refreshes": {
			options: []tidegate.TTLOption{tidegate.RefreshOnRead},
			steps:   []step{{0, "a", ""}, {50, "get", "a"}, {120, "get", "a"}, {250, "get", "miss"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEnginesRestarting(t, func(t *testing.T, opts []tidegatetest.Option, then func(*run)) {
				r := ttlRun(t, opts, test.options...)
				for _, s := range test.steps {
					r.in("k", s.value, s.at)
					want := ""
					if s.want != "" {
						want = fmt.Sprintf("k=%s@%d", s.want, s.at)
					}
					require.Equal(t, want, r.out(), "at %d", s.at)
					then(r)
				}
				// Physically gone, with its row of the index.
				r.d.AdvanceStreamTime(325)
				require.Empty(t, r.d.Store("s", str, str).All())
				r.in("k", "all", 325)
				require.Equal(t, "k= 0@325", r.out())
			})
		})
	}
}

// Scans hide what is expired, deletion leaves nothing, and an expired entry that
// is not cleaned yet can be put again.
func TestTTLScans(t *testing.T) {
	onEnginesRestarting(t, func(t *testing.T, opts []tidegatetest.Option, then func(*run)) {
		r := ttlRun(t, opts)
		for i, k := range []string{"a", "b", "c", "d"} {
			r.in(k, "1", int64(10*i))
			then(r)
		}
		r.in("c", "delete", 40)
		then(r)
		r.in("c", "delete", 41)
		r.in("x", "all", 42)
		require.Equal(t, "x=d1 b1 a1 b1 3@42", r.out())
		then(r)
		r.in("c", "2", 50)
		r.in("a", "2", 60)
		then(r)
		r.in("x", "all", 115)
		require.Equal(t, "x=d1 c2 a2 c2 4@115", r.out(), "b is expired, and counted until it is cleaned")
		then(r)
		r.in("d", "?", 129)
		r.in("d", "?", 130)
		r.in("d", "?", 131)
		require.Equal(t, "d=true@129 d=false@130 d=true@131", r.out())
		then(r)
		at, ok := r.d.Store("s", str, str).UpdatedAt("d")
		require.Equal(t, int64(130), at)
		require.True(t, ok)
		r.d.AdvanceStreamTime(229)
		require.Equal(t, []tidegatetest.KeyValue[string, string]{tidegatetest.KV("d", "new")}, r.d.Store("s", str, str).All())
		r.d.AdvanceStreamTime(9_223_372_036_854)
		require.Empty(t, r.d.Store("s", str, str).All())
		r.in("x", "all", 9_223_372_036_854)
		require.Equal(t, "x= 0@9223372036854", r.out())
	})
}

func TestTTLMistakes(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).Process("p", func() strProc { return nil }, tidegate.KeyValueStore("s", str, serde.Int64()).TTL(0))
	_, err := b.Build()
	require.ErrorContains(t, err, `store "s": the TTL 0s must be at least 1ms`)
}
