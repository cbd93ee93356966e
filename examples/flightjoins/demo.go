package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tidegate/tidegate/embedded"
)

// demo runs the service over a broker in this process, with a day of flights. A
// service of your own does not need this file.
func demo(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "flightjoins")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	broker, err := embedded.Start(embedded.Options{Topics: map[string]int32{
		"flights": 2, "weather": 2, "airlines": 2, "planes": 2, "departures": 2, "delays-by-wind": 1,
	}})
	if err != nil {
		return err
	}
	defer broker.Close()
	if err := feed(ctx, broker); err != nil {
		return err
	}
	go func() {
		if err := broker.Consume(ctx, "departures", showDelayed); err != nil {
			log.Print(err)
		}
	}()
	return serve(ctx, broker.Addr(), filepath.Join(folder, "checkpoints"), filepath.Join(folder, "state"))
}

// feed writes the files into the topics.
func feed(ctx context.Context, broker *embedded.Broker) error {
	day, err := loadDay()
	if err != nil {
		return err
	}
	var airlines []embedded.Record
	for _, e := range day.airlines {
		airlines = append(airlines, embedded.Record{Key: []byte(e.key), Value: []byte(e.value), Timestamp: e.at})
	}
	planes, err := asJSON(day.planes)
	if err != nil {
		return err
	}
	weather, err := asJSON(day.weather)
	if err != nil {
		return err
	}
	flights, err := asJSON(day.flights)
	if err != nil {
		return err
	}
	for topic, records := range map[string][]embedded.Record{
		"airlines": airlines, "planes": planes, "weather": weather, "flights": flights,
	} {
		if err := broker.Produce(ctx, topic, records...); err != nil {
			return err
		}
	}
	return nil
}

// asJSON makes Kafka records of events.
func asJSON[V any](events []event[V]) ([]embedded.Record, error) {
	var records []embedded.Record
	for _, e := range events {
		value, err := json.Marshal(e.value)
		if err != nil {
			return nil, err
		}
		records = append(records, embedded.Record{Key: []byte(e.key), Value: value, Timestamp: e.at})
	}
	return records, nil
}

// showDelayed prints the departures that were more than three hours late.
func showDelayed(r embedded.Record) {
	var d Departure
	if err := json.Unmarshal(r.Value, &d); err != nil {
		log.Printf("departures, partition %d, offset %d: %v", r.Partition, r.Offset, err)
		return
	}
	if d.Flight.Delay == nil || *d.Flight.Delay <= 180 {
		return
	}
	wind, model := "not observed", "of unknown model"
	if d.Weather != nil {
		wind = fmt.Sprintf("%.0f mph", d.Weather.Wind)
	}
	if d.Plane != nil {
		model = d.Plane.Manufacturer + " " + d.Plane.Model
	}
	fmt.Printf("%s %s-%s %d min late, %s, wind %s, plane %s\n",
		r.Key, d.Flight.Origin, d.Flight.Dest, *d.Flight.Delay, d.Airline, wind, model)
}
