package breaker_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/tidegatetest"
)

// Every window closes when stream time moves to the end of time, also behind
// repartition topics.
func TestEndOfTime(t *testing.T) {
	for _, at := range []int64{0, 1000, farthest} {
		for _, to := range []int64{at + 2000, math.MaxInt64 / 4, math.MaxInt64 - 1, math.MaxInt64} {
			for _, below := range []bool{false, true} {
				b := tidegate.NewBuilder()
				s := b.Stream("in", str, str)
				if below {
					s = s.Repartition("r")
				}
				send(s.GroupByKey("g").WindowedBy(tidegate.Sliding(10*ms), tidegate.ByWindow).EmitOnClose().Count("n"))
				top, err := b.Build()
				require.NoError(t, err)
				d := tidegatetest.New(t, top, tidegatetest.WithPartitions(2))
				d.Input("in", str, str).Pipe("k", "v", tidegatetest.At(at))
				d.AdvanceStreamTime(to)
				require.Len(t, d.Output("out", str, str).ReadAll(), 1, "from %d to %d, behind a topic %v", at, to, below)
			}
		}
	}
}
