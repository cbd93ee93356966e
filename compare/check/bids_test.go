package check

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/compare/nexmark"
	"github.com/tidegate/tidegate/integration/measure"
)

// TestMaximaOf compares with a look at all bids of each window.
func TestMaximaOf(t *testing.T) {
	const bids = 30_000
	most := map[int64]int64{}
	end := func(n int64) int64 { return floor(gen.Time(nexmark.BidEvent(n)), WindowMs) + WindowMs }
	for n := range int64(bids) {
		_, _, price := gen.BidOf(n)
		most[end(n)] = max(most[end(n)], price)
	}
	want := map[Top]int{}
	for n := range int64(bids) {
		auction, bidder, price := gen.BidOf(n)
		if price == most[end(n)] {
			want[Top{end(n), auction, bidder, price}]++
		}
	}
	got := map[Top]int{}
	for _, list := range MaximaOf(gen, bids) {
		for _, top := range list {
			got[top]++
		}
	}
	require.Equal(t, want, got)
	require.Greater(t, len(got), 5)
}

func TestMaximaNoticeFaults(t *testing.T) {
	const bids = 200_000 // seven minutes
	fresh := func(skip int64) (*Maxima, []Top) {
		m := NewMaxima(gen, bids, WindowMs, nil)
		var all []Top
		for end := m.next; end <= m.until; end += WindowMs {
			all = append(all, m.byEnd[end]...)
		}
		for i, top := range all {
			if int64(i) != skip {
				m.Record(0, 0, word(top.End), word(top.Auction, top.Bidder, top.Price))
			}
		}
		return m, all
	}
	m, all := fresh(-1)
	require.True(t, m.Complete())
	require.NoError(t, m.Verdict())
	require.InDelta(t, bids, m.Progress(), bids/20)
	m.Record(0, 0, word(all[3].End), word(all[3].Auction, all[3].Bidder, all[3].Price))
	require.EqualValues(t, 1, m.Faults().Doubled)
	m.Record(0, 0, word(all[3].End), word(all[3].Auction, all[3].Bidder, all[3].Price-1))
	require.EqualValues(t, 1, m.Faults().Wrong)
	m, _ = fresh(1)
	require.False(t, m.Complete())
	require.EqualValues(t, 1, m.Faults().Lost)
}

func TestSessionsNoticeFaults(t *testing.T) {
	const bids = 200_000
	rows := SpansOf(gen, bids)
	total := int64(0)
	for bidder, list := range rows {
		for i, span := range list {
			total += span.Count
			require.True(t, i == 0 || span.Start > list[i-1].End+GapMs, "bidder %d", bidder)
		}
	}
	require.EqualValues(t, bids, total)
	fresh := func(skip int64) *Sessions {
		s, err := NewSessions(rows, gen.Time(nexmark.BidEvent(bids-1))-2*WindowMs, nil)
		require.NoError(t, err)
		for bidder, list := range rows {
			for _, span := range list {
				if bidder != skip {
					s.Record(0, 0, word(bidder, span.End, span.Start), word(span.Count))
				}
			}
		}
		return s
	}
	s := fresh(-1)
	require.True(t, s.Complete())
	require.NoError(t, s.Verdict())
	require.EqualValues(t, bids, s.Progress())
	first := rows[1][0]
	s.Record(0, 0, word(1, first.End, first.Start), word(first.Count))
	require.EqualValues(t, 1, s.Faults().Doubled)
	s = fresh(1)
	require.False(t, s.Complete())
	require.EqualValues(t, len(rows[1]), s.Faults().Lost)
	s.Record(0, 0, word(1, first.End, first.Start), word(first.Count+1))
	require.EqualValues(t, 1, s.Faults().Wrong)
}

func TestPricesNoticeFaults(t *testing.T) {
	const bids, partitions = 5000, 3
	fresh := func(skip, twice int64) *Prices {
		p := NewPrices(gen, bids, partitions, nil)
		for n := range int64(bids) {
			k, v, at := gen.AppendBid(nil, nil, n)
			binary.BigEndian.PutUint64(v[16:], uint64(number(v[16:])*908/1000))
			part := int32(measure.Murmur2(k)&0x7fffffff) % partitions
			if n != skip {
				p.Record(part, at, k, v)
			}
			if n == twice {
				p.Record(part, at, k, v)
			}
		}
		return p
	}
	p := fresh(-1, -1)
	require.True(t, p.Complete())
	require.NoError(t, p.Verdict())
	p = fresh(100, -1)
	require.False(t, p.Complete())
	require.Equal(t, int64(1), p.Faults().Lost)
	p = fresh(-1, 100)
	require.EqualValues(t, 1, p.Faults().Doubled)
	p.Record(0, 0, word(1), []byte("short"))
	require.EqualValues(t, 1, p.Faults().Wrong)
}
