package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// Table is a table of the last value per key, and the stream of its changes
// (Kafka Streams' KTable). Every change goes downstream; nothing is left out by
// caching.
type Table[K, V any] struct {
	from
	ks serde.Serde[K]
	vs serde.Serde[V]
	// closeAt is the stream time at which the row of a key cannot change any
	// more: the first at which its window refuses records, for time windows the
	// window's end plus the grace. It is nil for tables that are not windowed.
	closeAt func(K) int64
	// history is how long a versioned table keeps old rows, in milliseconds, else
	// 0. Joins wait for grace if waits is set.
	history, grace int64
	waits          bool
}

// ToTable keeps the last value per key in the store of that name. A null value
// deletes the key. Where the key was changed before, the stream is repartitioned
// through "<app>-name-repartition".
func (s *Stream[K, V]) ToTable(name string) *Table[K, V] {
	site := here()
	s.b.t.ClaimStep(name, site)
	in := byKey(s, site, name)
	ks := needKey(in.from, site, "ToTable("+name+")", in.ks)
	vs := needValue(in.from, site, "ToTable("+name+")", in.vs)
	s.b.addStore(site, name, operators.FormatTable, ks, vs)
	n := in.add(topology.Node{
		Kind: topology.Stateful, Op: "to-table", Name: name, Site: site, Stores: []string{name}, KeyedState: true,
		Factory: operators.Table(name, ks, vs), Getter: operators.TableGetter(name, ks, vs),
	})
	return &Table[K, V]{from: from{b: s.b, n: n}, ks: ks, vs: vs}
}

// ToStream returns the changes of the table: a record with the new value, or a
// tombstone, for each.
func (t *Table[K, V]) ToStream() *Stream[K, V] {
	f := t.stateless("to-stream", here(), false, operators.ToStream[K](t.vs))
	return &Stream[K, V]{from: f, ks: t.ks, vs: t.vs}
}

// Filter is the table of the rows for which f is true. It has no store of its
// own: it is computed from this table's. A change to a row that is not in it
// gives a tombstone downstream.
func (t *Table[K, V]) Filter(f func(K, V) bool) *Table[K, V] {
	return t.filtered("table-filter", here(), f == nil, f)
}

// filtered is the table of the rows for which keep is true.
func (t *Table[K, V]) filtered(op string, site topology.Site, missing bool, keep func(K, V) bool) *Table[K, V] {
	f := viewNode(t.from, op, site, missing, operators.TableFilter(keep), operators.TableFilterGetter(t.n, keep))
	if t.history > 0 {
		f.n.AsOf = operators.TableFilterAsOf(t.n, keep)
	}
	out := *t
	out.from = f
	return &out
}

// MapValues is the table with each value replaced. It has no store of its own:
// f is called for every change and every look-up, and must depend on nothing
// but its argument.
func (t *Table[K, V]) MapValues[V2 any](f func(V) V2, vs ...serde.Serde[V2]) *Table[K, V2] {
	site := here()
	v2 := last(t.b, site, "MapValues", "value", vs)
	fr := viewNode(t.from, "table-map-values", site, f == nil,
		operators.TableMapValues[K](f), operators.TableMapValuesGetter[K](t.n, f))
	return mapped(t, fr.lose("MapValues", site, false, v2 == nil), func(_ K, v V) V2 { return f(v) }, v2)
}

// mapped is the table whose values a step replaces; f does it for rows of earlier
// times.
func mapped[K, V, V2 any](t *Table[K, V], step from, f func(K, V) V2, v2 serde.Serde[V2]) *Table[K, V2] {
	if t.history > 0 {
		step.n.AsOf = operators.TableMapValuesAsOf(t.n, f)
	}
	return &Table[K, V2]{
		from: step, ks: t.ks, vs: v2, closeAt: t.closeAt, history: t.history, grace: t.grace, waits: t.waits,
	}
}

func viewNode(f from, op string, site topology.Site, missing bool, fac operators.Factory, get operators.GetterFactory) from {
	if missing {
		f.b.t.Errorf(site, "%s: the function is nil", op)
	}
	f.n = f.add(topology.Node{Op: op, Site: site, View: true, Factory: fac, Getter: get})
	return f
}

// JoinTable looks each record's key up in a table and joins the values; records
// without a partner are dropped. Stream and table must be co-partitioned: where
// the stream's key was changed before, it is repartitioned through
// "<app>-name-repartition" with the table's partition count. The result keeps
// the record's timestamp and headers. Records with a null key or value are
// dropped and counted. With a versioned table the row is the one as of the
// record's timestamp; see Table.JoinGrace.
func (s *Stream[K, V]) JoinTable[VT, VR any](
	name string, t *Table[K, VT], f func(V, VT) VR, vs ...serde.Serde[VR],
) *Stream[K, VR] {
	site := here()
	if f == nil {
		s.b.t.Errorf(site, "JoinTable(%q): the function is nil", name)
	}
	return joinTable(s, site, name, "JoinTable", t, func(n *topology.Node) operators.Factory {
		return operators.JoinTable[K](n, f)
	}, operators.VersionedJoin[K, V, VT, VR]{Joiner: f}, vs)
}

// LeftJoinTable is JoinTable that keeps records without a partner: the joiner
// gets a missing Opt. A record with a null key has no partner.
func (s *Stream[K, V]) LeftJoinTable[VT, VR any](
	name string, t *Table[K, VT], f func(V, Opt[VT]) VR, vs ...serde.Serde[VR],
) *Stream[K, VR] {
	site := here()
	if f == nil {
		s.b.t.Errorf(site, "LeftJoinTable(%q): the function is nil", name)
	}
	return joinTable(s, site, name, "LeftJoinTable", t, func(n *topology.Node) operators.Factory {
		return operators.LeftJoinTable[K](n, f)
	}, operators.VersionedJoin[K, V, VT, VR]{
		Joiner: func(v V, row VT) VR { return f(v, Some(row)) },
		Alone:  func(v V) VR { return f(v, None[VT]()) },
	}, vs)
}

func joinTable[K, V, VT, VR any](
	s *Stream[K, V], site topology.Site, name, op string, t *Table[K, VT],
	factory func(table *topology.Node) operators.Factory, versioned operators.VersionedJoin[K, V, VT, VR],
	vs []serde.Serde[VR],
) *Stream[K, VR] {
	s.b.t.ClaimStep(name, site)
	vr := last(s.b, site, op, "value", vs)
	if t == nil || t.b != s.b {
		s.b.t.Errorf(site, "%s(%q): the table is nil or comes from another Builder", op, name)
		return &Stream[K, VR]{from: s.from, ks: s.ks, vs: vr}
	}
	in := byKey(s, site, name)
	if !missing(in.ks) && !missing(t.ks) && in.ks.Fingerprint() != t.ks.Fingerprint() {
		s.b.t.Errorf(site, "%s(%q): the stream's keys are serialised as %s, the table's as %s: equal keys would not meet, use one serde for both",
			op, name, in.ks.Fingerprint(), t.ks.Fingerprint())
	}
	n := topology.Node{
		Kind: topology.Join, Op: "join-table", Name: name, Site: site, Uses: []*topology.Node{t.n}, KeyedState: true,
	}
	if t.history > 0 {
		n.Factory, n.Stores = t.join(in, site, name, op, versioned)
	} else {
		n.Factory = factory(t.n)
	}
	f := in.from
	f.n = in.add(n)
	f = f.lose(op, site, false, vr == nil)
	return &Stream[K, VR]{from: f, ks: in.ks, vs: vr}
}
