package check

import (
	"sync/atomic"

	"github.com/tidegate/tidegate/compare/nexmark"
)

// Hot is the auction with most bids in a window: the smallest of several.
type Hot struct{ Auction, Count int64 }

// WindowMs and AdvanceMs are the window of q5 in milliseconds; q7 and q8 have
// tumbling windows of the same length.
const (
	WindowMs  = 10_000
	AdvanceMs = 2_000
)

// HottestOf computes q5's rows for the first bids: by window end.
func HottestOf(g nexmark.Generator, bids int64) map[int64]Hot {
	const slices = WindowMs / AdvanceMs
	rows := map[int64]Hot{}
	var ring [slices]map[int64]int64
	at := floor(g.Time(nexmark.BidEvent(0)), AdvanceMs)
	cur := map[int64]int64{}
	closeSlice := func() {
		copy(ring[:], ring[1:])
		ring[slices-1], cur = cur, map[int64]int64{}
		at += AdvanceMs
		if hot, ok := hottest(ring[:]); ok {
			rows[at] = hot
		}
	}
	for n := range bids {
		for g.Time(nexmark.BidEvent(n)) >= at+AdvanceMs {
			closeSlice()
		}
		auction, _, _ := g.BidOf(n)
		cur[auction]++
	}
	return rows
}

func hottest(slices []map[int64]int64) (best Hot, ok bool) {
	sum := map[int64]int64{}
	for _, s := range slices {
		for auction, n := range s {
			sum[auction] += n
		}
	}
	for auction, n := range sum {
		if !ok || n > best.Count || n == best.Count && auction < best.Auction {
			best, ok = Hot{auction, n}, true
		}
	}
	return best, ok
}

func floor(t, step int64) int64 { return t - ((t%step)+step)%step }

// Hottest checks q5.
type Hottest struct {
	notes
	g        nexmark.Generator
	rows     map[int64]Hot
	until    int64 // rows of windows that end later may be missing
	seen     map[int64]bool
	next     int64 // every window that ends before was seen
	progress atomic.Int64
	latency  *Latency
}

// NewHottest expects the rows of the windows that end at least slackMs before
// the last bid. latency may be nil.
func NewHottest(g nexmark.Generator, bids, slackMs int64, latency *Latency) *Hottest {
	h := &Hottest{
		g: g, rows: HottestOf(g, bids), until: g.Time(nexmark.BidEvent(bids-1)) - slackMs,
		seen: map[int64]bool{}, latency: latency,
	}
	h.next = floor(g.Time(nexmark.BidEvent(0)), AdvanceMs) + AdvanceMs
	return h
}

// Record checks one row: window end → auction, count.
func (h *Hottest) Record(_ int32, _ int64, key, value []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(key) != 8 || len(value) != 16 {
		h.note(&h.f.Wrong, 1, "key %x value %x", key, value)
		return
	}
	end, got := number(key), Hot{number(value), number(value[8:])}
	want, ok := h.rows[end]
	switch {
	case h.seen[end]:
		h.note(&h.f.Doubled, 1, "window end %d came again: %+v", end, got)
		return
	case ok && got != want:
		h.note(&h.f.Wrong, 1, "window end %d: %+v, want %+v", end, got, want)
	case !ok && end <= h.until:
		h.note(&h.f.Wrong, 1, "window end %d has no row, got %+v", end, got)
	}
	h.seen[end] = true
	h.latency.Seen(end)
	for h.next <= h.until && (h.seen[h.next] || !h.has(h.next)) {
		h.next += AdvanceMs
	}
	h.progress.Store(bidsBefore(h.g, h.next-AdvanceMs))
}

// bidsBefore is how many bids are accounted for when every window that ends by a
// time was seen.
func bidsBefore(g nexmark.Generator, end int64) int64 {
	return g.EventAt(end) / nexmark.Cycle * (nexmark.Cycle - 4)
}

func (h *Hottest) has(end int64) bool { _, ok := h.rows[end]; return ok }

// Progress is the number of bids in the windows without a gap.
func (h *Hottest) Progress() int64 { return h.progress.Load() }

// Complete reports whether every window that must come was seen.
func (h *Hottest) Complete() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next > h.until
}

// Faults counts windows; those before the last seen one that never came are
// lost.
func (h *Hottest) Faults() Faults {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.f
	last := int64(-1)
	for end := range h.seen {
		last = max(last, min(end, h.until))
	}
	for end := h.next; end < last-lossSlack(h.g.Start, last); end += AdvanceMs {
		if h.has(end) && !h.seen[end] {
			f.note(&f.Lost, 1, "the window that ends at %d never came", end)
		}
	}
	return f
}

// lossSlack is how much older than the newest row, in event time, a row must be
// that never came to count as lost. Partitions are worked off at unequal speed: at
// full speed a second of work is minutes of event time, so it is a part of what
// was seen, and two minutes at least.
func lossSlack(start, newest int64) int64 { return max(120_000, (newest-start)/4) }

// Verdict returns an error if there is a fault.
func (h *Hottest) Verdict() error { return h.Faults().Err() }
