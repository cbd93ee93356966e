package partial_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/dsltest/partial"
)

func TestOtherRegionGoesOn(t *testing.T) {
	for _, place := range partial.Places {
		t.Run(place, func(t *testing.T) {
			b, err := embedded.Start(embedded.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { _ = b.Close() })
			partial.Run(t, []string{b.Addr()}, "app", place)
		})
	}
}

func TestOutputGoesOnWhileOthersRestore(t *testing.T) {
	for _, place := range partial.Places {
		t.Run(place, func(t *testing.T) {
			b, err := embedded.Start(embedded.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { _ = b.Close() })
			partial.RunLong(t, []string{b.Addr()}, "app", place)
		})
	}
}

func TestSurvivorGoesOn(t *testing.T) {
	b, err := embedded.Start(embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	partial.RunKilled(t, []string{b.Addr()}, "app")
}
