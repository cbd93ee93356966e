// Package nexmark generates the events of the NEXMark benchmark: persons,
// auctions and bids of an auction house.
//
// Every event follows from its id alone: event i of 50 in a row is a person
// (1), an auction (3) or a bid (46), its time is the start plus i intervals,
// and whom it concerns is drawn from a hash of i. So a replay gives the same
// events, and a check can compute what is right for any row without having kept
// anything:
//
//	half of the bids go to a hot auction, the others to one of the last 100;
//	three quarters of the auctions are opened by a hot seller and three quarters
//	of the bids made by a hot bidder, the others by one of the last 1000 persons.
//
// Keys are ids of 8 bytes, big endian. Values begin with fields of 8 bytes, big
// endian, and are padded to 200 (person), 500 (auction) and 100 bytes (bid):
//
//	person   id, time, state (0 to 49)
//	auction  id, seller, time, category (10 to 14)
//	bid      auction, bidder, price in cents, time
//
// Times are milliseconds since the epoch.
package nexmark
