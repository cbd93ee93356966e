// Package record holds the values that travel through a topology: records as
// they come from Kafka, headers, windows, optional values, and the context in
// which user code sees a record.
package record

import (
	"context"
	"fmt"
	"time"
)

// Header is one Kafka record header. Keys may repeat; order is kept.
type Header struct {
	Key   string
	Value []byte
}

// Headers are a record's headers in order. They propagate through a topology
// unless an operator replaces them.
type Headers []Header

// Last returns the value of the last header with that key, as Kafka's
// Headers.lastHeader does.
func (h Headers) Last(key string) ([]byte, bool) {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].Key == key {
			return h[i].Value, true
		}
	}
	return nil, false
}

// With returns the headers with one added at the end; the receiver is not
// changed.
func (h Headers) With(key string, value []byte) Headers {
	out := make(Headers, len(h), len(h)+1)
	copy(out, h)
	return append(out, Header{Key: key, Value: value})
}

// Raw is a record as it lies in a partition. Key, Value and the headers alias
// the fetch buffer. A nil Key or Value is Kafka's null.
type Raw struct {
	Key, Value []byte
	Headers    Headers
	Timestamp  int64 // milliseconds since the epoch
	Offset     int64
}

// Null says which parts of a record are null. A record carries it beside key
// and value, because a plain Go type has no null of its own.
type Null uint8

const (
	// KeyNull is set when the key is null.
	KeyNull Null = 1 << iota
	// ValueNull is set when the value is null: a tombstone.
	ValueNull
)

// Key reports whether the key is null.
func (n Null) Key() bool { return n&KeyNull != 0 }

// Value reports whether the value is null.
func (n Null) Value() bool { return n&ValueNull != 0 }

// Opt is a value that may be missing: the null that Java's Kafka Streams
// passes for a tombstone or a missing join side. The zero Opt is missing.
type Opt[T any] struct {
	v  T
	ok bool
}

// Some is a present value.
func Some[T any](v T) Opt[T] { return Opt[T]{v: v, ok: true} }

// None is a missing value.
func None[T any]() Opt[T] { return Opt[T]{} }

// Get returns the value and whether it is present.
func (o Opt[T]) Get() (T, bool) { return o.v, o.ok }

// Or returns the value, or def when it is missing.
func (o Opt[T]) Or(def T) T {
	if o.ok {
		return o.v
	}
	return def
}

// IsSome reports whether the value is present.
func (o Opt[T]) IsSome() bool { return o.ok }

// Window is a span of event time, in milliseconds since the epoch. Start is in
// it. End is not, except for sessions and sliding windows, where it is the last
// millisecond of the window (as with Kafka Streams).
type Window struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// StartTime returns the window's start in UTC.
func (w Window) StartTime() time.Time { return time.UnixMilli(w.Start).UTC() }

// EndTime returns the window's end in UTC.
func (w Window) EndTime() time.Time { return time.UnixMilli(w.End).UTC() }

// String returns "start/end" in milliseconds.
func (w Window) String() string { return fmt.Sprintf("%d/%d", w.Start, w.End) }

// Windowed is a key within a window (Kafka Streams' Windowed<K>).
type Windowed[K any] struct {
	Key K `json:"key"`
	Window
}

// String returns "[key@start/end]", as Kafka Streams does.
func (w Windowed[K]) String() string { return fmt.Sprintf("[%v@%v]", w.Key, w.Window) }

// RecordContext is what user code sees of the record that is being processed.
// It is valid only during the call: the task reuses it for the next record.
type RecordContext struct {
	// Ctx is cancelled when the task stops; blocking user code must heed it.
	Ctx context.Context
	// Topic, Partition and Offset say where the record was read. For records
	// made by a timer they are "", -1 and -1.
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is the record's event time in milliseconds since the epoch.
	Timestamp int64
	// Headers are the record's headers; what is set here goes on downstream.
	Headers Headers
}

// Time returns the record's event time in UTC.
func (c *RecordContext) Time() time.Time { return time.UnixMilli(c.Timestamp).UTC() }
