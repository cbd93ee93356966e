package tidegate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// The words of each user, as a list in a store.
func ExampleGrouped_Aggregate() {
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.String()).
		GroupByKey("by-user").
		Aggregate("words",
			func() []string { return nil },
			func(_, word string, words []string) []string { return append(words, word) },
			serde.JSON[[]string]()).
		MapValues(func(words []string) string { return fmt.Sprint(words) }, serde.String()).
		ToStream().To("lists")

	try(b, "lists", nil, func(in *tidegatetest.Input[string, string]) {
		in.Pipe("ann", "hello")
		in.Pipe("ann", "world")
	})
	// Output:
	// ann [hello]
	// ann [hello world]
}

// Orders and payments change one balance, each in its own way.
func ExampleGrouped_Cogroup() {
	b := tidegate.NewBuilder()
	orders := b.Stream("orders", serde.String(), serde.Int64()).GroupByKey("orders")
	payments := b.Stream("payments", serde.String(), serde.Int64()).GroupByKey("payments")
	orders.Cogroup(func(_ string, cents, balance int64) int64 { return balance - cents }).
		Cogroup(payments, func(_ string, cents, balance int64) int64 { return balance + cents }).
		Aggregate("balances", func() int64 { return 0 }, serde.Int64()).
		ToStream().To("balances")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		d.Input("orders", serde.String(), serde.Int64()).Pipe("ann", 500)
		d.Input("payments", serde.String(), serde.Int64()).Pipe("ann", 700)
		for _, r := range d.Output("balances", serde.String(), serde.Int64()).ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	})
	// Output:
	// ann -500
	// ann 200
}

// One result per minute and key, when nothing can change it any more.
func ExampleTable_Suppress() {
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.String()).
		GroupByKey("by-user").
		WindowedBy(tidegate.Tumbling(time.Minute).Grace(10*time.Second), tidegate.ByWindow).
		Count("per-minute").
		Suppress("final", tidegate.UntilWindowCloses()).
		ToStream().
		Map(func(w tidegate.Windowed[string], n int64) (string, string) {
			return w.Key, fmt.Sprint(w.StartTime().Format("15:04"), " ", n)
		}, tidegate.With(serde.String(), serde.String())).
		To("out")

	try(b, "out", nil, func(in *tidegatetest.Input[string, string]) {
		in.Pipe("ann", "x", tidegatetest.At(1_000))
		in.Pipe("ann", "y", tidegatetest.At(65_000))
		in.Pipe("ann", "z", tidegatetest.At(59_000)) // within the grace
		in.Pipe("bob", "x", tidegatetest.At(70_000)) // closes the first minute
	})
	// Output: ann 00:00 2
}
