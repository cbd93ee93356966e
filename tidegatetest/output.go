package tidegatetest

import (
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/serde"
)

// Record is a record of an output topic (Kafka Streams' TestRecord).
type Record[K, V any] struct {
	Key   K
	Value V
	// NullKey and Tombstone say that key or value is null; Key or Value is then
	// the zero value, or the None of serde.Nullable.
	NullKey, Tombstone bool
	Timestamp          int64 // milliseconds since the epoch
	Headers            tidegate.Headers
	Partition          int32
}

// Time is the record's timestamp in UTC.
func (r Record[K, V]) Time() time.Time { return time.UnixMilli(r.Timestamp).UTC() }

// KeyValue is a record without what is around it (Kafka Streams' KeyValue).
type KeyValue[K, V any] struct {
	Key                K
	Value              V
	NullKey, Tombstone bool // as in Record
}

// KV is a KeyValue without nulls (KeyValue.pair).
func KV[K, V any](k K, v V) KeyValue[K, V] { return KeyValue[K, V]{Key: k, Value: v} }

// Deleted is a tombstone of a key.
func Deleted[K, V any](k K) KeyValue[K, V] { return KeyValue[K, V]{Key: k, Tombstone: true} }

// Output reads one output topic (Kafka Streams' TestOutputTopic). Records come in
// the order in which they were written, whatever their partition. All Outputs of
// a topic share what is unread.
type Output[K, V any] struct {
	d     *Driver
	topic string
	ks    serde.Serde[K]
	vs    serde.Serde[V]
}

// Output opens a topic that the topology writes (TopologyTestDriver
// .createOutputTopic). A record that the serdes cannot decode fails the test.
func (d *Driver) Output[K, V any](topic string, ks serde.Serde[K], vs serde.Serde[V]) *Output[K, V] {
	d.t.Helper()
	if ks == nil || vs == nil {
		d.t.Fatalf("Output(%q): a serde is nil", topic)
	}
	if _, ok := d.topics[topic]; !ok {
		d.t.Fatalf("Output(%q): the topology does not write that topic; it writes: %s. Declare a topic that only records name by WithTopic",
			topic, names(d.graph.Sinks()))
	}
	return &Output[K, V]{d: d, topic: topic, ks: ks, vs: vs}
}

// Repartition opens the repartition topic of a step by the step's name, to see
// what goes through it from now on (TopologyTestDriver reads internal topics by
// their full names). The serdes must have the format of the step's.
func (d *Driver) Repartition[K, V any](step string, ks serde.Serde[K], vs serde.Serde[V]) *Output[K, V] {
	d.t.Helper()
	if ks == nil || vs == nil {
		d.t.Fatalf("Repartition(%q): a serde is nil", step)
	}
	var all []string
	for _, topic := range d.in.Resolved().InternalTopics() {
		if topic.Step == step {
			d.in.Tap(topic.Topic)
			return &Output[K, V]{d: d, topic: topic.Topic, ks: ks, vs: vs}
		}
		all = append(all, topic.Step)
	}
	d.t.Fatalf("Repartition(%q): no step of that name has a repartition topic; these have: %s", step, names(all))
	return nil
}

// unreadOf is what was written to a topic and not read.
func (d *Driver) unreadOf(topic string) []harness.Record {
	d.unread[topic] = append(d.unread[topic], d.in.Take(topic)...)
	return d.unread[topic]
}

// Read returns the next record, or false when there is none
// (TestOutputTopic.readRecord, which throws NoSuchElementException).
func (o *Output[K, V]) Read() (r Record[K, V], ok bool) {
	o.d.t.Helper()
	raw := o.d.unreadOf(o.topic)
	if len(raw) == 0 {
		return r, false
	}
	o.d.unread[o.topic] = raw[1:]
	return o.decode(raw[0]), true
}

// ReadAll returns all records that were not read yet; nil when there are none
// (TestOutputTopic.readRecordsToList).
func (o *Output[K, V]) ReadAll() []Record[K, V] {
	o.d.t.Helper()
	var out []Record[K, V]
	for r, ok := o.Read(); ok; r, ok = o.Read() {
		out = append(out, r)
	}
	return out
}

// ReadKeyValues is ReadAll without timestamps, headers and partitions
// (TestOutputTopic.readKeyValuesToList).
func (o *Output[K, V]) ReadKeyValues() []KeyValue[K, V] {
	o.d.t.Helper()
	var out []KeyValue[K, V]
	for r, ok := o.Read(); ok; r, ok = o.Read() {
		out = append(out, KeyValue[K, V]{Key: r.Key, Value: r.Value, NullKey: r.NullKey, Tombstone: r.Tombstone})
	}
	return out
}

// ReadValues is ReadAll with the values only, the zero value for tombstones
// (TestOutputTopic.readValuesToList).
func (o *Output[K, V]) ReadValues() []V {
	o.d.t.Helper()
	var out []V
	for r, ok := o.Read(); ok; r, ok = o.Read() {
		out = append(out, r.Value)
	}
	return out
}

// Len is how many records were not read yet (TestOutputTopic.getQueueSize).
func (o *Output[K, V]) Len() int { return len(o.d.unreadOf(o.topic)) }

func (o *Output[K, V]) decode(raw harness.Record) Record[K, V] {
	o.d.t.Helper()
	r := Record[K, V]{
		NullKey: raw.Key == nil, Tombstone: raw.Value == nil,
		Timestamp: raw.Timestamp, Headers: raw.Headers, Partition: raw.Partition,
	}
	var err error
	if r.Key, err = decode(o.ks, raw.Key); err != nil {
		o.d.t.Fatalf("read topic %q: decode key %q: %v", o.topic, raw.Key, err)
	}
	if r.Value, err = decode(o.vs, raw.Value); err != nil {
		o.d.t.Fatalf("read topic %q: decode value %q of key %q: %v", o.topic, raw.Value, raw.Key, err)
	}
	return r
}

// decode returns the serde's null for nil.
func decode[T any](s serde.Serde[T], b []byte) (v T, err error) {
	if b != nil {
		return s.Decode(b)
	}
	if n, ok := s.(serde.NullSerde[T]); ok {
		return n.Null(), nil
	}
	return v, nil
}

// ReadMap reads all records that were not read yet into a map of the last value
// of each key; a tombstone removes its key (TestOutputTopic.readKeyValuesToMap,
// which keeps nulls). A record with a null key fails the test. It is a function
// since only here keys must be comparable.
func ReadMap[K comparable, V any](o *Output[K, V]) map[K]V {
	o.d.t.Helper()
	out := map[K]V{}
	for r, ok := o.Read(); ok; r, ok = o.Read() {
		switch {
		case r.NullKey:
			o.d.t.Fatalf("ReadMap of topic %q: a record at %d has no key", o.topic, r.Timestamp)
		case r.Tombstone:
			delete(out, r.Key)
		default:
			out[r.Key] = r.Value
		}
	}
	return out
}
