package operators

import (
	"sync/atomic"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/state"
)

// Env is what a graph needs of its task. All methods are called by the task's
// goroutine.
type Env interface {
	Task() ids.TaskID
	// Store opens a store of the task's engine; the same name gives the same KV.
	Store(name string) (state.KV, error)
	// CacheBytes is the budget of the write-back cache of the task's stores.
	CacheBytes() int64
	// Output opens a topic for writing. internal: it is a repartition topic.
	Output(topic string, internal bool) (Output, error)
	// Fail decides about a record that failed: nil to skip it, else the error
	// with which processing ends.
	Fail(*RecordError) error
	// MaySkip reports whether Fail may ever answer nil: stores then keep what
	// is needed to undo a half-done aggregation.
	MaySkip() bool
	Metrics() *Metrics
}

// Output is a topic that is written.
type Output interface {
	// Partitions is the topic's partition count.
	Partitions() int32
	// Append writes a record to a partition and copies what it is given. null
	// says which of key and value are null.
	Append(partition int32, key, value []byte, null record.Null, timestamp int64, h record.Headers) error
}

// Metrics are counts of graphs. Tasks may share one; any goroutine may read it.
type Metrics struct {
	// LateDropped counts records that came after their window closed, and
	// MaxLatenessMs is how far the latest of them was behind stream time.
	LateDropped   atomic.Int64
	MaxLatenessMs atomic.Int64
	// NullDropped counts records that were dropped because a step cannot use a
	// null key or value.
	NullDropped atomic.Int64
	// TimestampDropped counts records that were dropped because they had no valid
	// event time.
	TimestampDropped atomic.Int64
	// Punctuations counts calls of punctuation functions.
	Punctuations atomic.Int64
}

func (m *Metrics) late(by int64) {
	m.LateDropped.Add(1)
	for {
		most := m.MaxLatenessMs.Load()
		if by <= most || m.MaxLatenessMs.CompareAndSwap(most, by) {
			return
		}
	}
}
