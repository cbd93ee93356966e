package check

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/tidegate/tidegate/compare/nexmark"
	"github.com/tidegate/tidegate/integration/measure"
)

// Prices checks passthrough: every bid with its price × 0.908, in the order of
// the input within each partition.
type Prices struct {
	notes
	g       nexmark.Generator
	bids    int64
	next    []int64 // by partition, the bid to look at
	rows    atomic.Int64
	latency *Latency
}

// NewPrices expects the first bids in a topic of so many partitions. latency may
// be nil.
func NewPrices(g nexmark.Generator, bids int64, partitions int, latency *Latency) *Prices {
	return &Prices{g: g, bids: bids, next: make([]int64, partitions), latency: latency}
}

// priced is what a row says.
type priced struct{ auction, bidder, price, time int64 }

// bid is the row of the n-th bid.
func (p *Prices) bid(n int64) priced {
	auction, bidder, price := p.g.BidOf(n)
	return priced{auction, bidder, price * 908 / 1000, p.g.Time(nexmark.BidEvent(n))}
}

// following is the first bid from n on in a partition, or bids.
func (p *Prices) following(partition int32, n int64) int64 {
	var key [8]byte
	for ; n < p.bids; n++ {
		binary.BigEndian.PutUint64(key[:], uint64(p.g.Bidder(n)))
		if int32(measure.Murmur2(key[:])&0x7fffffff)%int32(len(p.next)) == partition {
			break
		}
	}
	return n
}

// missedMost is how many bids of a partition may be missing in a row before what
// follows counts as wrong.
const missedMost = 100_000

// Record checks one row: bidder → the bid. Rows of a partition come from one
// goroutine.
func (p *Prices) Record(partition int32, timestamp int64, key, value []byte) {
	if len(key) != 8 || len(value) != nexmark.BidSize {
		p.fault(&p.f.Wrong, 1, "key %x value %x", key, value)
		return
	}
	got := priced{number(value), number(value[8:]), number(value[16:]), number(value[24:])}
	n := p.following(partition, p.next[partition])
	if n < p.bids && p.bid(n) == got {
		p.take(partition, n, timestamp)
		return
	}
	if n >= p.bids || got.time < p.g.Time(nexmark.BidEvent(n)) {
		p.fault(&p.f.Doubled, 1, "bid of bidder %d came again in partition %d: %+v", got.bidder, partition, got)
		return
	}
	first, missed := n, int64(0)
	for ; n < p.bids && missed < missedMost; n, missed = p.following(partition, n+1), missed+1 {
		if p.bid(n) == got {
			p.fault(&p.f.Lost, missed, "partition %d: bid %d, %+v, never came", partition, first, p.bid(first))
			p.take(partition, n, timestamp)
			return
		}
	}
	p.fault(&p.f.Wrong, 1, "partition %d: %+v, want bid %d, %+v", partition, got, first, p.bid(first))
}

func (p *Prices) take(partition int32, n, timestamp int64) {
	p.next[partition] = n + 1
	p.rows.Add(1)
	p.latency.Seen(timestamp)
}

func (p *Prices) fault(count *int64, by int64, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(count, by, format, args...)
}

// Progress is the number of rows.
func (p *Prices) Progress() int64 { return p.rows.Load() }

// Complete reports whether every bid came.
func (p *Prices) Complete() bool { return p.Progress() >= p.bids }

// Faults counts rows.
func (p *Prices) Faults() Faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.f
}

// Verdict returns an error if there is a fault.
func (p *Prices) Verdict() error { return p.Faults().Err() }
