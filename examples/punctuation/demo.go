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
	folder, err := os.MkdirTemp("", "punctuation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	broker, err := embedded.Start(embedded.Options{Topics: map[string]int32{"readings": 1, "alerts": 1}})
	if err != nil {
		return err
	}
	defer broker.Close()
	if err := broker.Produce(ctx, "readings", sampleReadings()...); err != nil {
		return err
	}
	go func() {
		if err := broker.Consume(ctx, "alerts", show); err != nil {
			log.Print(err)
		}
	}()
	return serve(ctx, broker.Addr(), filepath.Join(folder, "checkpoints"), filepath.Join(folder, "state"))
}

// sampleReadings are those of two sensors. The attic falls silent after a
// minute; the cellar goes on, so time does, too.
func sampleReadings() []embedded.Record {
	noon := time.Date(2024, time.May, 6, 12, 0, 0, 0, time.UTC)
	var list []embedded.Record
	for minute := range 12 {
		at := noon.Add(time.Duration(minute) * time.Minute)
		list = append(list, embedded.Record{Key: []byte("cellar"), Value: []byte("14.5"), Timestamp: at})
		if minute <= 1 || minute == 11 {
			list = append(list, embedded.Record{Key: []byte("attic"), Value: []byte("21.0"), Timestamp: at})
		}
	}
	return list
}

// show prints a record of the output.
func show(r embedded.Record) { fmt.Printf("%s %s\n", r.Key, r.Value) }
