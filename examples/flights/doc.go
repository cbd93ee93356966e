// Command flights computes, for every route and day of a January of flights
// from New York, how many flights there were, how many were cancelled and how
// late they arrived, with the name of the airline joined in.
//
//	go run ./examples/flights
//
// is a demonstration that needs nothing else: it hosts a Kafka-compatible
// broker in its own process, feeds the flights, runs three instances of the
// service as child processes, kills one of them with SIGKILL while records
// flow, starts it again, and compares what a read_committed consumer sees with
// a computation over the file. It fails unless both are equal.
//
//	go run ./examples/flights -brokers 127.0.0.1:9092 -store s3://bucket/prefix
//
// is the same on a real Kafka, in topics and with an application id of its
// own, which stay there. Without -store, checkpoints go to a folder.
//
//	go run ./examples/flights -serve -brokers kafka:9092 -store s3://bucket/prefix
//
// is one instance of the service, as one would deploy it. Start more to share
// the work.
//
// # Files
//
// To copy for a service of your own: topology.go (what is computed) and
// service.go (how it runs). They import what any user can import.
//
//	main.go      flags
//	demo.go      the demonstration, step by step
//	children.go  child processes and what they log
//	feed.go      the file, and its records in Kafka
//	check.go     the same computation over the file, and the comparison
//	table.go     the printed results
//
// The latter reach into the project's internal packages to produce and
// consume; a service needs no Kafka client of its own.
package main
