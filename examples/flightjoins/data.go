package main

import (
	"bytes"
	"embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"time"
)

//go:embed data/*.csv
var files embed.FS

// event is a record of one of the files.
type event[V any] struct {
	key   string
	at    time.Time
	value V
}

// day is everything in the files, each list in the order of time. The rows of
// the tables come before all flights.
type day struct {
	airlines []event[string]
	planes   []event[Plane]
	weather  []event[Weather]
	flights  []event[Flight]
}

// loadDay reads the files.
func loadDay() (day, error) {
	var d day
	begin := time.Date(2013, time.January, 1, 0, 0, 0, 0, time.UTC)
	err := readRows("airlines", func(row []string) error {
		d.airlines = append(d.airlines, event[string]{row[0], begin, row[1]})
		return nil
	})
	if err != nil {
		return d, err
	}
	err = readRows("planes", func(row []string) error {
		seats, err := strconv.Atoi(row[4])
		d.planes = append(d.planes, event[Plane]{row[0], begin, Plane{Manufacturer: row[2], Model: row[3], Seats: seats}})
		return err
	})
	if err != nil {
		return d, err
	}
	err = readRows("weather", func(row []string) error {
		at, err := time.Parse(time.RFC3339, row[0])
		if err != nil {
			return err
		}
		var w Weather
		for n, field := range []*float64{&w.Temperature, &w.Wind, &w.Visibility} {
			if *field, err = strconv.ParseFloat(row[2+n], 64); err != nil {
				return err
			}
		}
		d.weather = append(d.weather, event[Weather]{row[1], at, w})
		return nil
	})
	if err != nil {
		return d, err
	}
	err = readRows("flights", func(row []string) error {
		at, err := time.Parse(time.RFC3339, row[0])
		if err != nil {
			return err
		}
		f := Flight{Carrier: row[1], Number: row[2], Plane: row[3], Origin: row[4], Dest: row[5]}
		if row[6] != "" {
			minutes, err := strconv.Atoi(row[6])
			if err != nil {
				return err
			}
			f.Delay = &minutes
		}
		d.flights = append(d.flights, event[Flight]{row[1] + row[2], at, f})
		return nil
	})
	return d, err
}

// readRows calls f with every row of a file but the first, which has the names
// of the columns.
func readRows(name string, f func(row []string) error) error {
	file, err := files.ReadFile("data/" + name + ".csv")
	if err != nil {
		return err
	}
	rows, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for n, row := range rows[1:] {
		if err := f(row); err != nil {
			return fmt.Errorf("%s, row %d: %w", name, n+1, err)
		}
	}
	return nil
}
