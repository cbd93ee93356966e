package check

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is a histogram of the time from when a row's cause was to be sent to
// when a read_committed consumer saw the row, in microseconds.
type Latency struct {
	mu    sync.Mutex
	from  time.Time
	dueAt func(timestamp int64) time.Time
	hist  *hdrhistogram.Histogram
}

const mostLatency = 10 * time.Minute

// NewLatency counts rows whose cause was due at from or later; dueAt says when a
// timestamp is due.
func NewLatency(from time.Time, dueAt func(timestamp int64) time.Time) *Latency {
	return &Latency{from: from, dueAt: dueAt, hist: hdrhistogram.New(1, mostLatency.Microseconds(), 3)}
}

// Seen notes a row that was seen now, with the timestamp of its cause. A nil
// Latency ignores it.
func (l *Latency) Seen(timestamp int64) {
	if l == nil {
		return
	}
	at := l.dueAt(timestamp)
	if at.Before(l.from) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	us := max(time.Since(at).Microseconds(), 1) // may be within the millisecond of the timestamp
	// Beyond the range counts as its end: a quantile there says "at least".
	_ = l.hist.RecordValue(min(us, mostLatency.Microseconds()))
}

// Quantile returns a latency in milliseconds.
func (l *Latency) Quantile(percent float64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(l.hist.ValueAtQuantile(percent)) / 1000
}

// Count is how many rows were counted.
func (l *Latency) Count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hist.TotalCount()
}
