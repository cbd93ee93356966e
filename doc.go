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
// # Topology
//
// A [Builder] collects steps: sources that read topics, steps that change
// records or keep state, sinks that write topics. Nothing runs while it is
// described. Its methods never fail: [Builder.Build] returns every mistake with
// the line of the program. The result is divided where records go through an
// internal topic, and each part runs once per partition, as a task;
// [Topology.Describe] shows the parts with their topics and stores.
//
// # Streams and tables
//
// A [Stream] is a sequence of independent records: Filter, Map, MapValues,
// FlatMap, SelectKey, Peek, [Stream.Split] and [Stream.Merge] work on one record
// at a time. A [Table] is the last value per key, and the stream of its changes;
// it comes from a topic, from a stream, or from an aggregation. [Builder.StreamOf]
// and [Builder.StreamPattern] read several topics as one stream:
//
//	users := b.Table("users", "users", serde.String(), serde.JSON[User]())
//	latest := clicks.ToTable("latest-clicks")
//	counts := clicks.GroupByKey("clicks").Count("counts")
//	counts.ToStream().To("counts")
//
// Where a function needs the record's headers, timestamp or topic, or may fail,
// use the step's Ctx form:
//
//	s.MapValuesCtx(func(rc *tidegate.RecordContext, k string, c Click) (Click, error) { … })
//
// # Keys and repartitioning
//
// Records of one key must meet in one task before they can be counted or joined.
// Steps that keep the key keep the partition; Map, FlatMap, SelectKey and GroupBy
// may change it. The next step that works by key then sends the records through
// an internal topic, "<app>-name-repartition", and goes on behind it.
// [Stream.Repartition] does so at once, with [Partitions] and [PartitionBy]. Keys
// are equal when their serialised bytes are, and the partition is Kafka's murmur2
// of them. Topics that are joined must have equal partition counts; where they
// have not, the application refuses to start and names both.
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
//	s.MapValues(func(c Click) int64 { return c.Price }, serde.Int64())
//
// # Null
//
// A record with a null value is a tombstone: it deletes the key of a table. With
// a plain V it passes Filter and MapValues and no function sees it; steps that
// need the value drop it and count it. With [serde.Nullable] V is an [Opt], and
// every function gets it. A missing side of a join is an Opt, too. [Stream] has
// the whole rule, also for null keys.
//
// # Time
//
// Steps reckon with event time: the record's timestamp, or what [TimestampFrom]
// finds in it. A task's stream time is the largest that it has seen; behind a
// repartition topic, the smallest of the upstream tasks', so that one that reads
// ahead makes nothing late. It never falls, and stands still while no record
// comes.
//
// # Aggregations and windows
//
// [Grouped] has Count, Reduce and Aggregate; [Grouped.Cogroup] folds several
// streams into one aggregate, [Table.GroupBy] the rows of a table, with a function
// that takes the old row out again. [Grouped.WindowedBy] divides a group into
// windows, [Grouped.SessionWindowedBy] into sessions:
//
//	g.WindowedBy(tidegate.Hopping(time.Hour, time.Minute).Grace(time.Minute), tidegate.ByWindow)
//	g.SessionWindowedBy(tidegate.Session(30*time.Minute), tidegate.ByWindow)
//
// The windows are [Tumbling], [Hopping], [Sliding], [Daily], [Monthly] and
// [Unlimited]. A window takes late records until stream time passed its end plus
// the grace; later ones are dropped, counted in Health.Late, and sent to LateTo.
// Every update goes downstream. EmitOnClose sends only the last one, and
// [Table.Suppress] does the same for any table, or sends the newest update per
// key after a time:
//
//	counts.Suppress("final", tidegate.UntilWindowCloses())
//	counts.Suppress("calm", tidegate.UntilTimeLimit(time.Minute))
//
// # Joins
//
// [Stream.JoinStream] joins records that lie within a time of each other,
// [Stream.JoinTable] looks a record's key up in a table, and [Table.Join] keeps
// the joined rows of two tables up to date, as [Table.JoinForeignKey] does for rows
// that name the other's key. All have Left forms, and Outer ones where both sides
// may be alone:
//
//	clicks.JoinTable("with-user", users, func(c Click, u User) Seen { … }, serde.JSON[Seen]())
//
// A [Builder.VersionedTable] is joined as it was at the record's time. A
// [Builder.GlobalTable] is there as a whole on every instance: [Stream.JoinGlobal]
// finds its rows by any key, without a repartition topic.
//
// # Processors and stores
//
// What the DSL lacks is written as a [Processor]: [Stream.Process] and
// [Stream.ProcessValues] give it stores, timers in stream time or wall-clock time,
// and further outputs. Kafka Streams' KTable.transformValues is
//
//	table.ToStream().ProcessValues(…).ToTable("name")
//
// State is in memory or on disk (see [WithStateStore]) and belongs to the step
// that names it. It is part of every checkpoint: after a failure, state, input
// positions and output go back to the same point together.
//
// # Errors
//
// A record that cannot be decoded, or whose function fails or panics, ends the
// application with the step, its line, topic, partition and offset. With
// [WithFailureHandler] it can be skipped and counted instead; state is then as if
// the record had not come. What a user function does outside of tidegate is
// repeated after a failure.
//
// # Running
//
//	app, err := tidegate.New(topology,
//		tidegate.WithApplicationID("clicks"),
//		tidegate.WithBrokers("localhost:9092"),
//		tidegate.WithCheckpointDir("/var/lib/clicks"))
//	err = app.Run(ctx) // until ctx ends, or a failure that a restart does not mend
//
// Input and output topics must exist; internal ones are made. Start more
// instances with the same application id and they share the tasks. Readers of the
// output must read committed: it becomes visible with each checkpoint
// ([WithCheckpointInterval]).
//
// # Testing
//
// Package tidegatetest runs a topology without a broker, record by record, with
// the same steps and stores as in production:
//
//	d := tidegatetest.New(t, topology)
//	in := d.Input("clicks", serde.String(), serde.JSON[Click]())
//	in.Pipe("ann", Click{OK: true}, tidegatetest.At(1_000))
//	d.Restart() // as after a stop: state must survive
//	d.AdvanceStreamTime(120_000)
//
// The pages in docs/guide go further: joins and windows record by record, serdes,
// names, tests, and every method of Kafka Streams beside tidegate's.
// docs/differences.md lists where results differ from Kafka Streams', and why.
// Services to copy from are in examples/.
package tidegate
