package check

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/compare/nexmark"
)

// GapMs is the gap that ends a session of q11, in milliseconds.
const GapMs = 10_000

// Span is a session: its first and last bid's times and how many bids it has.
type Span struct{ Start, End, Count int64 }

// SpansOf computes q11's rows for the first bids: by bidder, in their order.
func SpansOf(g nexmark.Generator, bids int64) map[int64][]Span {
	rows := map[int64][]Span{}
	for n := range bids {
		_, bidder, _ := g.BidOf(n)
		at := g.Time(nexmark.BidEvent(n))
		list := rows[bidder]
		if last := len(list) - 1; last >= 0 && at-list[last].End <= GapMs {
			list[last].End = at
			list[last].Count++
			continue
		}
		rows[bidder] = append(list, Span{at, at, 1})
	}
	return rows
}

// Sessions checks q11: bids per bidder and session.
type Sessions struct {
	notes
	rows     map[int64][]Span
	seen     map[int64]uint64 // by bidder, a bit per session
	start    int64            // the first session's
	until    int64            // sessions that end later may be missing
	expected int64
	came     int64 // rows of those that must come
	bids     int64
	newest   int64
	latency  *Latency
}

// mostSessions is how many sessions of one bidder can be told apart; a bidder is
// active for a while and gone.
const mostSessions = 64

// NewSessions expects the sessions of rows that end by until, in milliseconds;
// later ones may be missing. rows are only read. latency may be nil.
func NewSessions(rows map[int64][]Span, until int64, latency *Latency) (*Sessions, error) {
	s := &Sessions{rows: rows, seen: map[int64]uint64{}, start: until, until: until, latency: latency}
	for bidder, list := range rows {
		if len(list) > mostSessions {
			return nil, fmt.Errorf("bidder %d has %d sessions, of which %d can be checked: use a higher -event-rate or fewer -records", bidder, len(list), mostSessions)
		}
		for _, span := range list {
			s.start = min(s.start, span.Start)
			if span.End <= until {
				s.expected++
			}
		}
	}
	return s, nil
}

// Record checks one row: bidder, session end and start → count.
func (s *Sessions) Record(_ int32, _ int64, key, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(key) != 24 || len(value) != 8 {
		s.note(&s.f.Wrong, 1, "key %x value %x", key, value)
		return
	}
	bidder, got := number(key), Span{Start: number(key[16:]), End: number(key[8:]), Count: number(value)}
	i := slices.IndexFunc(s.rows[bidder], func(span Span) bool { return span.Start == got.Start })
	switch {
	case i < 0:
		s.note(&s.f.Wrong, 1, "bidder %d: %+v, want one of %+v", bidder, got, s.rows[bidder])
		return
	case s.seen[bidder]&(1<<i) != 0:
		s.note(&s.f.Doubled, 1, "bidder %d: %+v came again", bidder, got)
		return
	}
	want := s.rows[bidder][i]
	if got != want {
		s.note(&s.f.Wrong, 1, "bidder %d: %+v, want %+v", bidder, got, want)
	}
	s.seen[bidder] |= 1 << i
	s.bids += got.Count
	s.newest = max(s.newest, got.End)
	if want.End <= s.until {
		s.came++
	}
	s.latency.Seen(got.End + GapMs)
}

// Progress is the number of bids in the sessions that came.
func (s *Sessions) Progress() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bids
}

// Complete reports whether every session that must come was seen.
func (s *Sessions) Complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came >= s.expected
}

// Faults counts sessions; those that ended long before the newest and never came
// are lost.
func (s *Sessions) Faults() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.f
	until := min(s.newest, s.until)
	until -= lossSlack(s.start, until)
	for bidder, list := range s.rows {
		for i, span := range list {
			if span.End < until && s.seen[bidder]&(1<<i) == 0 {
				f.note(&f.Lost, 1, "bidder %d: %+v never came", bidder, span)
			}
		}
	}
	return f
}

// Verdict returns an error if there is a fault.
func (s *Sessions) Verdict() error { return s.Faults().Err() }
