// Package tidegate is a library for stateful stream processing on Kafka in the
// manner of Kafka Streams: a service describes a topology with a typed DSL and
// runs it; more instances of the service share the work. State and output are
// exactly-once, by checkpoints with in-band barriers as Flink takes them, whose
// state goes to a directory or S3.
//
//	b := tidegate.NewBuilder()
//	b.Stream("clicks", serde.String(), serde.JSON[Click]()).
//		Filter(func(_ string, c Click) bool { return c.OK }).
//		GroupBy("by-user", func(_ string, c Click) string { return c.User }, serde.String()).
//		WindowedBy(tidegate.Tumbling(time.Minute).Grace(5*time.Second), tidegate.ByWindow).
//		Count("clicks-per-minute").
//		ToStream().
//		To("clicks-per-minute")
//	topology, err := b.Build()
//
// # Names
//
// Every step that keeps state or may need a repartition topic takes its name as
// a parameter. The name identifies the step in checkpoints and in the names of
// topics, so it must stay the same from release to release of a service; steps
// without a name can be added and removed freely. Topology.Describe shows all
// topics and stores that follow.
//
// # Types and serdes
//
// Streams and tables carry their key and value types. A step that makes a new
// key or value loses the serde, even where the type stays the same. It is needed
// only where the key or value reaches a topic or a store: give it to the step, or
// restate it with As. Build names the step that lost it.
//
// # Null
//
// See Stream for what happens to null keys and values.
package tidegate
