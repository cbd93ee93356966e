package tidegate

import (
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// StreamPattern reads all topics whose whole name matches a regular expression
// (package regexp's syntax) as one stream (StreamsBuilder.stream with a Pattern).
// RecordContext.Topic tells them apart. Internal topics are not among them (Kafka's
// own begin with two underscores), nor are topics that this topology writes with
// To.
//
// Topics are looked for when an instance starts. At least one must match then;
// the largest partition count is the number of tasks, and below a step with
// state all of them must have the same. All instances of an application read the
// topics that the leader of their consumer group found. One that is made later
// is told of in the log within a minute, and read once all instances were
// stopped and started again: from its group offset, else where FromEarliest,
// FromLatest or the application's offset reset says. It may not have more
// partitions than there are tasks. A pattern that matches a topic which another
// source names joins both into one subtopology; a topic that two other patterns
// bring into different ones is refused at the start.
func (b *Builder) StreamPattern[K, V any](
	pattern string, ks serde.Serde[K], vs serde.Serde[V], opts ...SourceOption,
) *Stream[K, V] {
	site := here()
	p, err := topology.NewPattern(pattern)
	if err != nil {
		b.t.Errorf(site, "StreamPattern: the pattern %q %v", pattern, err)
		p, _ = topology.NewPattern("x")
	}
	return stream(b, site, topology.Node{Pattern: p}, ks, vs, opts)
}
