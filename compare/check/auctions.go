package check

import (
	"github.com/tidegate/tidegate/compare/nexmark"
)

// due says whether an auction has a row.
type due uint8

const (
	never due = iota
	may       // it depends on the order of two records of the same time
	must
)

// Auctions checks workloads with at most one row per auction, for its seller: q3
// and q8.
type Auctions struct {
	notes
	g nexmark.Generator
	// row is the row of an auction: the seller is the key, and the value's second
	// field is more.
	row      func(auction int64) (more int64, d due)
	auctions int64
	expected int64
	perRow   float64 // input records for one row
	seen     []bool  // by auction
	rows     int64   // of those that must come
	newest   int64
	latency  *Latency
}

// NewSellers checks q8, one row for each auction whose seller came in the same
// window of 10 s, over the first auctions. latency may be nil.
func NewSellers(g nexmark.Generator, auctions int64, latency *Latency) *Auctions {
	return newAuctions(g, auctions, latency, func(id int64) (int64, due) {
		opened, came := floor(g.Time(nexmark.AuctionEvent(id)), WindowMs), g.Time(nexmark.PersonEvent(g.Seller(id)))
		if floor(came, WindowMs) != opened {
			return opened, never
		}
		return opened, must
	})
}

// LocalStates is the number of states, from 0, whose sellers q3 looks for.
const LocalStates = 3

// NewLocals checks q3, one row for each auction of the first category whose seller
// is from one of three states, over the first auctions. latency may be nil.
func NewLocals(g nexmark.Generator, auctions int64, latency *Latency) *Auctions {
	return newAuctions(g, auctions, latency, func(id int64) (int64, due) {
		seller := g.Seller(id)
		state := g.State(seller)
		switch {
		case g.Category(id) != nexmark.FirstCategory || state >= LocalStates:
			return state, never
		case g.Time(nexmark.PersonEvent(seller)) == g.Time(nexmark.AuctionEvent(id)):
			return state, may
		}
		return state, must
	})
}

func newAuctions(g nexmark.Generator, auctions int64, latency *Latency, row func(int64) (int64, due)) *Auctions {
	s := &Auctions{g: g, row: row, auctions: auctions, seen: make([]bool, auctions), newest: -1, latency: latency}
	for id := range auctions {
		if _, d := row(id); d == must {
			s.expected++
		}
	}
	s.perRow = float64(auctions+auctions/3) / float64(max(s.expected, 1))
	return s
}

// Record checks one row: seller → auction, more.
func (s *Auctions) Record(_ int32, timestamp int64, key, value []byte) {
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
	s.newest = max(s.newest, auction)
	more, d := s.row(auction)
	if d == must {
		s.rows++
	}
	if seller := s.g.Seller(auction); d == never || seller != number(key) || more != number(value[8:]) {
		s.note(&s.f.Wrong, 1, "auction %d: seller %d, %d; want seller %d, %d, row %t", auction, number(key), number(value[8:]), seller, more, d != never)
	}
	s.latency.Seen(timestamp)
}

// Progress is the number of input records that as many rows come from.
func (s *Auctions) Progress() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(float64(s.rows) * s.perRow)
}

// Complete reports whether every row that must come was seen.
func (s *Auctions) Complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows >= s.expected
}

// Faults counts rows; those much older than the newest that never came are
// lost.
func (s *Auctions) Faults() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.f
	if s.newest < 0 {
		return f
	}
	until := s.g.Time(nexmark.AuctionEvent(s.newest))
	until -= lossSlack(s.g.Start, until)
	for id := int64(0); id < s.newest && s.g.Time(nexmark.AuctionEvent(id)) < until; id++ {
		if _, d := s.row(id); d == must && !s.seen[id] {
			f.note(&f.Lost, 1, "auction %d has no row", id)
		}
	}
	return f
}

// Verdict returns an error if there is a fault.
func (s *Auctions) Verdict() error { return s.Faults().Err() }
