package tidegate_test

import (
	"fmt"
	"testing"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/tidegatetest"
)

// try runs a topology over lines of text, all in topic "in" with a key, and
// prints what is in a topic then.
func try(b *tidegate.Builder, out string, opts []tidegatetest.Option, pipe func(in *tidegatetest.Input[string, string])) {
	top, err := b.Build()
	if err != nil {
		panic(err)
	}
	asTest(func(t testing.TB) {
		d := tidegatetest.New(t, top, opts...)
		pipe(d.Input("in", serde.String(), serde.String()))
		for _, r := range d.Output(out, serde.String(), serde.String()).ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	})
}

// Large and small orders go different ways; the rest is left where it is.
func ExampleStream_Split() {
	b := tidegate.NewBuilder()
	orders := b.Stream("in", serde.String(), serde.String()).Split()
	large := orders.Branch("large", func(_, o string) bool { return len(o) > 5 })
	small := orders.Default()
	large.MapValues(func(o string) string { return o + " by lorry" }, serde.String()).
		Merge(small.MapValues(func(o string) string { return o + " by bike" }, serde.String())).
		To("shipped")

	try(b, "shipped", nil, func(in *tidegatetest.Input[string, string]) {
		in.Pipe("1", "pen")
		in.Pipe("2", "wardrobe")
	})
	// Output:
	// 1 pen by bike
	// 2 wardrobe by lorry
}

// Two topics as one stream.
func ExampleStream_Merge() {
	b := tidegate.NewBuilder()
	web := b.Stream("in", serde.String(), serde.String())
	app := b.Stream("app", serde.String(), serde.String())
	web.Merge(app).To("all")

	try(b, "all", nil, func(in *tidegatetest.Input[string, string]) { in.Pipe("ann", "click") })
	// Output: ann click
}

// Words are counted by their first letter: the key is changed, so the records go
// through the topic "<app>-by-letter-repartition".
func ExampleStream_GroupBy() {
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.String()).
		GroupBy("by-letter", func(_, word string) string { return word[:1] }, serde.String()).
		Count("letters").
		MapValues(func(n int64) string { return fmt.Sprint(n) }, serde.String()).
		ToStream().To("counts")

	try(b, "counts", nil, func(in *tidegatetest.Input[string, string]) {
		in.Pipe("1", "apple")
		in.Pipe("2", "ant")
		in.Pipe("3", "bee")
	})
	// Output:
	// a 1
	// a 2
	// b 1
}

// The stream is spread over more partitions than its topic has.
func ExampleStream_Repartition() {
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.String()).
		Repartition("wide", tidegate.Partitions(8), tidegate.PartitionBy(func(k string, n int32) int32 { return int32(len(k)) % n })).
		MapValuesCtx(func(c *tidegate.RecordContext, _, v string) (string, error) {
			return fmt.Sprint(v, " on ", c.Partition), nil
		}, serde.String()).
		To("out")

	try(b, "out", nil, func(in *tidegatetest.Input[string, string]) {
		in.Pipe("ann", "a")
		in.Pipe("otto", "b")
	})
	// Output:
	// ann a on 3
	// otto b on 4
}

// Each record names its topic.
func ExampleStream_ToDynamic() {
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.String()).
		ToDynamic(func(_ *tidegate.RecordContext, country, _ string) string { return "orders-" + country })

	topics := []tidegatetest.Option{tidegatetest.WithTopic("orders-de", 1), tidegatetest.WithTopic("orders-fr", 1)}
	try(b, "orders-de", topics, func(in *tidegatetest.Input[string, string]) {
		in.Pipe("fr", "wine")
		in.Pipe("de", "beer")
	})
	// Output: de beer
}
