package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// InvalidTimestamp says what becomes of a record of an input topic whose event
// time is invalid: negative, beyond what Kafka can store, or not found because
// the user's function failed.
type InvalidTimestamp = operators.InvalidTimestamp

const (
	// InvalidFails hands the record to the failure handler, which by default
	// ends the application (Kafka Streams' FailOnInvalidTimestamp). The default.
	InvalidFails = operators.InvalidFails
	// InvalidSkipped drops the record and counts it in Health.TimestampDropped
	// (Kafka Streams' LogAndSkipOnInvalidTimestamp).
	InvalidSkipped = operators.InvalidSkipped
	// InvalidTakesPartitionTime gives the record the highest event time that its
	// partition had before it; a record with none before it goes to the failure
	// handler (Kafka Streams' UsePartitionTimeOnInvalidTimestamp).
	InvalidTakesPartitionTime = operators.InvalidTakesPartitionTime
)

// TimestampFromRecord takes the records' own timestamps as event times, which
// is the default, and says what becomes of invalid ones. Without this option
// they fail.
//
// The event time of an input rules which input is read next, stream time, and
// the timestamps of all that is derived from the record, topics included.
func TimestampFromRecord(invalid InvalidTimestamp) SourceOption {
	return timestampOption("record timestamps (invalid: "+invalid.String()+")", false, invalid,
		func(*Builder, topology.Site, any, any) (operators.TimestampFactory, bool) {
			return operators.RecordTimestamps(invalid), true
		})
}

// TimestampFromWallClock takes the machine's clock at the moment when a record
// is queued to its task (Kafka Streams' WallclockTimestampExtractor). It is the
// one choice under which a replay after a failure gives records other times
// than before: windows that were written may then get other contents. In a
// test driver it is the driver's clock.
func TimestampFromWallClock() SourceOption {
	return timestampOption("wall clock", false, InvalidFails,
		func(*Builder, topology.Site, any, any) (operators.TimestampFactory, bool) {
			return operators.WallClockTimestamps(), true
		})
}

// TimestampFrom takes the event time, in milliseconds since the epoch, that f
// finds in a record (Kafka Streams' TimestampExtractor). K and V must be the
// source's types; v is missing for a null value, k is zero for a null key, and
// RecordContext.Timestamp is the record's own timestamp. An error, a panic and
// an invalid time are treated as invalid says.
//
// f is called once per record when it is queued, ahead of its turn and without
// any state, so the record is decoded once more than without it; a record that
// cannot be decoded does not reach f, moves no time, and is reported at its
// turn. f must depend on nothing but its arguments: a replay calls it again.
// What it does to the headers is lost.
func TimestampFrom[K, V any](f func(c *RecordContext, k K, v Opt[V]) (int64, error), invalid InvalidTimestamp) SourceOption {
	return timestampOption("a function's timestamps (invalid: "+invalid.String()+")", true, invalid,
		func(b *Builder, site topology.Site, ks, vs any) (operators.TimestampFactory, bool) {
			k, okK := ks.(serde.Serde[K])
			v, okV := vs.(serde.Serde[V])
			switch {
			case f == nil:
				b.t.Errorf(site, "TimestampFrom: the function is nil")
			case !okK || !okV:
				b.t.Errorf(site, "TimestampFrom: the function takes a key %T and a value %T, which are not the source's types", *new(K), *new(V))
			default:
				return operators.UserTimestamps(k, v, f, invalid), true
			}
			return nil, false
		})
}

// timestampSource is how an option finds times; its address tells functions
// apart, its text what needs none.
type timestampSource struct {
	text     string
	function bool
	invalid  InvalidTimestamp
	factory  func(b *Builder, site topology.Site, ks, vs any) (operators.TimestampFactory, bool)
}

func timestampOption(
	text string, function bool, invalid InvalidTimestamp,
	factory func(b *Builder, site topology.Site, ks, vs any) (operators.TimestampFactory, bool),
) SourceOption {
	s := &timestampSource{text, function, invalid, factory}
	return sourceOption(func(o *sourceOptions) { o.timestamps = append(o.timestamps, s) })
}

// IdleAfter sets after what silence a partition of this source no longer holds
// back event time downstream, in place of WithIdleTimeout (Flink's
// withIdleness). d is at least 1ms.
func IdleAfter(d time.Duration) SourceOption {
	return sourceOption(func(o *sourceOptions) { o.idle, o.hasIdle = d, true })
}

// timed puts what a source's options say about time into its node.
func timed[K, V any](b *Builder, n *topology.Node, o sourceOptions, ks serde.Serde[K], vs serde.Serde[V]) {
	if o.hasIdle {
		if o.idle < time.Millisecond {
			b.t.Errorf(n.Site, "IdleAfter(%v): want at least 1ms", o.idle)
		}
		n.IdleMs = o.idle.Milliseconds()
	}
	switch len(o.timestamps) {
	case 0:
		return
	case 1:
	default:
		b.t.Errorf(n.Site, "the source has %d options that say where timestamps come from: choose one", len(o.timestamps))
	}
	s := o.timestamps[0]
	if s.invalid > InvalidTakesPartitionTime {
		b.t.Errorf(n.Site, "%s: want InvalidFails, InvalidSkipped or InvalidTakesPartitionTime", s.invalid)
	}
	if f, ok := s.factory(b, n.Site, ks, vs); ok {
		n.Timestamps = &topology.Timestamps{Text: s.text, ID: s.id(), Factory: f}
	}
}

// id is the address for a function, which cannot be compared otherwise.
func (s *timestampSource) id() any {
	if s.function {
		return s
	}
	return s.text
}
