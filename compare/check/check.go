package check

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/tidegate/tidegate/integration/measure"
)

// Check is a measure.Check that also knows when nothing more can come.
type Check interface {
	measure.Check
	// Complete reports whether every row that must come was seen.
	Complete() bool
	// Faults counts rows that are missing, came twice, or are wrong.
	Faults() Faults
}

// Faults counts what is wrong with an output.
type Faults struct {
	Lost    int64  `json:"lost"`
	Doubled int64  `json:"doubled"`
	Wrong   int64  `json:"wrong"`
	First   string `json:"first,omitempty"` // the first of them, with its key
}

// Err returns an error if there are any.
func (f Faults) Err() error {
	if f.Lost == 0 && f.Doubled == 0 && f.Wrong == 0 {
		return nil
	}
	return fmt.Errorf("%d rows lost, %d doubled, %d wrong; first: %s", f.Lost, f.Doubled, f.Wrong, f.First)
}

// notes collects faults; rows of one key come from one goroutine, but there may
// be several.
type notes struct {
	mu sync.Mutex
	f  Faults
}

func (n *notes) note(count *int64, by int64, format string, args ...any) {
	n.f.note(count, by, format, args...)
}

// note adds to one of the counts, and keeps the first text.
func (f *Faults) note(count *int64, by int64, format string, args ...any) {
	*count += by
	if f.First == "" {
		f.First = fmt.Sprintf(format, args...)
	}
}

func number(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

// Counts checks the count workload.
type Counts struct {
	*measure.Counter
	total   int64
	latency *Latency
}

// NewCounts expects total records over keys; latency may be nil.
func NewCounts(keys int, total int64, latency *Latency) *Counts {
	return &Counts{measure.NewCounter(keys), total, latency}
}

// Record checks one row.
func (c *Counts) Record(p int32, timestamp int64, key, value []byte) {
	c.latency.Seen(timestamp)
	c.Counter.Record(p, timestamp, key, value)
}

// Complete reports whether as many rows came as there are input records.
func (c *Counts) Complete() bool { return c.Progress() >= c.total }

// Faults counts gaps and repetitions in the running counts.
func (c *Counts) Faults() Faults {
	var f Faults
	f.Lost, f.Doubled = c.Counter.Faults()
	if err := c.Counter.Verdict(); err != nil {
		f.First = err.Error()
		if f.Lost == 0 && f.Doubled == 0 {
			f.Wrong = 1
		}
	}
	return f
}
