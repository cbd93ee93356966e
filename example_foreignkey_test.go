package tidegate_test

import (
	"fmt"
	"testing"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// Orders with the names of their customers, also when a name changes.
func ExampleTable_JoinForeignKey() {
	type order struct{ Item, Customer string }
	b := tidegate.NewBuilder()
	orders := b.Table("orders", "orders", serde.Int64(), serde.JSON[order]())
	customers := b.Table("customers", "customers", serde.String(), serde.String())
	orders.JoinForeignKey("with-customer", customers,
		func(_ int64, o order) (string, bool) { return o.Customer, o.Customer != "" },
		func(o order, name string) string { return o.Item + " for " + name },
		serde.String(),
	).ToStream().To("labels")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		order1 := order{"tea", "c1"}
		d.Input("orders", serde.Int64(), serde.JSON[order]()).Pipe(1, order1)
		customer := d.Input("customers", serde.String(), serde.String())
		customer.Pipe("c1", "Ann")
		customer.Pipe("c1", "Anna")
		customer.Pipe("c1", "", tidegatetest.Tombstone())
		for _, r := range d.Output("labels", serde.Int64(), serde.String()).ReadAll() {
			fmt.Println(r.Key, r.Value, r.Tombstone)
		}
	})
	// Output:
	// 1 tea for Ann false
	// 1 tea for Anna false
	// 1  true
}
