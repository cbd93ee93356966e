// Package workload holds the workloads of the comparison as tidegate
// topologies, written once against the public API; every mode runs the same.
//
// Topics carry the records of package nexmark, and for "count" records of a
// random 8-byte key and a 100-byte value. Peers in other languages do the same
// work on the same bytes. Windowed workloads give final results only.
package workload

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/compare/check"
	"github.com/tidegate/tidegate/compare/nexmark"
	"github.com/tidegate/tidegate/serde"
)

// Topics names the topics of a run.
type Topics struct {
	Input, Persons, Auctions, Bids string
	Output                         string
}

// Options are what a workload may be given.
type Options struct {
	Topics Topics
	// Keys is the number of keys of "count" and "bigstate".
	Keys uint64
	// ValueBytes is the size of a value in the state of "bigstate".
	ValueBytes int
	// Grace is how far q7's maxima may be behind its bids, in event time: they come
	// by a longer way.
	Grace time.Duration
}

// Window of q5, q7 and q8, and the advance of q5's.
const (
	window  = check.WindowMs * time.Millisecond
	advance = check.AdvanceMs * time.Millisecond
)

// builders are the workloads, and the topics that each reads.
var builders = map[string]struct {
	reads []string
	build func(*tidegate.Builder, Options)
}{
	"passthrough": {[]string{"bids"}, passthrough},
	"count":       {[]string{"input"}, count},
	"q3":          {[]string{"persons", "auctions"}, q3},
	"q5":          {[]string{"bids"}, q5},
	"q7":          {[]string{"bids"}, q7},
	"q11":         {[]string{"bids"}, q11},
	"q8":          {[]string{"persons", "auctions"}, q8},
	"bigstate":    {[]string{"input"}, bigState},
}

