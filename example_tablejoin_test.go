package tidegate_test

import (
	"fmt"
	"testing"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// Names and cities of users, whoever of both is known.
func ExampleTable_OuterJoin() {
	b := tidegate.NewBuilder()
	names := b.Table("names", "names", serde.String(), serde.String())
	cities := b.Table("cities", "cities", serde.String(), serde.String())
	names.OuterJoin(cities, func(name, city tidegate.Opt[string]) string {
		return name.Or("someone") + " from " + city.Or("somewhere")
	}, serde.String()).ToStream().To("users")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		name := d.Input("names", serde.String(), serde.String())
		city := d.Input("cities", serde.String(), serde.String())
		name.Pipe("u1", "Ann")
		city.Pipe("u1", "Bonn")
		name.Pipe("u1", "", tidegatetest.Tombstone())
		for _, r := range d.Output("users", serde.String(), serde.String()).ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	})
	// Output:
	// u1 Ann from somewhere
	// u1 Ann from Bonn
	// u1 someone from Bonn
}

// The number of users per city, as they move.
func ExampleTable_GroupBy() {
	b := tidegate.NewBuilder()
	b.Table("cities", "cities", serde.String(), serde.String()).
		GroupBy("by-city", func(user, city string) (string, string) { return city, user }, serde.String(), serde.String()).
		Count("users-per-city").
		ToStream().To("counts")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		city := d.Input("cities", serde.String(), serde.String())
		city.Pipe("ann", "Bonn")
		city.Pipe("bob", "Bonn")
		city.Pipe("ann", "Rome")
		for _, r := range d.Output("counts", serde.String(), serde.Int64()).ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	})
	// Output:
	// Bonn 1
	// Bonn 2
	// Bonn 1
	// Rome 1
}
