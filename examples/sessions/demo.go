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
	folder, err := os.MkdirTemp("", "sessions")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	broker, err := embedded.Start(embedded.Options{Topics: map[string]int32{"views": 1, "visits": 1}})
	if err != nil {
		return err
	}
	defer broker.Close()
	if err := broker.Produce(ctx, "views", sampleViews()...); err != nil {
		return err
	}
	go func() {
		if err := broker.Consume(ctx, "visits", show); err != nil {
			log.Print(err)
		}
	}()
	return serve(ctx, broker.Addr(), filepath.Join(folder, "checkpoints"), filepath.Join(folder, "state"))
}

// sampleViews are two visits of ann and one of bob. The last view, hours later,
// moves stream time on, so that the visits before it end.
func sampleViews() []embedded.Record {
	morning := time.Date(2024, time.May, 6, 9, 0, 0, 0, time.UTC)
	view := func(user, page string, minute int) embedded.Record {
		return embedded.Record{
			Key: []byte(user), Value: []byte(page),
			Timestamp: morning.Add(time.Duration(minute) * time.Minute),
		}
	}
	return []embedded.Record{
		view("ann", "/home", 0),
		view("bob", "/home", 5),
		view("ann", "/cart", 10),
		view("ann", "/pay", 30),
		view("ann", "/home", 120),
		view("cid", "/home", 300),
	}
}

// show prints a record of the output.
func show(r embedded.Record) { fmt.Printf("%s %s\n", r.Key, r.Value) }
