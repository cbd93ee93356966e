package tidegate

import "github.com/tidegate/tidegate/record"

// RecordContext is what user code sees of the record that is being processed:
// Topic, Partition, Offset, Timestamp (milliseconds since the epoch), Headers
// and Ctx, a context.Context. It is valid only during the call.
type RecordContext = record.RecordContext

// Header is one Kafka record header.
type Header = record.Header

// Headers are a record's headers. They travel with the record through the
// topology by default; a Ctx function may replace RecordContext.Headers.
type Headers = record.Headers

// Opt is a value that may be missing: a tombstone, or a missing side of a join.
// Get returns the value and whether it is there, Or the value or a default;
// the zero Opt is missing.
type Opt[T any] = record.Opt[T]

// Some is a present value.
func Some[T any](v T) Opt[T] { return record.Some(v) }

// None is a missing value.
func None[T any]() Opt[T] { return record.None[T]() }

// Window is a span of event time, in milliseconds since the epoch. Start is in
// it. End is not, except for sessions and sliding windows, where it is the last
// millisecond of the window (as with Kafka Streams). Its fields are Start and
// End, both int64; StartTime and EndTime return them as time.Time.
type Window = record.Window

// Windowed is a key within a window (Kafka Streams' Windowed<K>): its fields
// are Key and the embedded Window, so w.Start is the window's start.
type Windowed[K any] = record.Windowed[K]
