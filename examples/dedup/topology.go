package main

import (
	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// Topology describes the service: it reads topic "payments", keyed by the
// payment's id, and writes to topic "payments-once" those that it did not see
// within the last hour.
func Topology() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()

	b.Stream("payments", serde.String(), serde.String()).
		// Records of one id must meet in one task. Here they do, as the id is
		// their key. If it were in the value, SelectKey(id, serde.String()) and
		// Repartition("by-id") would come first.
		ProcessValues("first-only", newDeduplicator, seen).
		// ProcessValues cannot know how the values that it forwards are to be
		// written: say it again.
		As(serde.String(), serde.String()).
		To("payments-once")

	return b.Build()
}
