package tidegatetest

import (
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/state"
)

// Option changes a Driver.
type Option func(*config)

type config struct {
	partitions int32
	topics     map[string]int32
	start      time.Time
	onFailure  func(error) tidegate.FailureAction
	cacheBytes int64
	maxSeen    bool
	open       state.OpenFunc
	allRead    bool
}

// WithPartitions sets the partition count of every topic that the topology reads
// or writes by name; 1 by default. TopologyTestDriver has one partition always.
func WithPartitions(n int32) Option { return func(c *config) { c.partitions = n } }

// WithTopic sets the partition count of one topic. Topics that only records name
// (Stream.ToDynamic) or that a pattern shall match (Builder.StreamPattern) exist
// if they are declared in this way.
func WithTopic(topic string, partitions int32) Option {
	return func(c *config) { c.topics[topic] = partitions }
}

// WithStart sets the wall clock's beginning, the epoch by default
// (TopologyTestDriver's initialWallClockTime, which is the present time by
// default). It is cut to milliseconds and must not be before the epoch.
func WithStart(at time.Time) Option { return func(c *config) { c.start = at } }

// WithFailureHandler decides about records that fail, as
// tidegate.WithFailureHandler does for an App (Kafka Streams'
// DeserializationExceptionHandler and ProcessingExceptionHandler). By default
// the first failure ends the test.
func WithFailureHandler(f func(err error) tidegate.FailureAction) Option {
	return func(c *config) { c.onFailure = f }
}

// WithRepartitionTime sets what event time is behind a repartition topic, as
// tidegate.WithRepartitionTime does for an App.
func WithRepartitionTime(r tidegate.RepartitionTime) Option {
	return func(c *config) { c.maxSeen = r == tidegate.MaximumSeen }
}

// WithCacheBytes sets the write-back cache of each task (Kafka Streams'
// statestore.cache.max.bytes); 1 MiB by default. With 0 every change is written
// through.
func WithCacheBytes(n int64) Option { return func(c *config) { c.cacheBytes = n } }

// WithEngine sets the state engine; package state/memory by default. State lies
// in a temporary folder of the test in any case (TopologyTestDriver's state.dir).
func WithEngine(open state.OpenFunc) Option { return func(c *config) { c.open = open } }

// WithAllOutputRead fails the test when it ends, or when Driver.Close is called,
// with output that was not read: what a topology writes besides what is expected
// does not go unnoticed. TopologyTestDriver lacks this.
func WithAllOutputRead() Option { return func(c *config) { c.allRead = true } }

// PipeOption changes one record that is piped.
type PipeOption func(*pipe)

type pipe struct {
	timestamp    int64
	hasTimestamp bool
	headers      record.Headers
	partition    int32
	hasPartition bool
	null         record.Null
}

// At sets the record's timestamp in milliseconds since the epoch
// (TestInputTopic.pipeInput with a timestampMs). It must not be negative.
func At(ms int64) PipeOption {
	return func(p *pipe) { p.timestamp, p.hasTimestamp = ms, true }
}

// AtTime is At with a time.Time (TestInputTopic.pipeInput with an Instant).
func AtTime(t time.Time) PipeOption { return At(t.UnixMilli()) }

// Header adds a header behind those before it (TestRecord's headers).
func Header(key string, value []byte) PipeOption {
	return func(p *pipe) { p.headers = append(p.headers, record.Header{Key: key, Value: value}) }
}

// Partition sets the partition, instead of the hash of the key. TopologyTestDriver
// has none.
func Partition(n int32) PipeOption {
	return func(p *pipe) { p.partition, p.hasPartition = n, true }
}

// NullKey makes the key null, whatever key is passed (TestInputTopic.pipeInput
// with a value only). Such a record goes to partition 0 unless Partition says
// otherwise.
func NullKey() PipeOption { return func(p *pipe) { p.null |= record.KeyNull } }

// Tombstone makes the value null, whatever value is passed
// (TestInputTopic.pipeInput with a null value). With serde.Nullable a missing
// value is null by itself.
func Tombstone() PipeOption { return func(p *pipe) { p.null |= record.ValueNull } }