// Names are the names of all workloads, sorted.
func Names() []string {
	var names []string
	for name := range builders {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Reads are the roles of the topics that a workload reads.
func Reads(name string) []string { return builders[name].reads }

// Build describes a workload.
func Build(name string, o Options) (*tidegate.Topology, error) {
	w, ok := builders[name]
	if !ok {
		return nil, fmt.Errorf("workload %q: want one of %v", name, Names())
	}
	b := tidegate.NewBuilder()
	w.build(b, o)
	return b.Build()
}

func read(b *tidegate.Builder, topic string) *tidegate.Stream[int64, []byte] {
	return b.Stream(topic, serde.Int64(), serde.Bytes())
}

// passthrough is q1: the price of every bid times 0.908.
func passthrough(b *tidegate.Builder, o Options) {
	read(b, o.Topics.Bids).
		MapValues(func(bid []byte) []byte {
			out := slices.Clone(bid)
			binary.BigEndian.PutUint64(out[16:], uint64(nexmark.Field(bid, 2)*908/1000))
			return out
		}, serde.Bytes()).
		To(o.Topics.Output)
}

// count is the running count per key, every update written.
func count(b *tidegate.Builder, o Options) {
	b.Stream(o.Topics.Input, serde.Bytes(), serde.Bytes()).
		GroupBy("by-key", func(key, _ []byte) uint64 { return binary.BigEndian.Uint64(key) % o.Keys }, serde.Uint64()).
		Count("counts").
		ToStream().
		To(o.Topics.Output)
}

// q3: auctions of the first category with their seller, if that one is from one
// of three states.
func q3(b *tidegate.Builder, o Options) {
	persons := b.Table(o.Topics.Persons, "persons", serde.Int64(), serde.Bytes()).
		Filter(func(_ int64, p []byte) bool { return nexmark.Field(p, 2) < check.LocalStates })
	auctions := read(b, o.Topics.Auctions).
		Filter(func(_ int64, a []byte) bool { return nexmark.Field(a, 3) == nexmark.FirstCategory }).
		SelectKey(func(_ int64, a []byte) int64 { return nexmark.Field(a, 1) }, serde.Int64())
	auctions.JoinTable("by-seller", persons, func(a, p []byte) []byte { return pair(nexmark.Field(a, 0), nexmark.Field(p, 2)) }, serde.Bytes()).
		To(o.Topics.Output)
}

// q5 is the auction with most bids in each hopping window: counts per auction,
// then the maximum per window.
func q5(b *tidegate.Builder, o Options) {
	counts := read(b, o.Topics.Bids).
		GroupBy("by-auction", func(_ int64, bid []byte) int64 { return nexmark.Field(bid, 0) }, serde.Int64()).
		WindowedBy(tidegate.Hopping(window, advance), tidegate.ByWindow).
		EmitOnClose().
		Count("bids-per-auction").
		ToStream()
	counts.Process("at-window-end", func() tidegate.Processor[tidegate.Windowed[int64], int64, int64, []byte] { return &atWindowEnd{} }).
		As(serde.Int64(), serde.Bytes()).
		GroupByKey("by-window").
		WindowedBy(tidegate.Tumbling(time.Millisecond), tidegate.ByWindow).
		EmitOnClose().
		Reduce("hottest", hotter).
		ToStream().
		SelectKey(func(w tidegate.Windowed[int64], _ []byte) int64 { return w.Key }, serde.Int64()).
		To(o.Topics.Output)
}

// atWindowEnd turns (auction, window) → count into window end → (auction,
// count), at the window's last millisecond.
type atWindowEnd struct {
	ctx *tidegate.ProcessorContext[int64, []byte]
}

func (p *atWindowEnd) Init(ctx *tidegate.ProcessorContext[int64, []byte]) error {
	p.ctx = ctx
	return nil
}

func (p *atWindowEnd) Process(k tidegate.Windowed[int64], n tidegate.Opt[int64]) error {
	return p.ctx.ForwardAt(k.Window.End-1, k.Window.End, pair(k.Key, n.Or(0)))
}

func hotter(a, b []byte) []byte {
	switch x, y := nexmark.Field(a, 1), nexmark.Field(b, 1); {
	case x > y:
		return a
	case x < y:
		return b
	case nexmark.Field(a, 0) <= nexmark.Field(b, 0):
		return a
	}
	return b
}

// q8: persons who opened an auction in the window of 10 s in which they came.
func q8(b *tidegate.Builder, o Options) {
	auctions := read(b, o.Topics.Auctions).
		SelectKey(func(_ int64, a []byte) int64 { return nexmark.Field(a, 1) }, serde.Int64())
	read(b, o.Topics.Persons).
		JoinStream("by-seller", auctions, tidegate.JoinWithin(window), sameWindow, serde.Bytes()).
		Filter(func(_ int64, row []byte) bool { return len(row) > 0 }).
		To(o.Topics.Output)
}

func sameWindow(person, auction []byte) []byte {
	start := windowStart(nexmark.Field(person, 1))
	if start != windowStart(nexmark.Field(auction, 2)) {
		return nil
	}
	return pair(nexmark.Field(auction, 0), start)
}

func windowStart(t int64) int64 { return t - t%check.WindowMs }

// bigState counts per key in values that are filled up to a size with what no
// compression shortens.
func bigState(b *tidegate.Builder, o Options) {
	size := max(o.ValueBytes, 8)
	b.Stream(o.Topics.Input, serde.Bytes(), serde.Bytes()).
		GroupBy("by-key", func(key, _ []byte) uint64 { return binary.BigEndian.Uint64(key) % o.Keys }, serde.Uint64()).
		Aggregate("big", func() []byte { return make([]byte, size) }, func(key uint64, _, agg []byte) []byte {
			n := binary.BigEndian.Uint64(agg)
			if n == 0 {
				fill(agg[8:], key)
			}
			binary.BigEndian.PutUint64(agg, n+1)
			return agg
		}, serde.Bytes()).
		ToStream().
		MapValues(func(agg []byte) uint64 { return binary.BigEndian.Uint64(agg) }, serde.Uint64()).
		To(o.Topics.Output)
}

func pair(a, b int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(a)), uint64(b))
}

// fill writes bytes that follow from a key and look random; every system does the
// same.
func fill(b []byte, key uint64) {
	x := key
	for i := range b {
		if i%8 == 0 {
			x += 0x9e3779b97f4a7c15
			x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
			x ^= x >> 27
		}
		b[i] = byte(x >> (8 * (i % 8)))
	}
}
