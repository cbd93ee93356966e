package nexmark

import "encoding/binary"

// Proportions of the events.
const (
	Cycle       = 50 // events in which every kind occurs
	perPerson   = 1
	perAuction  = 3
	perBid      = Cycle - perPerson - perAuction
	PersonSize  = 200
	AuctionSize = 500
	BidSize     = 100

	hotAuctionRatio = 2
	hotPersonRatio  = 4
	inFlight        = 100
	activePeople    = 1000
	// hotGroup: the hot one is the newest whose id is a multiple of it.
	hotGroup = 100

	FirstCategory = 10
	categories    = 5
	States        = 50
)

// Kind is what an event is.
type Kind uint8

// The kinds, in the order in which a cycle holds them.
const (
	Person Kind = iota
	Auction
	Bid
)

// Generator makes events.
type Generator struct {
	// Start is the time of event 0 in milliseconds since the epoch, and
	// PerSecond how many events a second of event time holds.
	Start     int64
	PerSecond int64
	// Seed changes whom events concern.
	Seed uint64
}

// KindOf is the kind of an event.
func KindOf(event int64) Kind {
	switch r := event % Cycle; {
	case r < perPerson:
		return Person
	case r < perPerson+perAuction:
		return Auction
	default:
		return Bid
	}
}

// Time is an event's time.
func (g Generator) Time(event int64) int64 { return g.Start + event*1000/g.PerSecond }

// EventAt is the first event whose time is not before t.
func (g Generator) EventAt(t int64) int64 {
	if t <= g.Start {
		return 0
	}
	event := (t - g.Start) * g.PerSecond / 1000
	for event > 0 && g.Time(event-1) >= t {
		event--
	}
	for g.Time(event) < t {
		event++
	}
	return event
}

// PersonEvent is the event of a person.
func PersonEvent(id int64) int64 { return id * Cycle }

// AuctionEvent is the event of an auction.
func AuctionEvent(id int64) int64 { return id/perAuction*Cycle + perPerson + id%perAuction }

// BidEvent is the event of the n-th bid.
func BidEvent(n int64) int64 { return n/perBid*Cycle + perPerson + perAuction + n%perBid }

// lastPerson is the newest person before or at an event.
func lastPerson(event int64) int64 { return event / Cycle }

// lastAuction is the newest auction before or at an event, −1 when there is
// none.
func lastAuction(event int64) int64 {
	r := min(max(event%Cycle-perPerson+1, 0), perAuction)
	return event/Cycle*perAuction + r - 1
}

// auctionID is the id of an auction's event.
func auctionID(event int64) int64 { return lastAuction(event) }

// State is a person's state, 0 to States−1.
func (g Generator) State(person int64) int64 {
	return int64(g.draw(PersonEvent(person), 3) % States)
}

// Seller is who opens an auction.
func (g Generator) Seller(auction int64) int64 { return g.person(AuctionEvent(auction)) }

// Category is an auction's category.
func (g Generator) Category(auction int64) int64 {
	return FirstCategory + int64(g.draw(AuctionEvent(auction), 3)%categories)
}

// person is who opens the auction or makes the bid of an event.
func (g Generator) person(event int64) int64 {
	last := lastPerson(event)
	if g.draw(event, 1)%hotPersonRatio != 0 {
		return last / hotGroup * hotGroup
	}
	return last - int64(g.draw(event, 2)%uint64(min(last+1, activePeople)))
}

// BidOf is what the n-th bid says.
func (g Generator) BidOf(n int64) (auction, bidder, price int64) {
	event := BidEvent(n)
	last := max(lastAuction(event), 0)
	auction = last / hotGroup * hotGroup
	if g.draw(event, 4)%hotAuctionRatio == 0 {
		auction = last - int64(g.draw(event, 5)%uint64(min(last+1, inFlight)))
	}
	return auction, g.person(event), 100 + int64(g.draw(event, 6)%10_000_000)
}

// Bidder is who makes the n-th bid.
func (g Generator) Bidder(n int64) int64 { return g.person(BidEvent(n)) }

// draw is a random number that depends on the event and what it is for.
func (g Generator) draw(event int64, purpose uint64) uint64 {
	x := uint64(event)*8 + purpose + g.Seed*0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// AppendPerson appends the record of a person: its key and its value.
func (g Generator) AppendPerson(key, value []byte, id int64) (k, v []byte, time int64) {
	time = g.Time(PersonEvent(id))
	from := len(value)
	value = appendFields(value, id, time, g.State(id))
	return appendFields(key, id), pad(value, from, PersonSize), time
}

// AppendAuction appends the record of an auction.
func (g Generator) AppendAuction(key, value []byte, id int64) (k, v []byte, time int64) {
	time = g.Time(AuctionEvent(id))
	from := len(value)
	value = appendFields(value, id, g.Seller(id), time, g.Category(id))
	return appendFields(key, id), pad(value, from, AuctionSize), time
}

// AppendBid appends the record of the n-th bid; its key is the bidder.
func (g Generator) AppendBid(key, value []byte, n int64) (k, v []byte, time int64) {
	time = g.Time(BidEvent(n))
	auction, bidder, price := g.BidOf(n)
	from := len(value)
	value = appendFields(value, auction, bidder, price, time)
	return appendFields(key, bidder), pad(value, from, BidSize), time
}

func appendFields(dst []byte, fields ...int64) []byte {
	for _, f := range fields {
		dst = binary.BigEndian.AppendUint64(dst, uint64(f))
	}
	return dst
}

var padding [AuctionSize]byte

// pad fills what was appended behind from up to a size.
func pad(dst []byte, from, size int) []byte { return append(dst, padding[:size-(len(dst)-from)]...) }

// Field reads the i-th field of a value.
func Field(value []byte, i int) int64 { return int64(binary.BigEndian.Uint64(value[8*i:])) }
