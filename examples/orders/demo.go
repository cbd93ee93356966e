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
func demo(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "orders")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	broker, err := embedded.Start(embedded.Options{Topics: map[string]int32{"orders": 2, "customers": 1, "shipments": 2}})
	if err != nil {
		return err
	}
	defer broker.Close()
	err = broker.Produce(ctx, "customers",
		embedded.Record{Key: []byte("c1"), Value: []byte(`{"name":"Ann","city":"Bonn"}`)},
		embedded.Record{Key: []byte("c2"), Value: []byte(`{"name":"Bob","city":"Rome"}`)})
	if err != nil {
		return err
	}
	err = broker.Produce(ctx, "orders",
		embedded.Record{Key: []byte("o1"), Value: []byte(`{"customer":"c1","item":"tea"}`)},
		embedded.Record{Key: []byte("o2"), Value: []byte(`{"customer":"c2","item":"pen"}`)},
		embedded.Record{Key: []byte("o3"), Value: []byte(`{"customer":"c1","item":"cup"}`)},
		embedded.Record{Key: []byte("o4"), Value: []byte(`{"customer":"c9","item":"hat"}`)})
	if err != nil {
		return err
	}
	go func() {
		if err := broker.Consume(ctx, "shipments", show); err != nil {
			log.Print(err)
		}
	}()
	return serve(ctx, broker.Addr(), filepath.Join(folder, "checkpoints"), filepath.Join(folder, "state"))
}

// show prints a record of the output.
func show(r embedded.Record) { fmt.Printf("%s %s\n", r.Key, r.Value) }
