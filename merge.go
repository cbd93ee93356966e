package tidegate

import "github.com/tidegate/tidegate/topology"

// BuilderOption changes how a Builder turns steps into topics.
type BuilderOption func(*Builder)

// MergeRepartitions lets steps share a repartition topic that would write the
// same records to several (Kafka Streams' topology.optimization with
// merge.repartition.topics). It is off by default.
//
// A step shares a topic when an earlier step repartitioned the same stream, that
// is, the very value that a method returned, with the same serdes; a
// [Stream.Repartition] without PartitionBy counts as an earlier step. The topic
// keeps the name of the step described first, so a step described later renames
// nothing. Two calls of GroupBy make two streams, since Go cannot compare their
// functions: use SelectKey once and GroupByKey twice.
//
// Without this option the same is had by hand: several aggregations of one
// [Grouped] share its topic, and so does all that follows one Repartition. Two
// calls of Repartition always have two topics.
func MergeRepartitions() BuilderOption { return func(b *Builder) { b.merge = true } }

// repartitioned is a stream that a repartition topic already carries.
type repartitioned struct {
	stream     any // *Stream[K, V]
	name       string
	key, value string // fingerprints
}

// offer lets later steps share the repartition topic that carries s as out.
func offer[K, V any](s, out *Stream[K, V], name string) {
	if !s.b.merge || missing(out.ks) || missing(out.vs) {
		return
	}
	s.b.carried[s.n] = append(s.b.carried[s.n], repartitioned{out, name, out.ks.Fingerprint(), out.vs.Fingerprint()})
}

// shared returns the stream behind a repartition topic that already carries s,
// or nil.
func shared[K, V any](s *Stream[K, V], by string) *Stream[K, V] {
	if missing(s.ks) || missing(s.vs) {
		return nil
	}
	for _, r := range s.b.carried[s.n] {
		out, ok := r.stream.(*Stream[K, V])
		if ok && r.key == s.ks.Fingerprint() && r.value == s.vs.Fingerprint() {
			s.b.t.ShareStep(r.name, by)
			return out
		}
	}
	return nil
}

// carriedStreams are the streams in repartition topics, by the node they leave.
type carriedStreams map[*topology.Node][]repartitioned
