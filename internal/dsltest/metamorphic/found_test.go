package metamorphic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/tidegatetest"
)

// Both rows of a key go with one record: each side of the join, when it hears of
// it, no longer finds the other's row, and yet the result's row must go (seed 978).
func TestDependentTablesLoseARow(t *testing.T) {
	b := tidegate.NewBuilder()
	rows := b.Table("in", "rows", keys, nums)
	again := rows.ToStream().ToTable("copy")
	sinks := []string{"kept", "plain", "reverse"}
	again.Join(rows, pair, nums).Materialize("kept").ToStream().To("kept")
	again.Join(rows, pair, nums).ToStream().To("plain")
	rows.Join(again, pair, nums).ToStream().To("reverse")
	top, err := b.Build()
	require.NoError(t, err)
	d := tidegatetest.New(t, top)
	in := d.Input("in", keys, nums)
	in.Pipe("k", 1)
	in.Pipe("k", 0, tidegatetest.Tombstone())
	for _, topic := range sinks {
		all := d.Output(topic, keys, nums).ReadAll()
		require.NotEmpty(t, all, topic)
		require.True(t, all[len(all)-1].Tombstone, topic)
	}
}
