package tidegatetest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// picky is a serde that refuses one value.
type picky struct{ serde.Serde[string] }

func (s picky) Append(dst []byte, v string) ([]byte, error) {
	if v == "refused" {
		return nil, errors.New("cannot encode that")
	}
	return s.Serde.Append(dst, v)
}

// What is refused when caches are written stops the driver, as it does a task at
// a barrier.
func TestErrorsOfFlushing(t *testing.T) {
	b := tidegate.NewBuilder()
	b.Stream("in", str, str).GroupByKey("g").
		Aggregate("kept", func() string { return "" }, func(_, v, _ string) string { return v }, picky{str})
	top := build(t, b)
	require.Contains(t, run(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		d.Input("in", str, str).Pipe("k", "refused")
		d.Restart()
	}), "cannot encode that")
	failed := run(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		d.Input("in", str, str).Pipe("k", "refused")
		d.Store("kept", str, str).All()
	})
	require.Contains(t, failed, `store "kept"`)
	require.Contains(t, failed, "cannot encode that")
}
