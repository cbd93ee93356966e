package tidegate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/serde/avroserde"
	"github.com/tidegate/tidegate/serde/registry"
	"github.com/tidegate/tidegate/serde/registry/registrytest"
)

type visit struct {
	Page string `avro:"page"`
	N    int64  `avro:"n"`
}

func visits(t *testing.T, c *registry.Client) (*run, serde.Serde[visit]) {
	s := avroserde.Registry[visit](c, registry.ValueSubject("visits"), avroserde.MustSchemaFor[visit]())
	b := tidegate.NewBuilder()
	b.Stream("visits", str, s).
		GroupBy("by-page", func(_ string, v visit) string { return v.Page }, str).
		Reduce("totals", func(a, v visit) visit { a.N += v.N; return a }).
		ToStream().MapValues(func(v visit) string { return itoa(v.N) }, str).To("totals")
	return start(t, b, map[string]int32{"visits": 2}), s
}

// A registry's serde serves a topic, a repartition topic and a store, through a
// restart.
func TestRegistrySerdeInATopology(t *testing.T) {
	server := registrytest.New(t)
	r, s := visits(t, server.Client(t))
	pipe := func(page string, n, ts int64) {
		b, err := s.Append(nil, visit{page, n})
		require.NoError(t, err)
		r.in("visits", "k", string(b), ts)
	}
	pipe("a", 1, 1)
	pipe("b", 5, 2)
	require.NoError(t, r.d.Restart())
	pipe("a", 2, 3)
	require.Equal(t, "a=1@1 b=5@2 a=3@3", r.out("totals"))
	require.Equal(t, []string{"visits-value"}, server.Subjects())
	require.Equal(t, 1, server.Requests(), "the schema is asked for once")
}

// A record that cannot be read for lack of a registry is not skipped; one with a
// wrong id is.
func TestARegistryThatIsAwaySkipsNothing(t *testing.T) {
	skip := func(r *run) *[]error {
		var got []error
		r.d.Skip = func(e *operators.RecordError) bool { got = append(got, e); return true }
		return &got
	}
	server := registrytest.New(t)
	r, _ := visits(t, server.Client(t))
	skipped := skip(r)
	r.in("visits", "k", "\x00\x00\x00\x00\x09", 1)
	require.Len(t, *skipped, 1)
	require.ErrorContains(t, (*skipped)[0], "cannot decode record")
	require.ErrorContains(t, (*skipped)[0], "get the schema of id 9")

	away, err := registry.New("http://127.0.0.1:1", registry.WithAttempts(1, 0))
	require.NoError(t, err)
	r, _ = visits(t, away)
	skipped = skip(r)
	err = r.pipe("visits", "k", "\x00\x00\x00\x00\x01", 1)
	require.ErrorIs(t, err, serde.ErrUnavailable)
	require.Empty(t, *skipped)
}
