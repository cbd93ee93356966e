package tidegatetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// A test of a topology that counts visits per page and minute.
func ExampleNew() {
	test := func(t testing.TB) { // in a package: func TestVisits(t *testing.T)
		b := tidegate.NewBuilder()
		b.Stream("visits", serde.String(), serde.String()).
			GroupBy("by-page", func(_, page string) string { return page }, serde.String()).
			WindowedBy(tidegate.Tumbling(time.Minute).Grace(10*time.Second), tidegate.ByWindow).
			Count("visits-per-minute").ToStream().To("counts")
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}

		driver := tidegatetest.New(t, topology)
		visits := driver.Input("visits", serde.String(), serde.String())
		counts := driver.Output("counts", serde.Windowed(serde.String(), time.Minute), serde.Int64())

		visits.Pipe("ann", "/home", tidegatetest.At(1_000))
		visits.Pipe("bob", "/home", tidegatetest.At(59_000), tidegatetest.Header("trace", []byte("7")))
		driver.Restart() // state survives
		visits.Pipe("ann", "/home", tidegatetest.At(61_000))
		for _, r := range counts.ReadAll() {
			fmt.Println(r.Key.Key, r.Key.StartTime().Format("15:04"), r.Value, len(r.Headers))
		}

		n, _ := driver.WindowStore("visits-per-minute", serde.String(), serde.Int64()).Get("/home", 0)
		fmt.Println("stored:", n)
		driver.AdvanceStreamTime(200_000)
		visits.Pipe("ann", "/home", tidegatetest.At(62_000))
		fmt.Println("late:", driver.Late())
	}
	fmt.Print(run(test)) // go test does this
	// Output:
	// /home 00:00 1 0
	// /home 00:00 2 1
	// /home 00:01 1 0
	// stored: 2
	// late: 1
}

// Queued records show which of its inputs a task takes first: the one with the
// smallest timestamp.
func ExampleInput_Queue() {
	test := func(t testing.TB) {
		b := tidegate.NewBuilder()
		prices := b.Table("prices", "prices", serde.String(), serde.String())
		b.Stream("orders", serde.String(), serde.String()).
			JoinTable("priced", prices, func(order, price string) string { return order + " for " + price }, serde.String()).
			To("priced-orders")
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}

		driver := tidegatetest.New(t, topology, tidegatetest.WithAllOutputRead())
		driver.Input("orders", serde.String(), serde.String()).Queue("7", "a book", tidegatetest.At(20))
		driver.Input("prices", serde.String(), serde.String()).Queue("7", "12.50", tidegatetest.At(10))
		driver.Run()
		fmt.Println(tidegatetest.ReadMap(driver.Output("priced-orders", serde.String(), serde.String())))
	}
	fmt.Print(run(test))
	// Output:
	// map[7:a book for 12.50]
}
