package tidegate

import (
	"math"
	"time"

	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/topology"
)

// ErrSuppressFull is wrapped by the error with which an App ends when a buffer
// of Suppress with WhenFull(ShutDown) is full.
var ErrSuppressFull = operators.ErrBufferFull

// FullBuffer says what Suppress does when its buffer is full.
type FullBuffer uint8

const (
	// Spill keeps everything: the buffer is a store, whose disk is the bound.
	// It is the default and takes no bounds.
	Spill FullBuffer = iota
	// EmitEarly sends the oldest updates early (Kafka Streams'
	// emitEarlyWhenFull).
	EmitEarly
	// ShutDown ends the App with ErrSuppressFull (shutDownWhenFull).
	ShutDown
)

// Suppression says which updates Suppress holds back and for how long:
// UntilWindowCloses or UntilTimeLimit (Kafka Streams' Suppressed).
type Suppression struct {
	closes         bool
	limit          time.Duration
	records, bytes int64
	bounded        bool
	full           FullBuffer
}

// UntilWindowCloses holds the rows of a windowed table back until nothing can
// change them: until stream time has passed the window's end plus its grace.
// Each row is sent once, if it is there then; a row that is not gives nothing.
func UntilWindowCloses() Suppression { return Suppression{closes: true} }

// UntilTimeLimit sends the newest update of a key when stream time is limit
// after the timestamp of the first update that was held back. A limit of 0 only
// drops what is overtaken before it is sent.
func UntilTimeLimit(limit time.Duration) Suppression { return Suppression{limit: limit} }

// MaxRecords bounds the number of keys in a task's buffer (Kafka Streams'
// BufferConfig.maxRecords). It needs WhenFull.
func (u Suppression) MaxRecords(n int64) Suppression {
	u.records, u.bounded = n, true
	if n <= 0 {
		u.records = -1
	}
	return u
}

// MaxBytes bounds the bytes of the serialised keys and updates in a task's
// buffer (BufferConfig.maxBytes). It needs WhenFull.
func (u Suppression) MaxBytes(n int64) Suppression {
	u.bytes, u.bounded = n, true
	if n <= 0 {
		u.bytes = -1
	}
	return u
}

// WhenFull says what happens when a bound is exceeded. EmitEarly is for
// UntilTimeLimit only: a row that is sent early is not final.
func (u Suppression) WhenFull(f FullBuffer) Suppression {
	u.full = f
	return u
}

// check notes what is wrong with the suppression and returns a valid one.
func (u Suppression) check(b *Builder, site topology.Site, name string) operators.Suppression {
	o := operators.Suppression{
		Limit: u.limit.Milliseconds(), Closes: u.closes, MaxRecords: u.records, MaxBytes: u.bytes,
		EmitEarly: u.full == EmitEarly,
	}
	var wrong string
	switch {
	case u.limit < 0:
		wrong = "the limit must not be negative"
	case u.limit%time.Millisecond != 0:
		wrong = "the limit must be of whole milliseconds, as event time is"
	case u.records < 0 || u.bytes < 0:
		wrong = "MaxRecords and MaxBytes must be positive: leave them out for no bound"
	case u.full > ShutDown:
		wrong = "WhenFull takes Spill, EmitEarly or ShutDown"
	case u.full == EmitEarly && u.closes:
		wrong = "WhenFull(EmitEarly) contradicts UntilWindowCloses: a row sent early is not final; use ShutDown, or leave the bounds out"
	case u.bounded && u.full == Spill:
		wrong = "MaxRecords and MaxBytes need WhenFull(EmitEarly) or WhenFull(ShutDown): without them the buffer lies in its store and needs no bound"
	case u.full != Spill && !u.bounded:
		wrong = "WhenFull needs a bound: MaxRecords or MaxBytes"
	default:
		return o
	}
	b.t.Errorf(site, "Suppress(%q): %s", name, wrong)
	return operators.Suppression{Closes: u.closes}
}

// Suppress holds updates of the table back, so that fewer of them, or only the
// final ones, go downstream (Kafka Streams' KTable.suppress):
//
//	counts.Suppress("final", tidegate.UntilWindowCloses())
//	counts.Suppress("calm", tidegate.UntilTimeLimit(time.Minute).MaxRecords(10_000).WhenFull(tidegate.EmitEarly))
//
// Updates that are due are sent in the order of time, then of serialised keys,
// with the timestamp and headers of the newest one. Time is the task's stream
// time: without new records nothing becomes due. The buffer is in the stores of
// that name and of "name-times", is part of checkpoints, and is bounded by the
// disk unless the Suppression says otherwise.
//
// The result is a table: its rows are those that were sent, and steps behind it
// that need the value before get the one that was sent before.
func (t *Table[K, V]) Suppress(name string, until Suppression) *Table[K, V] {
	site := here()
	o := until.check(t.b, site, name)
	op, closeAt := "suppress-until-limit", t.closeAt
	if o.Closes {
		op = "suppress-until-closed"
		if closeAt == nil {
			t.b.t.Errorf(site, "Suppress(%q): UntilWindowCloses needs a table whose keys are windows, this one's rows may always change: put it behind WindowedBy and an aggregation, with nothing but Filter and MapValues between, or use UntilTimeLimit", name)
			closeAt = func(K) int64 { return math.MaxInt64 }
		}
	}
	step := "Suppress(" + name + ")"
	ks, vs := needKey(t.from, site, step, t.ks), needValue(t.from, site, step, t.vs)
	t.b.addStore(site, name, operators.FormatSuppressRows, ks, vs)
	t.b.t.AddStore(topology.Store{
		Name: o.TimesStore(name), Format: o.TimesFormat(), Key: serdeInfo(ks), Value: emptyValue, Site: site,
	})
	f := t.from
	f.n = f.add(topology.Node{
		Kind: topology.Stateful, Op: op, Name: name, Site: site,
		Stores:   []string{name, o.TimesStore(name)},
		WantsOld: !o.Closes, KeyedState: true,
		Factory: operators.Suppress(name, o, closeAt, ks, vs),
		Getter:  operators.SuppressGetter(t.n, name, ks, vs),
	})
	out := &Table[K, V]{from: f, ks: ks, vs: vs}
	if o.Closes {
		out.closeAt = t.closeAt
	}
	return out
}

// emptyValue describes the values of a store whose keys say everything.
var emptyValue = topology.Serde{Fingerprint: "empty", Accepts: func(fp string) bool { return fp == "empty" }}
