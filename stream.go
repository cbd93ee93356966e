package tidegate

import (
	"iter"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// Stream is a stream of records with typed keys and values (Kafka Streams'
// KStream). Its methods describe steps; nothing runs before App.Run.
//
// # Null
//
// A record whose value is null (a tombstone) passes Filter, MapValues,
// FlatMapValues, Peek and the branches of a Split unchanged, without a call of
// the user's function. Steps that derive a new key (Map, FlatMap, SelectKey,
// GroupBy) cannot do so without the value: they drop it and count it.
// Aggregations skip it, tables delete. Who wants to see tombstones reads the
// topic with serde.Nullable and V = Opt[T]; then every function gets them.
// A null key is the zero K in functions; tables and aggregations drop such a
// record and count it. Health.NullDropped has the count.
//
// # Functions
//
// User functions run on the task's goroutine, one call at a time per task, and
// must not keep RecordContext or byte slices after they return. Tasks run side
// by side, so functions that share a variable must guard it. The Ctx form of
// a step gets the RecordContext and may return an error. Errors and panics go
// to the application's failure handler with topic, partition and offset.
type Stream[K, V any] struct {
	from
	ks serde.Serde[K]
	vs serde.Serde[V]
}

// As restates the serdes after a step that changed the types. A key serde of
// another format counts as a change of the key.
func (s *Stream[K, V]) As(ks serde.Serde[K], vs serde.Serde[V]) *Stream[K, V] {
	site := here()
	ks, vs = given(s.b, site, "key", ks), given(s.b, site, "value", vs)
	f := s.from
	if s.ks != nil && s.ks.Fingerprint() != ks.Fingerprint() {
		f.rekeyed = true
	}
	return &Stream[K, V]{from: f, ks: ks, vs: vs}
}

// Filter keeps the records for which f is true.
func (s *Stream[K, V]) Filter(f func(K, V) bool) *Stream[K, V] {
	return s.same(s.stateless("filter", here(), f == nil, operators.Filter(f, true)))
}

// FilterNot drops the records for which f is true.
func (s *Stream[K, V]) FilterNot(f func(K, V) bool) *Stream[K, V] {
	return s.same(s.stateless("filter-not", here(), f == nil, operators.Filter(f, false)))
}

// MapValues replaces the value. The key and so the partitioning stay. The
// optional serde is needed where the value reaches a topic or a store.
func (s *Stream[K, V]) MapValues[V2 any](f func(V) V2, vs ...serde.Serde[V2]) *Stream[K, V2] {
	return withValue(s, "MapValues", here(), f == nil, operators.MapValues[K](f), vs)
}

// Map replaces key and value. Where a later step needs records by key, they are
// repartitioned.
func (s *Stream[K, V]) Map[K2, V2 any](f func(K, V) (K2, V2), serdes ...Serdes[K2, V2]) *Stream[K2, V2] {
	return withBoth(s, "Map", here(), f == nil, operators.Map(f), serdes)
}

// FlatMap replaces a record by any number of records, in the order of the
// sequence. Where a later step needs records by key, they are repartitioned.
func (s *Stream[K, V]) FlatMap[K2, V2 any](f func(K, V) iter.Seq2[K2, V2], serdes ...Serdes[K2, V2]) *Stream[K2, V2] {
	return withBoth(s, "FlatMap", here(), f == nil, operators.FlatMap(f), serdes)
}

// FlatMapValues replaces a record by any number of records with the same key;
// slices.Values makes a sequence of a slice.
func (s *Stream[K, V]) FlatMapValues[V2 any](f func(V) iter.Seq[V2], vs ...serde.Serde[V2]) *Stream[K, V2] {
	return withValue(s, "FlatMapValues", here(), f == nil, operators.FlatMapValues[K](f), vs)
}

// SelectKey replaces the key. Where a later step needs records by key, they are
// repartitioned.
func (s *Stream[K, V]) SelectKey[K2 any](f func(K, V) K2, ks ...serde.Serde[K2]) *Stream[K2, V] {
	return withKey(s, "SelectKey", here(), f == nil, operators.SelectKey(f), ks)
}

// Peek calls f for every record and passes the record on.
func (s *Stream[K, V]) Peek(f func(K, V)) *Stream[K, V] {
	return s.same(s.stateless("peek", here(), f == nil, operators.Peek(f)))
}

// ForEach calls f for every record. What f does outside of tidegate is not part
// of a checkpoint: after a failure it is called again for some records.
func (s *Stream[K, V]) ForEach(f func(K, V)) {
	s.stateless("for-each", here(), f == nil, operators.ForEach(f))
}

// Merge joins two streams into one, without any order between them. The
// result has this stream's serdes, or the other's where this one's are unknown.
func (s *Stream[K, V]) Merge(other *Stream[K, V]) *Stream[K, V] {
	site := here()
	f := s.from
	if other == nil || other.b != s.b {
		s.b.t.Errorf(site, "Merge: the other stream is nil or comes from another Builder")
		return s
	}
	out := &Stream[K, V]{ks: s.ks, vs: s.vs}
	f.n = s.b.t.Add(topology.Node{
		Op: "merge", Site: site, Parents: []*topology.Node{s.n, other.n}, Factory: operators.Merge[K, V](),
	})
	f.rekeyed = s.rekeyed || other.rekeyed
	if out.ks == nil {
		out.ks = other.ks
	} else if other.ks != nil && other.ks.Fingerprint() != out.ks.Fingerprint() {
		f.rekeyed = true
	}
	if out.vs == nil {
		out.vs = other.vs
	}
	out.from = f
	return out
}

// Repartition writes the stream to the internal topic "<app>-name-repartition"
// and goes on from there, partitioned by its key. See Partitions and
// PartitionBy.
func (s *Stream[K, V]) Repartition(name string, opts ...RepartitionOption) *Stream[K, V] {
	site := here()
	var o outputOptions
	for _, opt := range opts {
		if opt == nil {
			s.b.t.Errorf(site, "Repartition(%q): an option is nil: leave it out", name)
			continue
		}
		opt.repartition(&o)
	}
	if o.hasPartitions && o.partitions <= 0 {
		s.b.t.Errorf(site, "Repartition(%q): Partitions(%d) must be positive", name, o.partitions)
	}
	s.b.t.ClaimStep(name, site)
	out := repartition(s, site, name, o)
	if o.partitioner == nil {
		offer(s, out, name)
	}
	return out
}

// repartition adds a repartition step whose name is claimed.
func repartition[K, V any](s *Stream[K, V], site topology.Site, name string, o outputOptions) *Stream[K, V] {
	step := "repartitioning for " + name
	ks, vs := needKey(s.from, site, step, s.ks), needValue(s.from, site, step, s.vs)
	n := s.b.t.AddRepartition(s.n, topology.Repartition{
		Name: name, Partitions: o.partitions, Key: serdeInfo(ks), Value: serdeInfo(vs), Site: site,
	}, operators.RepartitionSink(name, ks, vs, partitionerOf[K](s.b, site, o)), operators.Source(ks, vs))
	return &Stream[K, V]{from: from{b: s.b, n: n}, ks: ks, vs: vs}
}

// byKey returns the stream partitioned by its key, with a repartition step
// where the key was changed.
func byKey[K, V any](s *Stream[K, V], site topology.Site, name string) *Stream[K, V] {
	if !s.rekeyed {
		return s
	}
	if out := shared(s, name); out != nil {
		return out
	}
	out := repartition(s, site, name, outputOptions{})
	offer(s, out, name)
	return out
}

// To writes the stream to a topic, which must exist. Headers and timestamps go
// along; the partition is Kafka's murmur2 of the key's bytes.
func (s *Stream[K, V]) To(topic string, opts ...SinkOption) {
	site := here()
	if topic == "" { // no node has that name but that of ToDynamic
		s.b.t.Errorf(site, "To: the topic name is empty: name a topic, or use ToDynamic")
	}
	ks, vs, part := s.sink("To("+topic+")", site, opts)
	s.add(topology.Node{
		Kind: topology.Sink, Op: "sink", Site: site, SinkTopic: topic,
		Factory: operators.Sink(topic, ks, vs, part),
	})
}

// ToDynamic writes each record to the topic that f names (Kafka Streams'
// TopicNameExtractor). The topics must exist. Tombstones of a plain V are
// dropped and counted, since f cannot see them: use serde.Nullable.
func (s *Stream[K, V]) ToDynamic(f func(*RecordContext, K, V) string, opts ...SinkOption) {
	site := here()
	if f == nil {
		s.b.t.Errorf(site, "ToDynamic: the function is nil")
	}
	ks, vs, part := s.sink("ToDynamic", site, opts)
	s.add(topology.Node{
		Kind: topology.Sink, Op: "sink-dynamic", Site: site,
		Factory: operators.DynamicSink(f, ks, vs, part),
	})
}

func (s *Stream[K, V]) sink(step string, site topology.Site, opts []SinkOption) (serde.Serde[K], serde.Serde[V], func(K, int32) int32) {
	var o outputOptions
	for _, opt := range opts {
		if opt == nil {
			s.b.t.Errorf(site, "%s: an option is nil: leave it out", step)
			continue
		}
		opt.sink(&o)
	}
	return needKey(s.from, site, step, s.ks), needValue(s.from, site, step, s.vs), partitionerOf[K](s.b, site, o)
}

// same is this stream after a step that changes no type.
func (s *Stream[K, V]) same(f from) *Stream[K, V] { return &Stream[K, V]{from: f, ks: s.ks, vs: s.vs} }

func last[T any](b *Builder, site topology.Site, op, what string, given []serde.Serde[T]) serde.Serde[T] {
	switch len(given) {
	case 0:
		return nil
	case 1:
		if given[0] == nil {
			b.t.Errorf(site, "%s: the %s serde is nil: leave it out, or pass one", op, what)
			return noSerde[T]{}
		}
	default:
		b.t.Errorf(site, "%s: %d %s serdes given, want one", op, len(given), what)
	}
	return given[0]
}

func withValue[K, V, V2 any](
	s *Stream[K, V], op string, site topology.Site, missing bool, fac operators.Factory, vs []serde.Serde[V2],
) *Stream[K, V2] {
	v2 := last(s.b, site, op, "value", vs)
	f := s.stateless(kebab[op], site, missing, fac).lose(op, site, false, v2 == nil)
	return &Stream[K, V2]{from: f, ks: s.ks, vs: v2}
}

func withKey[K, V, K2 any](
	s *Stream[K, V], op string, site topology.Site, missing bool, fac operators.Factory, ks []serde.Serde[K2],
) *Stream[K2, V] {
	k2 := last(s.b, site, op, "key", ks)
	f := s.stateless(kebab[op], site, missing, fac).lose(op, site, k2 == nil, false)
	f.rekeyed = true
	return &Stream[K2, V]{from: f, ks: k2, vs: s.vs}
}

func withBoth[K, V, K2, V2 any](
	s *Stream[K, V], op string, site topology.Site, missing bool, fac operators.Factory, serdes []Serdes[K2, V2],
) *Stream[K2, V2] {
	var sd Serdes[K2, V2]
	if len(serdes) > 0 {
		sd = serdes[0]
	}
	if len(serdes) > 1 {
		s.b.t.Errorf(site, "%s: %d pairs of serdes given, want one", op, len(serdes))
	}
	f := s.stateless(kebab[op], site, missing, fac).lose(op, site, sd.Key == nil, sd.Value == nil)
	f.rekeyed = true
	return &Stream[K2, V2]{from: f, ks: sd.Key, vs: sd.Value}
}

// kebab gives the words of Describe.
var kebab = map[string]string{
	"MapValues": "map-values", "Map": "map", "FlatMap": "flat-map",
	"FlatMapValues": "flat-map-values", "SelectKey": "select-key",
	"MapValuesWithKey": "map-values", "FlatMapValuesWithKey": "flat-map-values",
	"MapValuesCtx": "map-values", "MapCtx": "map", "FlatMapCtx": "flat-map",
	"FlatMapValuesCtx": "flat-map-values", "SelectKeyCtx": "select-key",
}
