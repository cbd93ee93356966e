package tasks

import "github.com/tidegate/tidegate/internal/kafka"

// Fetcher reads partitions into batches: internal/kafka's in production.
type Fetcher interface {
	// Subscribe begins to hand the partition's batches to o.Sink, in order. The
	// first one comes also when there is nothing.
	Subscribe(o kafka.SubscribeOptions) (Subscription, error)
}

// Subscription is one partition being read; see [kafka.Subscription].
type Subscription interface {
	// Generation is that of the batches from here on.
	Generation() uint64
	// SeekTo moves the position and returns the new generation.
	SeekTo(offset int64) (generation uint64)
	// Want asks for one batch from an answer to a request after this call, even
	// if nothing changed.
	Want()
	Close()
}

// brokers is the Fetcher that asks brokers.
type brokers struct{ f *kafka.Fetcher }

func (b brokers) Subscribe(o kafka.SubscribeOptions) (Subscription, error) {
	s, err := b.f.Subscribe(o)
	if err != nil {
		return nil, err
	}
	return s, nil
}
