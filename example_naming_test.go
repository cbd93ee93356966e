package tidegate_test

import (
	"fmt"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

func ExampleTopology_InternalTopics() {
	b := tidegate.NewBuilder()
	b.Stream("clicks", serde.String(), serde.String()).
		GroupBy("by-page", func(_, page string) string { return page }, serde.String()).
		Count("visits")
	top, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, topic := range top.InternalTopics("shop", tidegate.Changelog) {
		fmt.Println(topic.Kind, topic.Name)
	}
	for _, store := range top.Stores() {
		fmt.Println("store", store.Name, store.Key, store.Value)
	}
	// Output:
	// repartition shop-by-page-repartition
	// changelog shop-visits-changelog
	// store visits string int64
}

func ExampleMergeRepartitions() {
	b := tidegate.NewBuilder(tidegate.MergeRepartitions())
	byPage := b.Stream("clicks", serde.String(), serde.String()).
		SelectKey(func(_, page string) string { return page }, serde.String())
	byPage.GroupByKey("first").Count("visits")
	byPage.GroupByKey("second").Reduce("latest", func(_, page string) string { return page })
	top, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, topic := range top.InternalTopics("shop", tidegate.Barrier) {
		fmt.Println(topic.Name, topic.SharedBy)
	}
	// Output:
	// shop-control []
	// shop-first-repartition [second]
}

func ExampleTopology_Mermaid() {
	b := tidegate.NewBuilder()
	b.Stream("in", serde.String(), serde.String()).To("out")
	top, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(top.Mermaid())
	// Output:
	// flowchart LR
	//   t0(["in"])
	//   t1(["out"])
	//   subgraph sub0["Subtopology 0"]
	//     n0["source-0"]
	//     n1["sink-1"]
	//   end
	//   t0 --> n0
	//   n0 --> n1
	//   n1 --> t1
}
