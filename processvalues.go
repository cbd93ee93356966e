package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
)

// ValueProcessor is a Processor that keeps the key of each record (Kafka
// Streams' FixedKeyProcessor). One that implements Close() error is closed with
// its task.
type ValueProcessor[K, V, V2 any] interface {
	// Init is called before the first record, after the state was restored.
	Init(ctx *ValueContext[K, V2]) error
	// Process is called for each record; see Processor.
	Process(k K, v Opt[V]) error
}

// ValueContext is a ValueProcessor's access to its surroundings: it forwards
// values under the key of the record that is being processed, and has everything
// of TaskContext.
type ValueContext[K, V any] struct {
	TaskContext
	in *operators.ProcessorContext[K, V]
}

// Forward sends a value downstream under the record's key. There is no key in a
// punctuation: it returns an error there. See ProcessorContext.Forward.
func (c *ValueContext[K, V]) Forward(v V) error {
	return c.in.ForwardValue(c.in.Record().Timestamp, v, 0)
}

// ForwardAt is Forward with another timestamp, in milliseconds since the epoch.
func (c *ValueContext[K, V]) ForwardAt(timestamp int64, v V) error {
	return c.in.ForwardValue(timestamp, v, 0)
}

// ForwardTombstone sends a null value downstream under the record's key.
func (c *ValueContext[K, V]) ForwardTombstone() error {
	var zero V
	return c.in.ForwardValue(c.in.Record().Timestamp, zero, record.ValueNull)
}

// ProcessValues runs a processor that keeps the keys (Kafka Streams'
// KStream.processValues): the result is partitioned as this stream is and has
// its key serde, so that no repartitioning follows. Restate the value's serde
// with As where it is needed. See Process.
func (s *Stream[K, V]) ProcessValues[V2 any](
	name string, newProcessor func() ValueProcessor[K, V, V2], parts ...ProcessorPart,
) *Stream[K, V2] {
	site := here()
	var outputs []any
	f := s.process(site, "ProcessValues", name, newProcessor == nil, parts, &outputs, operators.ProcessValues(name,
		func(ctx *operators.ProcessorContext[K, V2]) (operators.ProcessorFuncs[K, V], error) {
			p := newProcessor()
			return operators.ProcessorFuncs[K, V]{Process: p.Process, Close: closeOf(p)},
				p.Init(&ValueContext[K, V2]{TaskContext{ctx.ProcessorCore, outputs}, ctx})
		}))
	return &Stream[K, V2]{from: f.lose("ProcessValues", site, false, true), ks: s.ks}
}
