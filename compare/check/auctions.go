package check

import (
	"encoding/binary"
	"slices"

	"github.com/tidegate/tidegate/compare/nexmark"
	"github.com/tidegate/tidegate/integration/measure"
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
	// newest is the newest auction with a row, by the way that its row takes: one
	// partition of the auctions, then one of the output.
	partitions int64
	newest     []int64
	latency    *Latency
}

// NewSellers checks q8, one row for each auction whose seller came in the same
// window of 10 s, over the first auctions, with topics of so many partitions.
// latency may be nil.
func NewSellers(g nexmark.Generator, auctions int64, partitions int, latency *Latency) *Auctions {
	return newAuctions(g, auctions, partitions, latency, func(id int64) (int64, due) {
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
// is from one of three states, over the first auctions, with topics of so many
// partitions. latency may be nil.
func NewLocals(g nexmark.Generator, auctions int64, partitions int, latency *Latency) *Auctions {
	return newAuctions(g, auctions, partitions, latency, func(id int64) (int64, due) {
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

func newAuctions(g nexmark.Generator, auctions int64, partitions int, latency *Latency, row func(int64) (int64, due)) *Auctions {
	s := &Auctions{g: g, row: row, auctions: auctions, seen: make([]bool, auctions), latency: latency, partitions: int64(partitions)}
	s.newest = slices.Repeat([]int64{-1}, partitions*partitions)
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
	way := s.way(auction)
	s.newest[way] = max(s.newest[way], auction)
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

// way numbers the ways of auctions by the partitions that they lead through.
func (s *Auctions) way(auction int64) int64 {
	in, out := partitionOf(auction, s.partitions), partitionOf(s.g.Seller(auction), s.partitions)
	return in*s.partitions + out
}

// partitionOf is the partition of a record with the key.
func partitionOf(key, partitions int64) int64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(key))
	return int64(measure.Murmur2(b[:])&0x7fffffff) % partitions
}

// Faults counts rows; those that are older than a newer one on the same way, by
// more than rowSlack, and never came are lost. (An auction of one partition may be
// minutes ahead of one of another where something reads the history of both.)
func (s *Auctions) Faults() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.f
	for id, seen := range s.seen {
		id := int64(id)
		newest := s.newest[s.way(id)]
		if seen || newest < 0 || s.g.Time(nexmark.AuctionEvent(id)) >= s.g.Time(nexmark.AuctionEvent(newest))-rowSlack {
			continue
		}
		if _, d := s.row(id); d == must {
			f.note(&f.Lost, 1, "auction %d has no row", id)
		}
	}
	return f
}

// rowSlack is how much older than the newest row on its way, in event time, a row
// must be before it counts as lost, in milliseconds. A row comes with the later
// one of its auction and its person, both in order, from the same window.
const rowSlack = 6 * WindowMs

// Verdict returns an error if there is a fault.
func (s *Auctions) Verdict() error { return s.Faults().Err() }
