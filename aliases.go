package tidegate

import "github.com/tidegate/tidegate/record"

// RecordContext is what user code sees of the record that is being processed:
// topic, partition, offset, timestamp, headers and a context.Context. It is
// valid only during the call.
type RecordContext = record.RecordContext

// Header is one Kafka record header.
type Header = record.Header

// Headers are a record's headers. They travel with the record through the
// topology by default; a Ctx function may replace RecordContext.Headers.
type Headers = record.Headers

// Opt is a value that may be missing: a tombstone, or a missing side of a join.
type Opt[T any] = record.Opt[T]

// Some is a present value.
func Some[T any](v T) Opt[T] { return record.Some(v) }

// None is a missing value.
func None[T any]() Opt[T] { return record.None[T]() }

// Window is a span of event time, in milliseconds since the epoch. Start is in
// it. End is not, except for sessions and sliding windows, where it is the last
// millisecond of the window (as with Kafka Streams).
type Window = record.Window

// Windowed is a key within a window (Kafka Streams' Windowed<K>).
type Windowed[K any] = record.Windowed[K]
