package measure

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
)

// Counter checks running counts: those of every key are 1, 2, 3, … in this
// order.
type Counter struct {
	counts []uint64 // by key
	total  atomic.Int64

	mu      sync.Mutex
	lost    int64 // counts that never came before a later one
	doubled int64 // counts that came again
	wrong   error // the first record that is none of a contestant's
	example string
}

// NewCounter checks the counts of the keys 0 to keys-1.
func NewCounter(keys int) *Counter { return &Counter{counts: make([]uint64, keys)} }

// Record checks one output record. The counts of one key are in one partition,
// so no lock is needed for them; mistakes are rare.
func (c *Counter) Record(_ int32, _ int64, key, value []byte) {
	c.total.Add(1)
	if len(key) != 8 || len(value) != 8 || binary.BigEndian.Uint64(key) >= uint64(len(c.counts)) {
		c.mistake(func() { c.wrong = fmt.Errorf("output record with key %x and value %x", key, value) })
		return
	}
	k := binary.BigEndian.Uint64(key)
	got, want := binary.BigEndian.Uint64(value), c.counts[k]+1
	if got == want {
		c.counts[k] = got
		return
	}
	c.mistake(func() {
		if c.example == "" {
			c.example = fmt.Sprintf("key %d: count %d came where %d was due", k, got, want)
		}
		if got < want {
			c.doubled++
			return
		}
		c.lost += int64(got - want)
		c.counts[k] = got
	})
}

func (c *Counter) mistake(note func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note()
}

// Progress is the number of records.
func (c *Counter) Progress() int64 { return c.total.Load() }

// Verdict returns an error if a record was lost, doubled or wrong.
func (c *Counter) Verdict() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wrong != nil {
		return c.wrong
	}
	if c.lost > 0 || c.doubled > 0 {
		return fmt.Errorf("%d records lost, %d doubled; first: %s", c.lost, c.doubled, c.example)
	}
	return nil
}

// Faults returns how many records were lost and doubled.
func (c *Counter) Faults() (lost, doubled int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost, c.doubled
}
