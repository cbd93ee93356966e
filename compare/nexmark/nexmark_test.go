package nexmark

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdsAndEventsAgree(t *testing.T) {
	var persons, auctions, bids int64
	for event := range int64(5000) {
		switch KindOf(event) {
		case Person:
			require.Equal(t, event, PersonEvent(persons))
			persons++
		case Auction:
			require.Equal(t, event, AuctionEvent(auctions))
			require.Equal(t, auctions, auctionID(event))
			auctions++
		default:
			require.Equal(t, event, BidEvent(bids))
			bids++
		}
		require.Equal(t, persons-1, lastPerson(event))
		require.Equal(t, auctions-1, lastAuction(event))
	}
	require.EqualValues(t, 100, persons)
	require.EqualValues(t, 300, auctions)
	require.EqualValues(t, 4600, bids)
}

func TestNobodyConcernsTheFuture(t *testing.T) {
	g := Generator{Start: 1000, PerSecond: 10_000, Seed: 1}
	hot := 0
	for n := range int64(20_000) {
		auction, bidder, price := g.BidOf(n)
		event := BidEvent(n)
		require.LessOrEqual(t, AuctionEvent(auction), max(event, AuctionEvent(0)))
		require.LessOrEqual(t, PersonEvent(bidder), event)
		require.Positive(t, price)
		if auction%hotGroup == 0 {
			hot++
		}
	}
	require.InDelta(t, 10_000, hot, 600)
	for id := range int64(5000) {
		require.LessOrEqual(t, PersonEvent(g.Seller(id)), AuctionEvent(id))
	}
}

func TestRecords(t *testing.T) {
	g := Generator{Start: 5, PerSecond: 1000, Seed: 2}
	key, value, at := g.AppendBid(nil, nil, 7)
	require.Len(t, key, 8)
	require.Len(t, value, BidSize)
	auction, bidder, price := g.BidOf(7)
	require.Equal(t, []int64{auction, bidder, price, at}, []int64{Field(value, 0), Field(value, 1), Field(value, 2), Field(value, 3)})
	require.EqualValues(t, 5+11, at)
	key, value, _ = g.AppendAuction([]byte("x"), []byte("yy"), 3)
	require.Len(t, key, 9)
	require.Len(t, value, AuctionSize+2)
	_, value, _ = g.AppendPerson(nil, nil, 3)
	require.Len(t, value, PersonSize)
}

func TestEventAt(t *testing.T) {
	g := Generator{Start: 100, PerSecond: 3000}
	for at := int64(90); at < 200; at++ {
		event := g.EventAt(at)
		require.GreaterOrEqual(t, g.Time(event), at)
		if event > 0 {
			require.Less(t, g.Time(event-1), at)
		}
	}
}
