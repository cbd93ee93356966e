package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/dsltest/partial"
)

// Output of what runs goes on for as long as the restore of other tasks takes.
func TestOutputGoesOnWhileOthersRestore(t *testing.T) {
	k := servers.RequireKafka(t)
	partial.RunLong(t, k.Brokers(), fmt.Sprintf("partial-long-%d", time.Now().UnixNano()), "a-second")
}

// Tasks of one region of a topology fail on a real broker: the other region
// processes no record twice and its committed output keeps flowing (R26).
func TestOtherRegionGoesOn(t *testing.T) {
	k := servers.RequireKafka(t)
	for _, place := range partial.Places {
		t.Run(place, func(t *testing.T) {
			partial.Run(t, k.Brokers(), fmt.Sprintf("partial-%s-%d", place, time.Now().UnixNano()), place)
		})
	}
}
