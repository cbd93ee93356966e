package main

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // the data
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/testkit"
)

var (
	//go:embed data/january.csv.gz
	januaryFile []byte
	//go:embed data/airlines.csv
	airlinesFile []byte
)

// departure is a flight with its scheduled departure.
type departure struct {
	at time.Time
	f  Flight
}

// loadFlights reads the first days of the file.
func loadFlights(days int) ([]departure, error) {
	z, err := gzip.NewReader(bytes.NewReader(januaryFile))
	if err != nil {
		return nil, fmt.Errorf("flights: %w", err)
	}
	var out []departure
	err = eachRow(z, func(r map[string]string) error {
		day, err := strconv.Atoi(r["day"])
		if err != nil || day > days {
			return err
		}
		clock, err := strconv.Atoi(r["sched_dep_time"])
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(r["flight"])
		if err != nil {
			return err
		}
		out = append(out, departure{
			at: time.Date(2013, time.January, day, clock/100, clock%100, 0, 0, time.UTC),
			f: Flight{
				Carrier: r["carrier"], Number: number, Origin: r["origin"], Dest: r["dest"],
				DepDelay: minutes(r["dep_delay"]), ArrDelay: minutes(r["arr_delay"]),
			},
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("flights: %w", err)
	}
	return out, nil
}

func minutes(s string) *int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil
	}
	return &n
}

// loadAirlines reads the names by carrier.
func loadAirlines() (map[string]string, error) {
	names := map[string]string{}
	err := eachRow(bytes.NewReader(airlinesFile), func(r map[string]string) error {
		names[r["carrier"]] = r["name"]
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("airlines: %w", err)
	}
	return names, nil
}

// eachRow calls f with every row of a CSV file, by column.
func eachRow(r io.Reader, f func(map[string]string) error) error {
	in := csv.NewReader(r)
	columns, err := in.Read()
	if err != nil {
		return err
	}
	for {
		row, err := in.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		m := make(map[string]string, len(row))
		for n, c := range columns {
			m[c] = row[n]
		}
		if err := f(m); err != nil {
			return err
		}
	}
}

// message is a record in the partition that any Kafka producer would choose.
func message(key string, value []byte, at time.Time, partitions int32) testkit.Message {
	return testkit.Message{
		Partition: ids.Partition([]byte(key), partitions), Key: []byte(key), Value: value, Timestamp: at.UnixMilli(),
	}
}

// feedAirlines writes the table. Its timestamps lie before all flights: a task
// takes the record with the smallest timestamp first, so every flight finds
// its airline.
func feedAirlines(ctx context.Context, c *testkit.Client, topic string, names map[string]string) error {
	var list []testkit.Message
	for carrier, name := range names {
		list = append(list, message(carrier, []byte(name), time.Date(2013, time.January, 1, 0, 0, 0, 0, time.UTC), airlinePartitions))
	}
	return c.Produce(ctx, topic, list)
}

// feedFlights writes the flights evenly over a time, and counts them.
func feedFlights(ctx context.Context, c *testkit.Client, topic string, flights []departure, pace time.Duration, fed *atomic.Int64) error {
	const every = 100 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	begun := time.Now()
	for done := 0; done < len(flights); {
		due := min(len(flights), 1+int(float64(len(flights))*float64(time.Since(begun))/float64(pace)))
		var list []testkit.Message
		for _, d := range flights[done:due] {
			value, err := json.Marshal(d.f)
			if err != nil {
				return err
			}
			list = append(list, message(fmt.Sprint(d.f.Carrier, d.f.Number), value, d.at, flightPartitions))
		}
		if len(list) > 0 {
			if err := c.Produce(ctx, topic, list); err != nil {
				return fmt.Errorf("feed flights: %w", err)
			}
		}
		done = due
		fed.Store(int64(done))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
