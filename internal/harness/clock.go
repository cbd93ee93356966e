package harness

import (
	"math"
	"time"
)

// SetClock sets where the wall clock begins, in milliseconds since the epoch; 0
// unless set before Start.
func (d *Driver) SetClock(now int64) { d.now = time.UnixMilli(now) }

// Wall moves the wall clock: it fires the wall-clock timers of all tasks that
// are due, and inputs without records become idle.
func (d *Driver) Wall(now int64) error {
	d.now = time.UnixMilli(now)
	return d.all(func(*task) {})
}

// Advance moves stream time: as if every partition of every external input had
// a record of that timestamp which no step sees.
func (d *Driver) Advance(ts int64) error {
	// The largest value is no time: an upstream task that has it holds nothing back.
	ts = min(ts, math.MaxInt64-1)
	return d.all(func(t *task) { d.worker.Observe(t.run, ts) })
}

// all gives every task a turn after f.
func (d *Driver) all(f func(*task)) error {
	if d.worker == nil {
		if err := d.Start(); err != nil {
			return err
		}
	}
	for _, t := range d.order {
		f(t)
		t.dirty = true
	}
	return d.Run()
}
