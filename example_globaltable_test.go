package tidegate_test

import (
	"fmt"
	"testing"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// Flights know the number of their plane; a small table says what it is. The
// flights keep their key and partitions.
func ExampleStream_JoinGlobal() {
	b := tidegate.NewBuilder()
	planes := b.GlobalTable("planes", "planes", serde.String(), serde.String())
	b.Stream("flights", serde.String(), serde.String()).
		JoinGlobal(planes, func(_, tail string) string { return tail },
			func(tail, kind string) string { return kind + " " + tail }, serde.String()).
		To("known")
	topology, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	asTest(func(t testing.TB) {
		driver := tidegatetest.New(t, topology, tidegatetest.WithTopic("flights", 4), tidegatetest.WithTopic("known", 4))
		driver.Input("planes", serde.String(), serde.String()).Pipe("N512", "Boeing 737")
		flights := driver.Input("flights", serde.String(), serde.String())
		flights.Pipe("LH1", "N512")
		flights.Pipe("LH2", "N999")
		for _, r := range driver.Output("known", serde.String(), serde.String()).ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	})
	// Output: LH1 Boeing 737 N512
}
