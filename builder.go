package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// Builder describes a topology (Kafka Streams' StreamsBuilder). Its methods
// and those of the streams and tables that come from it never fail and never
// panic: mistakes are collected, each with the line of the program, and
// returned together by Build. A Builder is not safe for concurrent use.
type Builder struct {
	t *topology.Builder
	// outputs are the further outputs of processors.
	outputs map[*topology.Node][]any
	// merge: steps share repartition topics; carried are those to share.
	merge   bool
	carried carriedStreams
	// reuse: tables have their topics as changelogs.
	reuse bool
}

// NewBuilder returns an empty builder.
func NewBuilder(opts ...BuilderOption) *Builder {
	b := &Builder{t: topology.NewBuilder(), outputs: map[*topology.Node][]any{}, carried: carriedStreams{}}
	for _, o := range opts {
		if o != nil {
			o(b)
		}
	}
	return b
}

// Stream reads a topic as a stream of independent records. The partition count
// of the topic becomes the number of tasks.
func (b *Builder) Stream[K, V any](
	topic string, ks serde.Serde[K], vs serde.Serde[V], opts ...SourceOption,
) *Stream[K, V] {
	return stream(b, here(), topology.Node{Topics: []string{topic}}, ks, vs, opts)
}

// StreamOf reads several topics as one stream, in the order of timestamps as
// far as the topics are co-partitioned. RecordContext.Topic tells them apart.
func (b *Builder) StreamOf[K, V any](
	topics []string, ks serde.Serde[K], vs serde.Serde[V], opts ...SourceOption,
) *Stream[K, V] {
	return stream(b, here(), topology.Node{Topics: append([]string(nil), topics...)}, ks, vs, opts)
}

func stream[K, V any](
	b *Builder, site topology.Site, n topology.Node, ks serde.Serde[K], vs serde.Serde[V], opts []SourceOption,
) *Stream[K, V] {
	ks, vs = given(b, site, "key", ks), given(b, site, "value", vs)
	o := sourceOptionsOf(b, site, opts)
	n.Kind, n.Op, n.Site, n.Reset, n.Factory = topology.Source, "source", site, o.reset, operators.Source(ks, vs)
	src := b.t.Add(n)
	timed(b, src, o, ks, vs)
	return &Stream[K, V]{from: from{b: b, n: src}, ks: ks, vs: vs}
}

// Table reads a topic as a table: the last value per key, kept in the store of
// that name. A null value deletes the key; records with a null key are dropped
// and counted.
func (b *Builder) Table[K, V any](
	topic, name string, ks serde.Serde[K], vs serde.Serde[V], opts ...SourceOption,
) *Table[K, V] {
	site := here()
	ks, vs = given(b, site, "key", ks), given(b, site, "value", vs)
	o := sourceOptionsOf(b, site, opts)
	b.t.AddStore(topology.Store{
		Name: name, Format: operators.FormatTable, Key: serdeInfo(ks), Value: serdeInfo(vs), Site: site,
		SourceTopic: topic, FromSource: fromSource(b, o, ks, vs),
	})
	src := b.t.Add(topology.Node{
		Kind: topology.Source, Op: "source", Site: site, Topics: []string{topic},
		Reset: o.reset, Factory: operators.Source(ks, vs),
	})
	timed(b, src, o, ks, vs)
	n := b.t.Add(topology.Node{
		Kind: topology.Stateful, Op: "table", Name: name, Site: site, Parents: []*topology.Node{src},
		Stores: []string{name}, KeyedState: true,
		Factory: operators.Table(name, ks, vs), Getter: operators.TableGetter(name, ks, vs),
	})
	return &Table[K, V]{from: from{b: b, n: n}, ks: ks, vs: vs}
}

// Build checks the topology. The error joins all mistakes, each with file and
// line. More may be added afterwards and Build called again.
func (b *Builder) Build() (*Topology, error) {
	t, err := b.t.Build()
	if err != nil {
		return nil, err
	}
	return &Topology{t: t}, nil
}

// Describe returns the text of Topology.Describe, or the text of the error
// that Build returns.
func (b *Builder) Describe() string {
	t, err := b.Build()
	if err != nil {
		return err.Error() + "\n"
	}
	return t.Describe()
}

