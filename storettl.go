package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/operators"
)

// TTLOption changes how the time to live of a store works.
type TTLOption uint8

const (
	// RefreshOnRead makes Get refresh an entry that it finds, as Put does (Flink's
	// UpdateType.OnReadAndWrite). Scans refresh nothing.
	RefreshOnRead TTLOption = iota + 1
	// ReturnUntilCleaned shows expired entries as long as they are there (Flink's
	// StateVisibility.ReturnExpiredIfNotCleanedUp). When they go may differ from
	// run to run, and so may what a processor makes of them.
	ReturnUntilCleaned
)

// TTL gives the entries of the store a time to live, at least 1ms: an entry that
// was not put for that long is not there any more (Flink's StateTtlConfig; Kafka
// Streams has none). It returns the definition itself:
//
//	var seen = tidegate.KeyValueStore("seen", serde.String(), serde.Bool()).TTL(time.Hour)
//
// The clock is stream time, so that records that are processed again after a
// failure find what they found before. An entry put at stream time t is there
// while stream time is below t + ttl. It leaves the disk when stream time passes
// the next multiple of a quarter of ttl, in bounded steps: at one step of stream
// time at most 256 entries, or twice as many as were added, are looked at. Before
// the first record stream time is −1: what Init puts then is expired when the
// first record comes.
//
// The time to live is part of what the state is: a topology with another one does
// not go on from an old checkpoint. The options may change.
func (d *KVDef[K, V]) TTL(ttl time.Duration, options ...TTLOption) *KVDef[K, V] {
	d.ttl = &ttl
	d.ttlOptions = options
	return d
}

// howTTL is the time to live as package operators knows it.
func (d *KVDef[K, V]) howTTL() operators.TTL {
	t := operators.TTL{Ms: d.ttl.Milliseconds()}
	for _, o := range d.ttlOptions {
		t.RefreshOnRead = t.RefreshOnRead || o == RefreshOnRead
		t.UntilCleaned = t.UntilCleaned || o == ReturnUntilCleaned
	}
	return t
}
