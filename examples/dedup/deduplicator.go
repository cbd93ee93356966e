package main

import (
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

const (
	// span is the time in which a second record of an id is a duplicate.
	span = time.Hour
	// lateness is how far behind stream time a record may be and still be
	// recognised.
	lateness = 10 * time.Minute
)

// seen is the store of the ids: when each came first. It is divided into
// windows of an hour, which are dropped as a whole when no record can need them
// any more, so it does not grow for ever.
//
// A record looks into the window before its own, and windows are kept by their
// beginning: two spans cover that, and a late record needs its lateness more.
var seen = tidegate.WindowStore("seen", 2*span+lateness, serde.String(), serde.Int64())

// deduplicator forwards the first record of each id.
type deduplicator struct {
	ctx  *tidegate.ValueContext[string, string]
	seen *tidegate.WindowKV[string, int64]
}

// newDeduplicator makes the processor of one task.
func newDeduplicator() tidegate.ValueProcessor[string, string, string] { return &deduplicator{} }

// Init opens the store, which has been restored by then.
func (d *deduplicator) Init(ctx *tidegate.ValueContext[string, string]) error {
	var err error
	d.ctx = ctx
	d.seen, err = ctx.WindowStore(seen)
	return err
}

// Process handles one record. It returns errors as they are: the task then goes
// back to the last checkpoint, as if the record had not come yet.
func (d *deduplicator) Process(id string, payment tidegate.Opt[string]) error {
	value, ok := payment.Get()
	if !ok {
		return nil // a record without a value is no payment
	}
	at := d.ctx.Record().Timestamp
	known, err := d.isKnown(id, at)
	if err != nil || known {
		return err
	}
	if err := d.seen.Put(id, window(at), at); err != nil {
		return err
	}
	return d.ctx.Forward(value)
}

// isKnown reports whether the id came within a span before or after at. Such a
// record lies in the same window or in one beside it.
func (d *deduplicator) isKnown(id string, at int64) (bool, error) {
	for _, w := range []int64{window(at) - span.Milliseconds(), window(at), window(at) + span.Milliseconds()} {
		first, ok, err := d.seen.Get(id, w)
		if err != nil {
			return false, err
		}
		if ok && max(at-first, first-at) < span.Milliseconds() {
			return true, nil
		}
	}
	return false, nil
}

// window is the beginning of the window of a time, in milliseconds since the
// epoch.
func window(at int64) int64 { return at - at%span.Milliseconds() }
