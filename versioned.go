package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// VersionedTable is Builder.Table that also keeps, per key, the values that were
// replaced less than history ago (Kafka Streams' Materialized with
// Stores.persistentVersionedKeyValueStore). A stream that is joined with it meets
// the row as it was at the record's timestamp, see Table.JoinGrace.
//
// A record with an older timestamp than the latest of its key corrects the
// history and is no change of the table: nothing goes downstream. A record whose
// timestamp is more than history behind is dropped and counted in Health.Late.
// Behind means: behind stream time, or behind the largest timestamp in the table's
// partition, whichever is smaller. The latest value of a key stays, however old.
func (b *Builder) VersionedTable[K, V any](
	topic, name string, history time.Duration, ks serde.Serde[K], vs serde.Serde[V], opts ...SourceOption,
) *Table[K, V] {
	site := here()
	s := stream(b, site, topology.Node{Topics: []string{topic}}, ks, vs, opts)
	return versionedTable(s, site, name, "versioned-table", history)
}

// ToVersionedTable is ToTable into a versioned table; see Builder.VersionedTable.
func (s *Stream[K, V]) ToVersionedTable(name string, history time.Duration) *Table[K, V] {
	site := here()
	s.b.t.ClaimStep(name, site)
	return versionedTable(byKey(s, site, name), site, name, "to-versioned-table", history)
}

func versionedTable[K, V any](s *Stream[K, V], site topology.Site, name, op string, history time.Duration) *Table[K, V] {
	ks := needKey(s.from, site, op+" "+name, s.ks)
	vs := needValue(s.from, site, op+" "+name, s.vs)
	h := checkHistory(s.b, site, op, name, history)
	s.b.t.AddStore(topology.Store{
		Name: name, Format: operators.FormatVersioned, Key: serdeInfo(ks), Value: serdeInfo(vs), GraceMs: h, Site: site,
	})
	n := s.add(topology.Node{
		Kind: topology.Stateful, Op: op, Name: name, Site: site, Stores: []string{name}, KeyedState: true,
		Factory: operators.VersionedTable(name, ks, vs, h),
		Getter:  operators.VersionedGetter(name, ks, vs, h),
		AsOf:    operators.VersionedAsOf(name, ks, vs, h),
	})
	return &Table[K, V]{from: from{b: s.b, n: n}, ks: ks, vs: vs, history: h}
}

// checkHistory notes what is wrong with a history and returns a valid one in
// milliseconds.
func checkHistory(b *Builder, site topology.Site, op, name string, history time.Duration) int64 {
	if history < time.Millisecond || history%time.Millisecond != 0 {
		b.t.Errorf(site, "%s %q: history %v must be at least 1ms and of whole milliseconds", op, name, history)
		return 1
	}
	return history.Milliseconds()
}

// JoinGrace is this versioned table for a JoinTable or LeftJoinTable whose records
// wait for the table (Kafka Streams' Joined.withGracePeriod):
//
//	orders.JoinTable("priced", prices.JoinGrace(time.Minute), price)
//
// A record is kept in the store "name-buffer" until stream time has reached its
// timestamp plus grace, and is then joined with the row as of its timestamp, so
// that updates of the table that are late by up to grace are seen. Results come in
// the order of timestamps and keep the headers; RecordContext of the steps behind
// names no topic and offset. A record that is itself late by more than grace is
// joined at once, as of its timestamp.
//
// Without JoinGrace a join with a versioned table is as of the record's timestamp,
// too, but at once. The grace must not be longer than the table's history.
func (t *Table[K, V]) JoinGrace(grace time.Duration) *Table[K, V] {
	site := here()
	c := *t
	switch ms := grace.Milliseconds(); {
	case t.history == 0:
		t.b.t.Errorf(site, "JoinGrace(%v): the table has no history to look back: make it with Builder.VersionedTable or ToVersionedTable", grace)
	case grace < 0 || grace%time.Millisecond != 0:
		t.b.t.Errorf(site, "JoinGrace(%v): must not be negative, and of whole milliseconds", grace)
	case ms > t.history:
		t.b.t.Errorf(site, "JoinGrace(%v): the table's history is only %v long: the rows that records wait for would be gone, lengthen the history", grace, time.Duration(t.history)*time.Millisecond)
	default:
		c.grace, c.waits = ms, true
	}
	return &c
}

// join completes a join of s with this versioned table and names its stores.
func (t *Table[K, VT]) join[V, VR any](
	s *Stream[K, V], site topology.Site, name, op string, j operators.VersionedJoin[K, V, VT, VR],
) (operators.Factory, []string) {
	j.Table, j.Key = t.n, t.ks
	if !t.waits {
		return j.Factory(), nil
	}
	j.Buffer, j.Grace = name+"-buffer", t.grace
	j.Key = needKey(s.from, site, op+"("+name+")", s.ks)
	j.Value = needValue(s.from, site, op+"("+name+")", s.vs)
	s.b.t.AddStore(topology.Store{
		Name: j.Buffer, Format: operators.FormatJoinBuffer, Key: serdeInfo(j.Key), Value: serdeInfo(j.Value),
		GraceMs: t.grace, Site: site,
	})
	return j.Factory(), []string{j.Buffer}
}