// Topology is a checked topology, ready for New. It is immutable and may be
// run by several Apps.
type Topology struct {
	t *topology.Topology
}

// Describe lists the subtopologies with their steps, and every internal topic
// and store that the topology uses (Kafka Streams' Topology.describe).
// "<app>" stands for the application id.
func (t *Topology) Describe() string { return t.t.Describe("<app>") }

// Graph gives the graph itself, for tools.
func (t *Topology) Graph() *topology.Topology { return t.t }

const packagePath = "github.com/tidegate/tidegate"

// here is the line of the user's program that called into this package.
func here() topology.Site { return topology.Caller(packagePath) }

// from is where a stream or table comes from.
type from struct {
	b *Builder
	n *topology.Node
	// rekeyed: the key was changed since the records were last partitioned by
	// it.
	rekeyed bool
	// lostKey and lostValue name the step that made a new key or value and so
	// lost the serde.
	lostKey, lostValue lost
}

type lost struct {
	op   string
	site topology.Site
}

// add adds a node with this one as its parent.
func (f from) add(n topology.Node) *topology.Node {
	n.Parents = []*topology.Node{f.n}
	return f.b.t.Add(n)
}

// stateless adds a node that keeps nothing.
func (f from) stateless(op string, site topology.Site, missing bool, factory operators.Factory) from {
	if missing {
		f.b.t.Errorf(site, "%s: the function is nil", op)
	}
	f.n = f.add(topology.Node{Op: op, Site: site, Factory: factory})
	return f
}

func (f from) lose(op string, site topology.Site, key, value bool) from {
	if key {
		f.lostKey = lost{op, site}
	}
	if value {
		f.lostValue = lost{op, site}
	}
	return f
}

func (b *Builder) addStore[K, V any](site topology.Site, name, format string, ks serde.Serde[K], vs serde.Serde[V]) {
	b.t.AddStore(topology.Store{Name: name, Format: format, Key: serdeInfo(ks), Value: serdeInfo(vs), Site: site})
}

func serdeInfo[T any](s serde.Serde[T]) topology.Serde {
	return topology.Serde{
		Fingerprint: s.Fingerprint(),
		Accepts:     func(fp string) bool { return serde.Accepts(s, fp) },
	}
}

// given checks a serde that the user passed.
func given[T any](b *Builder, site topology.Site, what string, s serde.Serde[T]) serde.Serde[T] {
	if s == nil {
		b.t.Errorf(site, "the %s serde is nil: pass one, for example serde.JSON[%T]()", what, *new(T))
		return noSerde[T]{}
	}
	return s
}

// needKey returns the key's serde, which step cannot do without.
func needKey[T any](f from, site topology.Site, step string, s serde.Serde[T]) serde.Serde[T] {
	return need(f.b, site, step, "key", f.lostKey, s)
}

// needValue returns the value's serde, which step cannot do without.
func needValue[T any](f from, site topology.Site, step string, s serde.Serde[T]) serde.Serde[T] {
	return need(f.b, site, step, "value", f.lostValue, s)
}

func need[T any](b *Builder, site topology.Site, step, what string, l lost, s serde.Serde[T]) serde.Serde[T] {
	if s != nil {
		return s
	}
	remedy := "pass the serde to " + l.op + " or restate it with As"
	switch l.op {
	case "Process", "ProcessValues": // they take no serdes
		remedy = "restate it with As"
	case "Output":
		remedy = "pass the serdes to tidegate.Output or restate them with As"
	}
	b.t.Errorf(l.site, "%s changes the %s to %T and its serde is not known, but %s at %s needs it: %s",
		l.op, what, *new(T), step, site, remedy)
	return noSerde[T]{}
}

// noSerde stands in for a missing serde until Build returns the error.
type noSerde[T any] struct{}

func (noSerde[T]) Append(dst []byte, _ T) ([]byte, error) { return dst, errNoSerde }
func (noSerde[T]) Decode([]byte) (v T, err error)         { return v, errNoSerde }
func (noSerde[T]) Fingerprint() string                    { return "unknown" }

// missing reports a serde whose lack was already reported.
func missing[T any](s serde.Serde[T]) bool {
	_, stand := s.(noSerde[T])
	return s == nil || stand
}
