package main

import (
	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// Topology describes the service: it reads topic "readings", keyed by sensor,
// and writes to topic "alerts" when a sensor fell silent and when it is back.
func Topology() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()

	b.Stream("readings", serde.String(), serde.String()).
		// The processor opens the store "last-reading", so it is named here.
		Process("watch", newWatcher, lastReading).
		// A processor may forward any keys and values: say how they are written.
		As(serde.String(), serde.String()).
		To("alerts")

	return b.Build()
}
