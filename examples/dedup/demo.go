package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/tidegate/tidegate/embedded"
)

// demo runs the service over a broker in this process, with sample data. A
// service of your own does not need this file.
func demo(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "dedup")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	broker, err := embedded.Start(embedded.Options{Topics: map[string]int32{"payments": 2, "payments-once": 2}})
	if err != nil {
		return err
	}
	defer broker.Close()
	if err := broker.Produce(ctx, "payments", samplePayments()...); err != nil {
		return err
	}
	go func() {
		if err := broker.Consume(ctx, "payments-once", show); err != nil {
			log.Print(err)
		}
	}()
	return serve(ctx, broker.Addr(), filepath.Join(folder, "checkpoints"), filepath.Join(folder, "state"))
}

// samplePayments has p1 three times, of which the last comes two hours later and
// so counts as another payment.
func samplePayments() []embedded.Record {
	noon := time.Date(2024, time.May, 6, 12, 0, 0, 0, time.UTC)
	payment := func(id, value string, minute int) embedded.Record {
		return embedded.Record{
			Key: []byte(id), Value: []byte(value),
			Timestamp: noon.Add(time.Duration(minute) * time.Minute),
		}
	}
	return []embedded.Record{
		payment("p1", "10 EUR", 0),
		payment("p2", "7 EUR", 1),
		payment("p1", "10 EUR again", 5),
		payment("p1", "10 EUR two hours later", 120),
	}
}

// show prints a record of the output.
func show(r embedded.Record) { fmt.Printf("%s %s\n", r.Key, r.Value) }
