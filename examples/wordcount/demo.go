package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tidegate/tidegate/embedded"
)

// demo runs the service over a broker in this process, with sample data. A
// service of your own does not need this file.
func demo(ctx context.Context, s settings) error {
	folder, err := os.MkdirTemp("", "wordcount")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	broker, err := embedded.Start(embedded.Options{Topics: map[string]int32{"lines": 2, "counts": 2}})
	if err != nil {
		return err
	}
	defer broker.Close()
	err = broker.Produce(ctx, "lines",
		embedded.Record{Value: []byte("To be, or not to be")},
		embedded.Record{Value: []byte("that is the question")})
	if err != nil {
		return err
	}
	go func() {
		if err := broker.Consume(ctx, "counts", show); err != nil {
			log.Print(err)
		}
	}()
	s.brokers, s.checkpoints, s.state = broker.Addr(), filepath.Join(folder, "checkpoints"), filepath.Join(folder, "state")
	return serve(ctx, s)
}

// show prints a record of the output.
func show(r embedded.Record) { fmt.Printf("%s %s\n", r.Key, r.Value) }
