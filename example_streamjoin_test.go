package tidegate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// Orders with their payments, which come up to an hour later; an order that was
// not paid by then comes alone.
func ExampleStream_LeftJoinStream() {
	b := tidegate.NewBuilder()
	orders := b.Stream("orders", serde.String(), serde.String())
	payments := b.Stream("payments", serde.String(), serde.String())
	orders.LeftJoinStream("paid", payments, tidegate.JoinWithin(0).After(time.Hour).Grace(time.Minute),
		func(order string, payment tidegate.Opt[string]) string {
			return order + " " + payment.Or("unpaid")
		}, serde.String()).To("settled")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		order := d.Input("orders", serde.String(), serde.String())
		payment := d.Input("payments", serde.String(), serde.String())
		order.Pipe("o1", "a book", tidegatetest.At(0))
		order.Pipe("o2", "a lamp", tidegatetest.At(60_000))
		payment.Pipe("o2", "by card", tidegatetest.At(120_000))
		d.AdvanceStreamTime(2 * time.Hour.Milliseconds())
		for _, r := range d.Output("settled", serde.String(), serde.String()).ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	})
	// Output:
	// o2 a lamp by card
	// o1 a book unpaid
}

// Clicks with the name of who clicked. Clicks come by session, so they are
// repartitioned by user on their way to the table.
func ExampleStream_JoinTable() {
	b := tidegate.NewBuilder()
	names := b.Table("users", "names", serde.String(), serde.String())
	// Key and value are session and user.
	b.Stream("clicks", serde.String(), serde.String()).
		SelectKey(func(_, user string) string { return user }, serde.String()).
		JoinTable("with-name", names, func(user, name string) string { return user + " is " + name }, serde.String()).
		To("named")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top, tidegatetest.WithPartitions(2))
		d.Input("users", serde.String(), serde.String()).Pipe("u1", "Ann")
		click := d.Input("clicks", serde.String(), serde.String())
		click.Pipe("session-1", "u1")
		click.Pipe("session-2", "nobody")
		fmt.Println(d.Output("named", serde.String(), serde.String()).ReadValues())
	})
	// Output:
	// [u1 is Ann]
}

// Sales at the price of their time, also where the change of a price comes first.
func ExampleBuilder_VersionedTable() {
	b := tidegate.NewBuilder()
	prices := b.VersionedTable("prices", "prices", 24*time.Hour, serde.String(), serde.Int64())
	b.Stream("sales", serde.String(), serde.Int64()).
		JoinTable("priced", prices, func(pieces, price int64) int64 { return pieces * price }, serde.Int64()).
		To("amounts")
	top, err := b.Build()
	if err != nil {
		panic(err)
	}

	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top)
		price := d.Input("prices", serde.String(), serde.Int64())
		price.Pipe("tea", 3, tidegatetest.At(1_000))
		price.Pipe("tea", 4, tidegatetest.At(5_000))
		d.Input("sales", serde.String(), serde.Int64()).Pipe("tea", 10, tidegatetest.At(2_000))
		fmt.Println(d.Output("amounts", serde.String(), serde.Int64()).ReadValues())
	})
	// Output:
	// [30]
}
