package check

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/compare/nexmark"
)

func word(ns ...int64) []byte {
	var b []byte
	for _, n := range ns {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

var gen = nexmark.Generator{Start: 1_700_000_000_123, PerSecond: 500, Seed: 3}

// TestHottestOf compares with a count of every bid in each of its windows.
func TestHottestOf(t *testing.T) {
	const bids = 20_000
	counts := map[int64]map[int64]int64{}
	last := int64(0)
	for n := range int64(bids) {
		auction, _, _ := gen.BidOf(n)
		last = gen.Time(nexmark.BidEvent(n))
		for start := floor(last, AdvanceMs); start > last-WindowMs; start -= AdvanceMs {
			if counts[start+WindowMs] == nil {
				counts[start+WindowMs] = map[int64]int64{}
			}
			counts[start+WindowMs][auction]++
		}
	}
	rows := HottestOf(gen, bids)
	compared := 0
	for end, by := range counts {
		if end > last {
			continue
		}
		var want Hot
		for auction, n := range by {
			if n > want.Count || n == want.Count && auction < want.Auction {
				want = Hot{auction, n}
			}
		}
		require.Equal(t, want, rows[end], "window end %d", end)
		compared++
	}
	require.Greater(t, compared, 10)
	for end := range rows {
		require.Contains(t, counts, end)
	}
}

func TestHottestNoticesFaults(t *testing.T) {
	const bids = 200_000 // seven minutes
	fresh := func() (*Hottest, []int64) {
		h := NewHottest(gen, bids, 10_000, nil)
		var ends []int64
		for end := h.next; end <= h.until; end += AdvanceMs {
			ends = append(ends, end)
		}
		return h, ends
	}
	put := func(h *Hottest, end int64, change int64) {
		row := h.rows[end]
		h.Record(0, 0, word(end), word(row.Auction, row.Count+change))
	}
	h, ends := fresh()
	for _, end := range ends {
		require.False(t, h.Complete())
		put(h, end, 0)
	}
	require.True(t, h.Complete())
	require.NoError(t, h.Verdict())
	require.InDelta(t, bids, h.Progress(), bids/20)
	put(h, ends[3], 0)
	require.EqualValues(t, 1, h.Faults().Doubled)

	h, ends = fresh()
	for i, end := range ends {
		if i != 1 {
			put(h, end, 0)
		}
	}
	require.False(t, h.Complete())
	require.EqualValues(t, 1, h.Faults().Lost)
	require.Contains(t, h.Faults().First, strconv.FormatInt(ends[1], 10))

	h, ends = fresh()
	put(h, ends[0], 1)
	require.EqualValues(t, 1, h.Faults().Wrong)
	require.ErrorContains(t, h.Verdict(), "want")
}

func TestSellersNoticesFaults(t *testing.T) {
	noticesFaults(t, func(auctions int64) *Auctions { return NewSellers(gen, auctions, 4, nil) }, 5)
}

func TestLocalsNoticeFaults(t *testing.T) {
	noticesFaults(t, func(auctions int64) *Auctions { return NewLocals(gen, auctions, 4, nil) }, 200)
}

func noticesFaults(t *testing.T, fresh func(auctions int64) *Auctions, off float64) {
	const auctions = 20_000 // about twelve minutes
	put := func(s *Auctions, id int64) {
		if more, d := s.row(id); d != never {
			s.Record(0, 0, word(gen.Seller(id)), word(id, more))
		}
	}
	s := fresh(auctions)
	for id := range int64(auctions) {
		put(s, id)
	}
	require.True(t, s.Complete())
	require.NoError(t, s.Verdict())
	require.InDelta(t, auctions*4/3, s.Progress(), off)
	first := int64(0)
	for ; ; first++ {
		if _, d := s.row(first); d == must {
			break
		}
	}
	put(s, first)
	require.EqualValues(t, 1, s.Faults().Doubled)

	s = fresh(auctions)
	for id := first + 1; id < auctions; id++ {
		put(s, id)
	}
	require.EqualValues(t, 1, s.Faults().Lost)
	s.Record(0, 0, word(1), word(first, -1))
	require.EqualValues(t, 1, s.Faults().Wrong)

	// One way is ten minutes ahead of the others, and lacks a row.
	s = fresh(auctions)
	way, lost := s.way(first), int64(-1)
	for id := range int64(auctions) {
		switch _, d := s.row(id); {
		case s.way(id) != way && id > auctions/6:
		case s.way(id) == way && id > auctions/3 && lost < 0 && d == must:
			lost = id
		default:
			put(s, id)
		}
	}
	require.EqualValues(t, 1, s.Faults().Lost)
	require.Contains(t, s.Faults().First, fmt.Sprintf("auction %d ", lost))
}

func TestLatency(t *testing.T) {
	now := time.Now()
	l := NewLatency(now.Add(-time.Minute), time.UnixMilli)
	l.Seen(now.Add(-time.Hour).UnixMilli())
	require.Zero(t, l.Count())
	l.Seen(now.Add(-time.Second).UnixMilli())
	require.EqualValues(t, 1, l.Count())
	require.InDelta(t, 1000, l.Quantile(50), 100)
	var none *Latency
	none.Seen(0)
}
