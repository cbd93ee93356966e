package main

import (
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/serde"
)

// seen is the store of the ids that came within the last hour. An entry that was
// put an hour ago is not there any more, so the store does not grow for ever.
// The hour is one of stream time: the time of the records, not of the machine.
var seen = tidegate.KeyValueStore("seen", serde.String(), serde.Bool()).TTL(time.Hour)

// deduplicator forwards the first record of each id.
type deduplicator struct {
	ctx  *tidegate.ValueContext[string, string]
	seen *tidegate.KV[string, bool]
}

// newDeduplicator makes the processor of one task.
func newDeduplicator() tidegate.ValueProcessor[string, string, string] { return &deduplicator{} }

// Init opens the store, which has been restored by then.
func (d *deduplicator) Init(ctx *tidegate.ValueContext[string, string]) error {
	var err error
	d.ctx = ctx
	d.seen, err = ctx.Store(seen)
	return err
}

// Process handles one record. It returns errors as they are: the task then goes
// back to the last checkpoint, as if the record had not come yet.
func (d *deduplicator) Process(id string, payment tidegate.Opt[string]) error {
	value, ok := payment.Get()
	if !ok {
		return nil // a record without a value is no payment
	}
	_, known, err := d.seen.PutIfAbsent(id, true)
	if err != nil || known {
		return err
	}
	return d.ctx.Forward(value)
}
