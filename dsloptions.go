package tidegate

import (
	"errors"
	"time"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

var errNoSerde = errors.New("no serde is known")

// Serdes are the serdes of a key and a value, for steps that change both.
type Serdes[K, V any] struct {
	Key   serde.Serde[K]
	Value serde.Serde[V]
}

// With pairs two serdes: s.Map(f, tidegate.With(serde.String(), serde.Int64())).
func With[K, V any](ks serde.Serde[K], vs serde.Serde[V]) Serdes[K, V] {
	return Serdes[K, V]{Key: ks, Value: vs}
}

// SourceOption changes how a topic is read.
type SourceOption interface{ source(*sourceOptions) }

type sourceOptions struct {
	reset      topology.OffsetReset
	timestamps []*timestampSource
	idle       time.Duration
	hasIdle    bool
}

type sourceOption func(*sourceOptions)

func (f sourceOption) source(o *sourceOptions) { f(o) }

func sourceOptionsOf(b *Builder, site topology.Site, opts []SourceOption) sourceOptions {
	var o sourceOptions
	for _, opt := range opts {
		if opt == nil {
			b.t.Errorf(site, "an option of the source is nil: leave it out")
			continue
		}
		opt.source(&o)
	}
	return o
}

// FromEarliest lets a source that has no offset yet begin at the oldest
// record, whatever the application's offset reset says (Kafka Streams'
// Consumed.withOffsetResetPolicy).
func FromEarliest() SourceOption {
	return sourceOption(func(o *sourceOptions) { o.reset = topology.ResetEarliest })
}

// FromLatest lets a source that has no offset yet begin at the end, whatever
// the application's offset reset says.
func FromLatest() SourceOption {
	return sourceOption(func(o *sourceOptions) { o.reset = topology.ResetLatest })
}

// RepartitionOption changes a repartition step.
type RepartitionOption interface{ repartition(*outputOptions) }

// SinkOption changes how a topic is written.
type SinkOption interface{ sink(*outputOptions) }

// OutputOption is both a RepartitionOption and a SinkOption.
type OutputOption interface {
	RepartitionOption
	SinkOption
}

type outputOptions struct {
	partitions    int32
	hasPartitions bool
	partitioner   any // func(K, int32) int32
}

type (
	repartitionOption func(*outputOptions)
	outputOption      func(*outputOptions)
)

func (f repartitionOption) repartition(o *outputOptions) { f(o) }
func (f outputOption) repartition(o *outputOptions)      { f(o) }
func (f outputOption) sink(o *outputOptions)             { f(o) }

// Partitions sets the partition count of a repartition topic, which is the
// number of tasks behind it. Without it the topic takes the count of what it is
// joined with, else the largest count upstream.
func Partitions(n int32) RepartitionOption {
	return repartitionOption(func(o *outputOptions) { o.partitions, o.hasPartitions = n, true })
}

// PartitionBy replaces Kafka's murmur2 partitioner (Kafka Streams'
// StreamPartitioner). f returns a partition in [0, partitions) that depends on
// nothing but its arguments; K must be the stream's key type. Records with a
// null key do not reach it. What is partitioned in this way can be joined only
// with what is partitioned in the same way, which is not checked.
func PartitionBy[K any](f func(k K, partitions int32) int32) OutputOption {
	return outputOption(func(o *outputOptions) { o.partitioner = f })
}

// partitionerOf returns the partitioner for keys of type K.
func partitionerOf[K any](b *Builder, site topology.Site, o outputOptions) func(K, int32) int32 {
	if o.partitioner == nil {
		return nil
	}
	f, ok := o.partitioner.(func(K, int32) int32)
	switch {
	case !ok:
		b.t.Errorf(site, "PartitionBy: the function is %T, but the stream's keys need func(%T, int32) int32", o.partitioner, *new(K))
	case f == nil:
		b.t.Errorf(site, "PartitionBy: the function is nil")
	}
	return f
}
