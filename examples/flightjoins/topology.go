package main

import (
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// Flight is a record of topic "flights", timestamped with the scheduled
// departure and keyed by carrier and number.
type Flight struct {
	Carrier string `json:"carrier"`
	Number  string `json:"number"`
	Plane   string `json:"plane"` // tail number; "" where it is not known
	Origin  string `json:"origin"`
	Dest    string `json:"dest"`
	Delay   *int   `json:"delay,omitempty"` // minutes; none for a cancelled flight
}

// Weather is a record of topic "weather": an observation, timestamped with its
// hour and keyed by airport.
type Weather struct {
	Temperature float64 `json:"temperature"` // °F
	Wind        float64 `json:"wind"`        // miles per hour
	Visibility  float64 `json:"visibility"`  // miles
}

// Plane is a row of topic "planes", keyed by tail number.
type Plane struct {
	Manufacturer string `json:"manufacturer"`
	Model        string `json:"model"`
	Seats        int    `json:"seats"`
}

// Departure is a flight with all that is known about it; it is the record of
// topic "departures".
type Departure struct {
	Flight  Flight   `json:"flight"`
	Airline string   `json:"airline"`
	Weather *Weather `json:"weather,omitempty"` // none where nothing was observed
	Plane   *Plane   `json:"plane,omitempty"`   // none where it is not known
}

// Delays sum up departures; it is a row of topic "delays-by-wind".
type Delays struct {
	Flights   int `json:"flights"`
	Cancelled int `json:"cancelled"`
	Minutes   int `json:"minutes"` // of all flights that left
}

// Topology describes the service.
func Topology() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()

	flights := b.Stream("flights", serde.String(), serde.JSON[Flight]())
	weather := b.Stream("weather", serde.String(), serde.JSON[Weather]())
	airlines := b.Table("airlines", "airlines", serde.String(), serde.String())
	planes := b.Table("planes", "planes", serde.String(), serde.JSON[Plane]())

	// The observation of a flight is the one at most an hour before it, at its
	// airport. The grace is how late either may be, and how long a flight
	// without an observation waits for one.
	observed := tidegate.JoinWithin(0).Before(time.Hour - time.Millisecond).Grace(24 * time.Hour)

	// Each join needs the key that the other side has, so each begins with
	// SelectKey, and goes through a topic of its own.
	departures := flights.
		SelectKey(origin, serde.String()).
		LeftJoinStream("weather-at-departure", weather, observed, withWeather, serde.JSON[Departure]()).
		SelectKey(carrier, serde.String()).
		JoinTable("airline-of-flight", airlines, withAirline, serde.JSON[Departure]()).
		SelectKey(tailNumber, serde.String()).
		LeftJoinTable("plane-of-flight", planes, withPlane, serde.JSON[Departure]())

	departures.
		SelectKey(flightKey, serde.String()).
		To("departures")

	departures.
		GroupBy("by-wind", wind, serde.String()).
		Aggregate("delays", newDelays, addDelay, serde.JSON[Delays]()).
		ToStream().
		To("delays-by-wind")

	return b.Build()
}

// The keys.

func origin(_ string, f Flight) string        { return f.Origin }
func carrier(_ string, d Departure) string    { return d.Flight.Carrier }
func tailNumber(_ string, d Departure) string { return d.Flight.Plane }
func flightKey(_ string, d Departure) string  { return d.Flight.Carrier + d.Flight.Number }

// wind divides departures by the strength of the wind.
func wind(_ string, d Departure) string {
	switch {
	case d.Weather == nil:
		return "not observed"
	case d.Weather.Wind < 8:
		return "calm"
	case d.Weather.Wind < 19:
		return "breeze"
	default:
		return "strong"
	}
}

// The joins.

// withWeather gets a missing Opt for a flight without an observation.
func withWeather(f Flight, w tidegate.Opt[Weather]) Departure {
	d := Departure{Flight: f}
	if weather, ok := w.Get(); ok {
		d.Weather = &weather
	}
	return d
}

func withAirline(d Departure, name string) Departure {
	d.Airline = name
	return d
}

func withPlane(d Departure, p tidegate.Opt[Plane]) Departure {
	if plane, ok := p.Get(); ok {
		d.Plane = &plane
	}
	return d
}

// The aggregate.

func newDelays() Delays { return Delays{} }

func addDelay(_ string, d Departure, sum Delays) Delays {
	sum.Flights++
	if d.Flight.Delay == nil {
		sum.Cancelled++
	} else {
		sum.Minutes += *d.Flight.Delay
	}
	return sum
}
