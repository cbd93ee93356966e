package check

import (
	"fmt"

	"github.com/tidegate/tidegate/compare/nexmark"
)

// Sellers checks q8: one row for each auction whose seller came in the same
// window of 10 s.
type Sellers struct {
	notes
	g        nexmark.Generator
	auctions int64
	expected int64
	perRow   float64 // input records for one row
	seen     []bool  // by auction
	rows     int64
	newest   int64
	latency  *Latency
}

// NewSellers expects the rows of the first auctions. latency may be nil.
func NewSellers(g nexmark.Generator, auctions int64, latency *Latency) *Sellers {
	s := &Sellers{g: g, auctions: auctions, seen: make([]bool, auctions), newest: -1, latency: latency}
	for id := range auctions {
		if _, ok := s.row(id); ok {
			s.expected++
		}
	}
	s.perRow = float64(auctions+auctions/3) / float64(max(s.expected, 1))
	return s
}

// row is the seller of an auction, if there is a row.
func (s *Sellers) row(auction int64) (person int64, ok bool) {
	person = s.g.Seller(auction)
	came, opened := s.g.Time(nexmark.PersonEvent(person)), s.g.Time(nexmark.AuctionEvent(auction))
	return person, floor(came, WindowMs) == floor(opened, WindowMs)
}

// Record checks one row: person → auction, window start.
func (s *Sellers) Record(_ int32, timestamp int64, key, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(key) != 8 || len(value) != 16 || number(value) < 0 || number(value) >= s.auctions {
		s.note(&s.f.Wrong, 1, "key %x value %x", key, value)
		return
	}
	auction := number(value)
	if s.seen[auction] {
		s.note(&s.f.Doubled, 1, "auction %d came again", auction)
		return
	}
	s.seen[auction] = true
	s.rows++
	s.newest = max(s.newest, auction)
	person, ok := s.row(auction)
	start := floor(s.g.Time(nexmark.AuctionEvent(auction)), WindowMs)
	if !ok || person != number(key) || start != number(value[8:]) {
		s.note(&s.f.Wrong, 1, "auction %d: person %d, window %d; want person %d, window %d, row %t", auction, number(key), number(value[8:]), person, start, ok)
	}
	s.latency.Seen(timestamp)
}

// Progress is the number of input records that as many rows come from.
func (s *Sellers) Progress() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(float64(s.rows) * s.perRow)
}

// Complete reports whether every row was seen.
func (s *Sellers) Complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows >= s.expected
}

// Faults counts rows; those much older than the newest that never came are
// lost.
func (s *Sellers) Faults() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.f
	if s.newest < 0 {
		return f
	}
	until := s.g.Time(nexmark.AuctionEvent(s.newest)) - lossSlackMs
	for id := int64(0); id < s.newest && s.g.Time(nexmark.AuctionEvent(id)) < until; id++ {
		if _, ok := s.row(id); ok && !s.seen[id] {
			f.Lost++
			if f.First == "" {
				f.First = fmt.Sprintf("auction %d has no row", id)
			}
		}
	}
	return f
}

// Verdict returns an error if there is a fault.
func (s *Sellers) Verdict() error { return s.Faults().Err() }
