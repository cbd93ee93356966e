package tidegate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// The event time lies in the record, not in Kafka's timestamp.
func ExampleTimestampFrom() {
	type reading struct{ Taken, Celsius int64 }
	b := tidegate.NewBuilder()
	b.Stream("readings", serde.String(), serde.JSON[reading](), tidegate.TimestampFrom(
		func(_ *tidegate.RecordContext, _ string, r tidegate.Opt[reading]) (int64, error) {
			return r.Or(reading{Taken: -1}).Taken, nil // a tombstone has no time
		}, tidegate.InvalidTakesPartitionTime)).
		GroupByKey("by-sensor").
		WindowedBy(tidegate.Tumbling(time.Minute).Grace(0), tidegate.ByWindow).
		Count("per-minute").ToStream().To("counts")
	topology, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	test := func(t testing.TB) {
		driver := tidegatetest.New(t, topology)
		in := driver.Input("readings", serde.String(), serde.JSON[reading]())
		for _, taken := range []int64{10_000, 50_000, 70_000} {
			in.Pipe("attic", reading{Taken: taken}, tidegatetest.At(999_999))
		}
		for _, r := range driver.Output("counts", serde.Windowed(serde.String(), time.Minute), serde.Int64()).ReadAll() {
			fmt.Println(r.Key.StartTime().Format("15:04"), r.Value, "at", r.Timestamp)
		}
	}
	asTest(test)
	// Output:
	// 00:00 1 at 10000
	// 00:00 2 at 50000
	// 00:01 1 at 70000
}
