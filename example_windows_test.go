package tidegate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// Visits per user in windows of ten minutes, of which one begins every five.
func ExampleHopping() {
	b := tidegate.NewBuilder()
	b.Stream("visits", serde.String(), serde.String()).
		GroupByKey("by-user").
		WindowedBy(tidegate.Hopping(10*time.Minute, 5*time.Minute), tidegate.ByWindow).
		Count("visits").
		ToStream().To("counts")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		visits := d.Input("visits", serde.String(), serde.String()).StartAt(0, 6*time.Minute)
		visits.Pipe("ann", "/home")
		visits.Pipe("ann", "/cart")
		for _, r := range d.Output("counts", serde.Windowed(serde.String(), 10*time.Minute), serde.Int64()).ReadAll() {
			fmt.Println(r.Key.Key, r.Key.StartTime().Format("15:04"), r.Key.EndTime().Format("15:04"), r.Value)
		}
	})
	// Output:
	// ann 00:00 00:10 1
	// ann 00:00 00:10 2
	// ann 00:05 00:15 1
}

// The highest of the temperatures that a sensor measured within 30 seconds.
func ExampleSliding() {
	b := tidegate.NewBuilder()
	b.Stream("temperatures", serde.String(), serde.Int64()).
		GroupByKey("by-sensor").
		WindowedBy(tidegate.Sliding(30*time.Second).Grace(time.Minute), tidegate.ByWindow).
		Reduce("highest", func(a, v int64) int64 { return max(a, v) }).
		ToStream().To("out")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		in := d.Input("temperatures", serde.String(), serde.Int64())
		in.Pipe("s1", 21, tidegatetest.At(60_000))
		in.Pipe("s1", 19, tidegatetest.At(70_000))
		for _, r := range d.Output("out", serde.Windowed(serde.String(), 30*time.Second), serde.Int64()).ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	})
	// Output:
	// [s1@30000/60000] 21
	// [s1@60001/90001] 19
	// [s1@40000/70000] 21
}

// The pages of a visit, which ends after half an hour without a page.
func ExampleSession() {
	b := tidegate.NewBuilder()
	b.Stream("pages", serde.String(), serde.String()).
		GroupByKey("by-user").
		SessionWindowedBy(tidegate.Session(30*time.Minute).Grace(time.Minute), tidegate.ByWindow).
		EmitOnClose().
		Reduce("visits", func(a, page string) string { return a + " " + page }).
		ToStream().To("visits")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		pages := d.Input("pages", serde.String(), serde.String()).StartAt(0, 20*time.Minute)
		pages.Pipe("ann", "/home")
		pages.Pipe("ann", "/cart")
		pages.Pipe("ann", "/pay")
		d.AdvanceStreamTime((3 * time.Hour).Milliseconds())
		for _, r := range d.Output("visits", serde.WindowedSpan(serde.String()), serde.String()).ReadAll() {
			fmt.Println(r.Key.Key, r.Key.StartTime().Format("15:04"), r.Key.EndTime().Format("15:04"), r.Value)
		}
	})
	// Output:
	// ann 00:00 00:40 /home /cart /pay
}

// One result per page and day of Berlin, and what comes too late for it.
func ExampleTimeWindowed_EmitOnClose() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	b := tidegate.NewBuilder()
	b.Stream("visits", serde.String(), serde.String()).
		GroupByKey("by-page").
		WindowedBy(tidegate.Daily(berlin).Grace(time.Hour), tidegate.ByWindow).
		EmitOnClose().
		LateTo(func(late *tidegate.Stream[string, string]) { late.To("late") }).
		Count("visits-per-day").
		ToStream().To("counts")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		at := func(d, h int) tidegatetest.PipeOption {
			return tidegatetest.At(time.Date(2024, time.March, d, h, 0, 0, 0, berlin).UnixMilli())
		}
		visits := d.Input("visits", serde.String(), serde.String())
		visits.Pipe("/home", "ann", at(30, 23))
		visits.Pipe("/home", "bob", at(31, 1)) // the clocks change in that night
		visits.Pipe("/home", "cid", at(31, 23))
		visits.Pipe("/home", "dan", at(30, 12))
		d.AdvanceStreamTime(time.Date(2024, time.April, 2, 0, 0, 0, 0, berlin).UnixMilli())
		for _, r := range d.Output("counts", serde.WindowedSpan(serde.String()), serde.Int64()).ReadAll() {
			fmt.Println(r.Key.Key, r.Key.StartTime().In(berlin).Format("2 Jan"), r.Key.EndTime().Sub(r.Key.StartTime()), r.Value)
		}
		for _, r := range d.Output("late", serde.String(), serde.String()).ReadAll() {
			fmt.Println("late:", r.Value)
		}
	})
	// Output:
	// /home 30 Mar 24h0m0s 1
	// /home 31 Mar 23h0m0s 2
	// late: dan
}
