package workload

import (
	"encoding/binary"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/compare/check"
	"github.com/tidegate/tidegate/compare/nexmark"
	"github.com/tidegate/tidegate/serde"
)

// gap ends the sessions of q11.
const gap = check.GapMs * time.Millisecond

// q7 is the bids of the highest price in each window. The maximum comes per
// auction first, then over all of them, and is then joined back to the bids by
// its price, so the join keeps every bid of a window, and of the grace: bids come
// on a shorter way than maxima, and stream time is that of the fastest input.
func q7(b *tidegate.Builder, o Options) {
	bids := read(b, o.Topics.Bids)
	maxima := bids.
		GroupBy("by-auction", func(_ int64, bid []byte) int64 { return nexmark.Field(bid, 0) }, serde.Int64()).
		WindowedBy(tidegate.Tumbling(window), tidegate.ByWindow).
		EmitOnClose().
		Aggregate("highest-per-auction", func() int64 { return -1 }, func(_ int64, bid []byte, most int64) int64 {
			return max(most, nexmark.Field(bid, 2))
		}, serde.Int64()).
		ToStream().
		Process("at-window-end", func() tidegate.Processor[tidegate.Windowed[int64], int64, int64, int64] { return &priceAtEnd{} }).
		As(serde.Int64(), serde.Int64()).
		GroupByKey("by-window").
		WindowedBy(tidegate.Tumbling(time.Millisecond), tidegate.ByWindow).
		EmitOnClose().
		Reduce("highest", func(a, b int64) int64 { return max(a, b) }).
		ToStream().
		Map(func(w tidegate.Windowed[int64], price int64) (int64, int64) { return price, w.Key },
			tidegate.Serdes[int64, int64]{Key: serde.Int64(), Value: serde.Int64()})
	bids.
		SelectKey(func(_ int64, bid []byte) int64 { return nexmark.Field(bid, 2) }, serde.Int64()).
		JoinStream("by-price", maxima, tidegate.JoinWithin(0).After(window).Grace(o.Grace), func(bid []byte, end int64) []byte {
			if windowStart(nexmark.Field(bid, 3))+check.WindowMs != end {
				return nil
			}
			return append(binary.BigEndian.AppendUint64(nil, uint64(end)), bid[:24]...)
		}, serde.Bytes()).
		Filter(func(_ int64, row []byte) bool { return len(row) > 0 }).
		Map(func(_ int64, row []byte) (int64, []byte) { return nexmark.Field(row, 0), row[8:] },
			tidegate.Serdes[int64, []byte]{Key: serde.Int64(), Value: serde.Bytes()}).
		To(o.Topics.Output)
}

// priceAtEnd turns (auction, window) → price into window end → price, at the
// window's last millisecond.
type priceAtEnd struct {
	ctx *tidegate.ProcessorContext[int64, int64]
}

func (p *priceAtEnd) Init(ctx *tidegate.ProcessorContext[int64, int64]) error {
	p.ctx = ctx
	return nil
}

func (p *priceAtEnd) Process(k tidegate.Windowed[int64], price tidegate.Opt[int64]) error {
	return p.ctx.ForwardAt(k.Window.End-1, k.Window.End, price.Or(-1))
}

// q11 is the number of bids per bidder and session; a bid's key is its bidder.
func q11(b *tidegate.Builder, o Options) {
	read(b, o.Topics.Bids).
		GroupByKey("by-bidder").
		SessionWindowedBy(tidegate.Session(gap), tidegate.ByWindow).
		EmitOnClose().
		Count("bids-per-session").
		ToStream().
		To(o.Topics.Output)
}
