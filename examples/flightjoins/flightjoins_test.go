package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// service is the topology under a driver.
type service struct {
	*tidegatetest.Driver
	flights    *tidegatetest.Input[string, Flight]
	weather    *tidegatetest.Input[string, Weather]
	airlines   *tidegatetest.Input[string, string]
	planes     *tidegatetest.Input[string, Plane]
	departures *tidegatetest.Output[string, Departure]
	delays     *tidegatetest.Output[string, Delays]
}

func newService(t *testing.T, opts ...tidegatetest.Option) *service {
	topology, err := Topology()
	require.NoError(t, err)
	driver := tidegatetest.New(t, topology, opts...)
	return &service{
		Driver:     driver,
		flights:    driver.Input("flights", serde.String(), serde.JSON[Flight]()),
		weather:    driver.Input("weather", serde.String(), serde.JSON[Weather]()),
		airlines:   driver.Input("airlines", serde.String(), serde.String()),
		planes:     driver.Input("planes", serde.String(), serde.JSON[Plane]()),
		departures: driver.Output("departures", serde.String(), serde.JSON[Departure]()),
		delays:     driver.Output("delays-by-wind", serde.String(), serde.JSON[Delays]()),
	}
}

// queue writes events; Run then takes them in the order of time.
func queue[V any](in *tidegatetest.Input[string, V], events []event[V]) {
	for _, e := range events {
		in.Queue(e.key, e.value, tidegatetest.AtTime(e.at))
	}
}

// The whole day gives what a direct computation over the files gives.
func TestDayEqualsADirectComputation(t *testing.T) {
	day, err := loadDay()
	require.NoError(t, err)
	s := newService(t, tidegatetest.WithPartitions(2))

	queue(s.airlines, day.airlines)
	queue(s.planes, day.planes)
	queue(s.weather, day.weather)
	half := len(day.flights) / 2
	queue(s.flights, day.flights[:half])
	s.Run()
	s.Restart()
	queue(s.flights, day.flights[half:])
	s.Run()
	s.AdvanceStreamTime(time.Date(2013, time.January, 4, 0, 0, 0, 0, time.UTC).UnixMilli())

	departures, delays := compute(day)
	require.Zero(t, s.Late())
	got := s.departures.ReadValues()
	require.Len(t, got, 842)
	require.ElementsMatch(t, departures, got)
	require.Equal(t, delays, tidegatetest.ReadMap(s.delays))
	require.Equal(t, 39, delays["not observed"].Flights)
}

// compute joins and sums with maps.
func compute(d day) ([]Departure, map[string]Delays) {
	airlines, planes, weather := map[string]string{}, map[string]Plane{}, map[string]Weather{}
	for _, e := range d.airlines {
		airlines[e.key] = e.value
	}
	for _, e := range d.planes {
		planes[e.key] = e.value
	}
	for _, e := range d.weather {
		weather[e.key+e.at.String()] = e.value
	}
	var departures []Departure
	delays := map[string]Delays{}
	for _, e := range d.flights {
		f := Departure{Flight: e.value, Airline: airlines[e.value.Carrier]}
		if w, ok := weather[e.value.Origin+e.at.Truncate(time.Hour).String()]; ok {
			f.Weather = &w
		}
		if p, ok := planes[e.value.Plane]; ok {
			f.Plane = &p
		}
		departures = append(departures, f)
		delays[wind("", f)] = addDelay("", f, delays[wind("", f)])
	}
	return departures, delays
}

func TestTheObservationOfTheHourBeforeIsJoined(t *testing.T) {
	s := newService(t)
	ten := time.Date(2013, time.January, 1, 10, 0, 0, 0, time.UTC)
	at := func(d time.Duration) tidegatetest.PipeOption { return tidegatetest.AtTime(ten.Add(d)) }

	s.airlines.Pipe("UA", "United", at(-time.Hour))
	s.weather.Pipe("JFK", Weather{Wind: 10}, at(0))
	s.flights.Pipe("UA1", Flight{Carrier: "UA", Number: "1", Origin: "JFK"}, at(0))
	s.flights.Pipe("UA2", Flight{Carrier: "UA", Number: "2", Origin: "JFK"}, at(time.Hour-time.Millisecond))
	s.flights.Pipe("UA3", Flight{Carrier: "UA", Number: "3", Origin: "JFK"}, at(time.Hour))
	s.weather.Pipe("JFK", Weather{Wind: 20}, at(time.Hour)) // comes behind its flight
	s.flights.Pipe("UA4", Flight{Carrier: "UA", Number: "4", Origin: "LGA"}, at(time.Hour))

	winds := map[string]float64{}
	for _, r := range s.departures.ReadAll() {
		winds[r.Key] = r.Value.Weather.Wind
	}
	require.Equal(t, map[string]float64{"UA1": 10, "UA2": 10, "UA3": 20}, winds)

	// Without an observation a flight waits until there can be none any more.
	s.AdvanceStreamTime(ten.Add(26 * time.Hour).UnixMilli())
	r, ok := s.departures.Read()
	require.True(t, ok)
	require.Equal(t, "UA4", r.Key)
	require.Nil(t, r.Value.Weather)
}

func TestAFlightOfAnUnknownAirlineIsDropped(t *testing.T) {
	s := newService(t)
	s.weather.Pipe("JFK", Weather{Wind: 10}, tidegatetest.At(0))
	s.flights.Pipe("XX1", Flight{Carrier: "XX", Number: "1", Origin: "JFK"}, tidegatetest.At(0))
	require.Zero(t, s.departures.Len())
}
