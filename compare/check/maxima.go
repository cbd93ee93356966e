package check

import (
	"sync/atomic"

	"github.com/tidegate/tidegate/compare/nexmark"
)

// Top is a bid that nobody outbid in its window: the window's end and the bid.
type Top struct{ End, Auction, Bidder, Price int64 }

// Maxima checks q7: the bids of the highest price in each window of 10 s.
type Maxima struct {
	notes
	g        nexmark.Generator
	rows     map[Top]int // how often each must come; bids may agree in everything
	byEnd    map[int64][]Top
	until    int64 // rows of windows that end later may be missing
	open     map[int64]int
	next     int64 // every window that ends before was seen whole
	newest   int64
	progress atomic.Int64
	latency  *Latency
}

// MaximaOf computes q7's rows for the first bids.
func MaximaOf(g nexmark.Generator, bids int64) map[int64][]Top {
	rows := map[int64][]Top{}
	for n := range bids {
		auction, bidder, price := g.BidOf(n)
		end := floor(g.Time(nexmark.BidEvent(n)), WindowMs) + WindowMs
		list := rows[end]
		if len(list) > 0 && price < list[0].Price {
			continue
		}
		if len(list) > 0 && price > list[0].Price {
			list = list[:0]
		}
		rows[end] = append(list, Top{end, auction, bidder, price})
	}
	return rows
}

// NewMaxima expects the rows of the windows that end at least slackMs before the
// last bid. latency may be nil.
func NewMaxima(g nexmark.Generator, bids, slackMs int64, latency *Latency) *Maxima {
	m := &Maxima{
		g: g, rows: map[Top]int{}, byEnd: MaximaOf(g, bids), until: g.Time(nexmark.BidEvent(bids-1)) - slackMs,
		open: map[int64]int{}, latency: latency,
	}
	m.next = floor(g.Time(nexmark.BidEvent(0)), WindowMs) + WindowMs
	for end, list := range m.byEnd {
		m.open[end] = len(list)
		for _, top := range list {
			m.rows[top]++
		}
	}
	return m
}

// Record checks one row: window end → auction, bidder, price.
func (m *Maxima) Record(_ int32, _ int64, key, value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(key) != 8 || len(value) != 24 {
		m.note(&m.f.Wrong, 1, "key %x value %x", key, value)
		return
	}
	top := Top{number(key), number(value), number(value[8:]), number(value[16:])}
	left, ok := m.rows[top]
	switch {
	case !ok:
		m.note(&m.f.Wrong, 1, "window end %d: %+v, want %+v", top.End, top, m.byEnd[top.End])
		return
	case left == 0:
		m.note(&m.f.Doubled, 1, "window end %d: %+v came again", top.End, top)
		return
	}
	m.rows[top]--
	m.open[top.End]--
	m.newest = max(m.newest, top.End)
	m.latency.Seen(top.End)
	for m.next <= m.until && m.open[m.next] == 0 {
		m.next += WindowMs
	}
	m.progress.Store(bidsBefore(m.g, m.next-WindowMs))
}

// Progress is the number of bids in the windows without a gap.
func (m *Maxima) Progress() int64 { return m.progress.Load() }

// Complete reports whether every window that must come was seen.
func (m *Maxima) Complete() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.next > m.until
}

// Faults counts rows; those much older than the newest that never came are lost.
func (m *Maxima) Faults() Faults {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.f
	last := min(m.newest, m.until)
	for end := m.next; end < last-lossSlack(m.g.Start, last); end += WindowMs {
		if n := m.open[end]; n > 0 {
			f.note(&f.Lost, int64(n), "%d rows of the window that ends at %d never came", n, end)
		}
	}
	return f
}

// Verdict returns an error if there is a fault.
func (m *Maxima) Verdict() error { return m.Faults().Err() }
