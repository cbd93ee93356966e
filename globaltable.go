package tidegate

import (
	"errors"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// GlobalTable is a table that every instance holds as a whole (Kafka Streams'
// GlobalKTable), for small data that is looked up by any key: no co-partitioning
// and no repartitioning.
//
// An instance reads all partitions of the topic, committed records only, into
// one store in memory before its tasks start, and follows the topic from then
// on. All its tasks share that store.
//
// A global table is outside of checkpoints: it is read anew at every start, and
// a replay after a failure sees its present rows, not those that the first run
// saw. What needs a lookup that a replay repeats exactly is a JoinTable. Rows
// and stream records are not brought in an order by time.
type GlobalTable[K, V any] struct {
	b    *Builder
	name string
	ks   serde.Serde[K]
	vs   serde.Serde[V]
}

// GlobalTable reads a topic as a global table (StreamsBuilder.globalTable). The
// topic must exist when the application starts; a null value deletes the key,
// a null key is dropped and counted. A record that cannot be decoded goes to the
// failure handler. The name is that of the store, for descriptions and errors;
// it is no part of the topology's fingerprint.
func (b *Builder) GlobalTable[K, V any](topic, name string, ks serde.Serde[K], vs serde.Serde[V]) *GlobalTable[K, V] {
	site := here()
	ks, vs = given(b, site, "key", ks), given(b, site, "value", vs)
	b.t.AddGlobal(topology.Global{
		Name: name, Topic: topic, Key: serdeInfo(ks), Value: serdeInfo(vs), Site: site,
		Factory: operators.NewGlobal(ks, vs),
	})
	return &GlobalTable[K, V]{b: b, name: name, ks: ks, vs: vs}
}

// Name returns the name of the table's store (GlobalKTable.queryableStoreName).
func (g *GlobalTable[K, V]) Name() string { return g.name }

// JoinGlobal looks each record up in a global table, by the key that key finds
// in it, and joins the values; records without a partner are dropped. Key,
// timestamp and headers stay, and so does the partitioning. Records with a null
// value, and those for which key returns a null (with a serde.Nullable for the
// table's keys), are dropped and counted; for a null key of the stream, key is
// called with the zero K, as it may look at the value only.
func (s *Stream[K, V]) JoinGlobal[GK, GV, VR any](
	g *GlobalTable[GK, GV], key func(K, V) GK, f func(V, GV) VR, vs ...serde.Serde[VR],
) *Stream[K, VR] {
	site := here()
	return joinGlobal(s, site, "JoinGlobal", "join-global", g, key == nil || f == nil, func(name string, ks serde.Serde[GK]) operators.Factory {
		return operators.JoinGlobal(name, ks, key, f)
	}, vs)
}

// LeftJoinGlobal is JoinGlobal that keeps records without a partner: the joiner
// gets a missing Opt. A null from key has no partner.
func (s *Stream[K, V]) LeftJoinGlobal[GK, GV, VR any](
	g *GlobalTable[GK, GV], key func(K, V) GK, f func(V, Opt[GV]) VR, vs ...serde.Serde[VR],
) *Stream[K, VR] {
	site := here()
	return joinGlobal(s, site, "LeftJoinGlobal", "left-join-global", g, key == nil || f == nil, func(name string, ks serde.Serde[GK]) operators.Factory {
		return operators.LeftJoinGlobal(name, ks, key, f)
	}, vs)
}

func joinGlobal[K, V, GK, GV, VR any](
	s *Stream[K, V], site topology.Site, method, op string, g *GlobalTable[GK, GV], incomplete bool,
	factory func(name string, ks serde.Serde[GK]) operators.Factory, vs []serde.Serde[VR],
) *Stream[K, VR] {
	if incomplete {
		s.b.t.Errorf(site, "%s: a function is nil", method)
	}
	vr := last(s.b, site, method, "value", vs)
	f := s.from
	if g == nil || g.b != s.b {
		s.b.t.Errorf(site, "%s: the global table is nil or comes from another Builder", method)
	} else {
		f.n = s.add(topology.Node{Op: op, Name: g.name, Site: site, Factory: factory(g.name, g.ks)})
	}
	f = f.lose(method, site, false, vr == nil)
	return &Stream[K, VR]{from: f, ks: s.ks, vs: vr}
}

// GlobalRows reads a global table within a processor.
type GlobalRows[K, V any] struct {
	in *operators.GlobalReader[K, V]
}

// Get returns the value of a key, and whether there is one. It must not be
// changed where it holds bytes.
func (r *GlobalRows[K, V]) Get(k K) (V, bool, error) { return r.in.Get(k) }

// Len is the number of rows.
func (r *GlobalRows[K, V]) Len() int { return r.in.Len() }

// Global opens a global table for reading. Every processor may read every global
// table of its topology, without being connected with it (as in Kafka Streams).
func (c *TaskContext) Global[K, V any](g *GlobalTable[K, V]) (*GlobalRows[K, V], error) {
	if g == nil {
		return nil, errors.New("Global: the table is nil")
	}
	in, err := operators.OpenGlobal[K, V](c.core, g.name)
	if err != nil {
		return nil, err
	}
	return &GlobalRows[K, V]{in}, nil
}
