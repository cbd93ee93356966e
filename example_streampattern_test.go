package tidegate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// Every region has a topic of its own; a pattern reads all of them.
func ExampleBuilder_StreamPattern() {
	b := tidegate.NewBuilder()
	b.StreamPattern("orders-[a-z]+", serde.String(), serde.String()).
		MapValuesCtx(func(c *tidegate.RecordContext, _, order string) (string, error) {
			return strings.TrimPrefix(c.Topic, "orders-") + ": " + order, nil
		}, serde.String()).
		To("all-orders")
	topology, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	asTest(func(t testing.TB) {
		// The driver has the topics that WithTopic declares.
		driver := tidegatetest.New(t, topology, tidegatetest.WithTopic("orders-eu", 1), tidegatetest.WithTopic("orders-us", 1))
		driver.Input("orders-eu", serde.String(), serde.String()).Pipe("1", "tea")
		driver.Input("orders-us", serde.String(), serde.String()).Pipe("2", "coffee")
		for _, r := range driver.Output("all-orders", serde.String(), serde.String()).ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	})
	// Output:
	// 1 eu: tea
	// 2 us: coffee
}
