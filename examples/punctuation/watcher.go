package main

import (
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

const (
	// patience is how long a sensor may be silent.
	patience = 5 * time.Minute
	// every is how often the watcher looks.
	every = time.Minute
)

// status is what is known of a sensor.
type status struct {
	Last   int64 `json:"last"`   // time of the last reading, ms since the epoch
	Silent bool  `json:"silent"` // an alert was sent
}

// lastReading is the store of the sensors. A field of the processor would not
// do: it would be empty after a restart.
var lastReading = tidegate.KeyValueStore("last-reading", serde.String(), serde.JSON[status]())

// watcher sends an alert for sensors without readings.
type watcher struct {
	ctx     *tidegate.ProcessorContext[string, string]
	sensors *tidegate.KV[string, status]
}

// newWatcher makes the processor of one task.
func newWatcher() tidegate.Processor[string, string, string, string] { return &watcher{} }

// Init opens the store and sets the timer. Stream time is the time of the
// records: it makes the results depend on nothing else, but it stands still
// when no sensor of the task sends anything. With tidegate.WallClock the timer
// follows the machine's clock.
func (w *watcher) Init(ctx *tidegate.ProcessorContext[string, string]) error {
	var err error
	w.ctx = ctx
	if w.sensors, err = ctx.Store(lastReading); err != nil {
		return err
	}
	_, err = ctx.Schedule(every, tidegate.StreamTime, w.look)
	return err
}

// Process handles a reading.
func (w *watcher) Process(sensor string, _ tidegate.Opt[string]) error {
	s, _, err := w.sensors.Get(sensor)
	if err != nil {
		return err
	}
	if s.Silent {
		if err := w.ctx.Forward(sensor, "is back"); err != nil {
			return err
		}
	}
	// A reading that comes late must not turn the clock back.
	return w.sensors.Put(sensor, status{Last: max(s.Last, w.ctx.Record().Timestamp)})
}

// look is the punctuation: now is stream time, in milliseconds since the epoch.
// It may change the store while it goes through it.
func (w *watcher) look(now int64) error {
	var failed error
	err := w.sensors.All(func(sensor string, s status) bool {
		if !s.Silent && now-s.Last >= patience.Milliseconds() {
			failed = w.report(sensor, s)
		}
		return failed == nil
	})
	if err != nil {
		return err
	}
	return failed
}

// report sends an alert and remembers that it was sent.
func (w *watcher) report(sensor string, s status) error {
	s.Silent = true
	if err := w.sensors.Put(sensor, s); err != nil {
		return err
	}
	return w.ctx.Forward(sensor, "is silent since "+time.UnixMilli(s.Last).UTC().Format(time.TimeOnly))
}
