package guide

import (
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// Flight is a record of topic "flights".
type Flight struct {
	Carrier   string `json:"carrier"`
	Cancelled bool   `json:"cancelled"`
	Airline   string `json:"airline,omitempty"`
}

// Topology is the migration guide's example.
func Topology() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	airlines := b.Table("airlines", "airlines", serde.String(), serde.String())

	b.Stream("flights", serde.String(), serde.JSON[Flight]()).
		Filter(func(_ string, f Flight) bool { return !f.Cancelled }).
		SelectKey(func(_ string, f Flight) string { return f.Carrier }, serde.String()).
		JoinTable("with-airline", airlines, withAirline, serde.JSON[Flight]()).
		GroupBy("by-airline", func(_ string, f Flight) string { return f.Airline }, serde.String()).
		WindowedBy(tidegate.Tumbling(time.Hour).Grace(10*time.Minute), tidegate.ByWindow).
		Count("departures").
		Suppress("final", tidegate.UntilWindowCloses()).
		ToStream().
		To("departures-per-hour")

	return b.Build()
}

func withAirline(f Flight, airline string) Flight {
	f.Airline = airline
	return f
}
