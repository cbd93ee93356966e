package main

import (
	"fmt"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// Flight is a record of topic flights, timestamped with its scheduled
// departure. All times are New York's, written as if they were UTC, so that a
// window of 24 hours is a local day.
type Flight struct {
	Carrier string `json:"carrier"`
	Number  int    `json:"flight"`
	Origin  string `json:"origin"`
	Dest    string `json:"dest"`
	// DepDelay is missing when the flight was cancelled, ArrDelay when it did
	// not reach its destination. Minutes.
	DepDelay *int `json:"dep_delay,omitempty"`
	ArrDelay *int `json:"arr_delay,omitempty"`
}

// RouteDay is what became of one carrier's flights on one route and day; it is
// the record of topic route-days.
type RouteDay struct {
	Day       string `json:"day,omitempty"`
	Carrier   string `json:"carrier"`
	Airline   string `json:"airline,omitempty"`
	Origin    string `json:"origin"`
	Dest      string `json:"dest"`
	Flights   int    `json:"flights"`
	Cancelled int    `json:"cancelled"`
	Arrived   int    `json:"arrived"`
	// Delay is the sum of the arrived flights' delays, in minutes.
	Delay int `json:"delay"`
}

// MeanDelay is the mean delay of the arrived flights, in minutes.
func (d RouteDay) MeanDelay() float64 { return float64(d.Delay) / float64(max(d.Arrived, 1)) }

// Topology describes what the service computes. The topics flights, airlines
// and route-days, each with the prefix, must exist.
func Topology(prefix string) (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	airlines := b.Table(prefix+"airlines", "airlines", serde.String(), serde.String())

	b.Stream(prefix+"flights", serde.String(), serde.JSON[Flight]()).
		GroupBy("by-route", route, serde.String()).
		WindowedBy(tidegate.Tumbling(24*time.Hour).Grace(6*time.Hour), tidegate.ByWindow).
		Aggregate("route-days", newRouteDay, addFlight, serde.JSON[RouteDay]()).
		ToStream().
		Map(byCarrier, tidegate.With(serde.String(), serde.JSON[RouteDay]())).
		JoinTable("with-airline", airlines, withAirline, serde.JSON[RouteDay]()).
		SelectKey(routeDayKey, serde.String()).
		To(prefix + "route-days")
	return b.Build()
}

// route is the key of the windowed aggregate.
func route(_ string, f Flight) string {
	return f.Carrier + " " + f.Origin + "-" + f.Dest
}

func newRouteDay() RouteDay { return RouteDay{} }

func addFlight(_ string, f Flight, d RouteDay) RouteDay {
	d.Carrier, d.Origin, d.Dest = f.Carrier, f.Origin, f.Dest
	d.Flights++
	if f.DepDelay == nil {
		d.Cancelled++
	}
	if f.ArrDelay != nil {
		d.Arrived++
		d.Delay += *f.ArrDelay
	}
	return d
}

// byCarrier is the key under which the table of airlines is joined.
func byCarrier(k tidegate.Windowed[string], d RouteDay) (string, RouteDay) {
	d.Day = time.UnixMilli(k.Start).UTC().Format(time.DateOnly)
	return d.Carrier, d
}

func withAirline(d RouteDay, name string) RouteDay {
	d.Airline = name
	return d
}

func routeDayKey(_ string, d RouteDay) string {
	return fmt.Sprintf("%s %s %s-%s", d.Day, d.Carrier, d.Origin, d.Dest)
}
