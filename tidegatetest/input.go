package tidegatetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/harness"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/serde"
)

// Input writes one input topic (Kafka Streams' TestInputTopic).
type Input[K, V any] struct {
	d     *Driver
	topic string
	ks    serde.Serde[K]
	vs    serde.Serde[V]
	next  int64 // timestamp, after StartAt
	step  int64
	steps bool
}

// Input opens a topic that the topology reads (TopologyTestDriver
// .createInputTopic). The serdes write; they need not be those that the topology
// reads with.
func (d *Driver) Input[K, V any](topic string, ks serde.Serde[K], vs serde.Serde[V]) *Input[K, V] {
	d.t.Helper()
	read := append(d.in.Resolved().Inputs(), d.graph.GlobalTopics()...)
	switch {
	case ks == nil || vs == nil:
		d.t.Fatalf("Input(%q): a serde is nil", topic)
	case !slices.Contains(read, topic):
		d.t.Fatalf("Input(%q): the topology does not read that topic; it reads: %s", topic, names(read))
	}
	return &Input[K, V]{d: d, topic: topic, ks: ks, vs: vs}
}

// StartAt gives the following records without At the timestamps ms, ms+step,
// ms+2·step, … (createInputTopic with startTimestamp and autoAdvance). Without
// it they get the driver's wall clock.
func (in *Input[K, V]) StartAt(ms int64, step time.Duration) *Input[K, V] {
	in.next, in.step, in.steps = ms, step.Milliseconds(), true
	return in
}

// Pipe writes a record and processes it to its last consequence
// (TestInputTopic.pipeInput). The partition is Kafka's hash of the key, the
// timestamp the driver's wall clock, unless options say otherwise. An error of
// the topology fails the test. It does not return while a topology that writes a
// topic and reads it again goes round in circles.
func (in *Input[K, V]) Pipe(k K, v V, opts ...PipeOption) {
	in.d.t.Helper()
	if err := in.TryPipe(k, v, opts...); err != nil {
		in.d.t.Fatal(err)
	}
}

// PipeAll pipes records one after the other (TestInputTopic.pipeKeyValueList);
// options are for each of them.
func (in *Input[K, V]) PipeAll(records []KeyValue[K, V], opts ...PipeOption) {
	in.d.t.Helper()
	for _, r := range records {
		own := opts
		if r.NullKey {
			own = append(slices.Clone(own), NullKey())
		}
		if r.Tombstone {
			own = append(slices.Clone(own), Tombstone())
		}
		in.Pipe(r.Key, r.Value, own...)
	}
}

// Queue writes a record like Pipe, and leaves its processing to Driver.Run, or to
// the next record that is piped or advance of a clock. A task that finds records
// queued in several of its inputs takes the smallest timestamp first, as in
// production. After Restart, what was queued is processed by the new tasks.
func (in *Input[K, V]) Queue(k K, v V, opts ...PipeOption) {
	in.d.t.Helper()
	r, err := in.record(k, v, opts)
	if err == nil {
		err = in.d.do(func() error { return in.d.in.Queue(r) })
	}
	if err != nil {
		in.d.t.Fatalf("queue for topic %q: %v", in.topic, err)
	}
}

// TryPipe is Pipe that returns the topology's error, where Kafka Streams throws a
// StreamsException. An App would go back to its last checkpoint; the driver
// stops: it takes no more records, but outputs and stores can be read.
func (in *Input[K, V]) TryPipe(k K, v V, opts ...PipeOption) error {
	r, err := in.record(k, v, opts)
	if err == nil {
		err = in.d.do(func() error { return in.d.in.PipeTo(r) })
	}
	if err != nil {
		return fmt.Errorf("pipe to topic %q: %w", in.topic, err)
	}
	return nil
}

// record encodes a record and finds its partition.
func (in *Input[K, V]) record(k K, v V, opts []PipeOption) (r harness.Record, err error) {
	p := pipe{timestamp: in.d.now}
	for _, o := range opts {
		o(&p)
	}
	if !p.hasTimestamp && in.steps {
		p.timestamp = in.next
		in.next += in.step
	}
	if p.timestamp < 0 {
		return r, fmt.Errorf("timestamp %d: Kafka has no negative ones", p.timestamp)
	}
	r = harness.Record{Topic: in.topic, Timestamp: p.timestamp, Headers: p.headers}
	if r.Key, err = encode(in.ks, k, p.null.Key()); err != nil {
		return r, fmt.Errorf("encode key: %w", err)
	}
	if r.Value, err = encode(in.vs, v, p.null.Value()); err != nil {
		return r, fmt.Errorf("encode value: %w", err)
	}
	n := in.d.topics[in.topic]
	switch {
	case p.hasPartition && (p.partition < 0 || p.partition >= n):
		return r, fmt.Errorf("partition %d: the topic has %d, see WithPartitions", p.partition, n)
	case p.hasPartition:
		r.Partition = p.partition
	case r.Key != nil:
		hashed := r.Key
		if pk, ok := in.ks.(serde.PartitionKeyer); ok {
			hashed = pk.PartitionKey(hashed)
		}
		r.Partition = ids.Partition(hashed, n)
	}
	return r, nil
}

// encode returns nil for a null.
func encode[T any](s serde.Serde[T], v T, null bool) ([]byte, error) {
	if n, ok := s.(serde.NullSerde[T]); null || ok && n.IsNull(v) {
		return nil, nil
	}
	b, err := s.Append([]byte{}, v)
	if b == nil {
		b = []byte{} // a serde may return nil for an empty encoding
	}
	return b, err
}
