package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/topology"
)

// globals keeps the global tables of a process: each topic is read from its
// start, committed records only, and followed for as long as the process runs.
// Tasks start when what was there at the start is read. Nothing of it is in a
// checkpoint.
//
// The fetcher's goroutines apply the records, those of a partition in order; an
// answer is no larger than what any other fetch would bring.
type globals struct {
	d      *deployment
	stores map[string]operators.GlobalStore
	tables map[string][]*topology.Global // by topic

	fetcher *kafka.Fetcher
	loaded  chan struct{} // closed when all is read
	failed  chan struct{} // closed when err is set

	mu      sync.Mutex
	pending map[ids.TopicPartition]int64 // ends that are not reached yet
	err     error
	onFail  func(error) // of the present instance
}

// openGlobals reads the global tables to their ends. Without any it does
// nothing.
func (d *deployment) openGlobals(ctx context.Context) error {
	g := &globals{
		d: d, stores: map[string]operators.GlobalStore{}, tables: map[string][]*topology.Global{},
		loaded: make(chan struct{}), failed: make(chan struct{}), pending: map[ids.TopicPartition]int64{},
	}
	d.globals = g
	for _, t := range d.plan.Globals() {
		g.stores[t.Name] = t.Factory.(operators.GlobalFactory)()
		g.tables[t.Topic] = append(g.tables[t.Topic], t)
	}
	if len(g.tables) == 0 {
		return nil
	}
	begun := time.Now()
	if err := g.read(ctx); err != nil {
		return fmt.Errorf("read the global tables: %w", err)
	}
	select {
	case <-g.loaded:
	case <-g.failed:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
	for name, s := range g.stores {
		d.cfg.Logger.Info("read a global table", "table", name, "rows", s.Len(), "took", time.Since(begun).Round(time.Millisecond))
	}
	return nil
}

// read finds where the topics begin and end, and subscribes.
func (g *globals) read(ctx context.Context) error {
	var tps []ids.TopicPartition
	for _, topic := range g.d.plan.GlobalTopics() {
		for p := range g.d.plan.Partitions(topic) {
			tps = append(tps, ids.TopicPartition{Topic: topic, Partition: p})
		}
	}
	first, err := g.ends(ctx, kafka.Earliest, tps)
	if err != nil {
		return err
	}
	if g.pending, err = g.ends(ctx, kafka.LastStable, tps); err != nil {
		return err
	}
	for _, tp := range tps {
		if g.pending[tp] <= first[tp] {
			delete(g.pending, tp)
		}
	}
	if len(g.pending) == 0 {
		close(g.loaded)
	}
	g.fetcher = g.d.client.NewFetcher(kafka.FetcherConfig{
		MaxBytes: fetchAnswer, PartitionMaxBytes: fetchPartition, MaxWait: 200 * time.Millisecond,
		OnState: func(broker string, err error) {
			if err != nil {
				g.d.cfg.Logger.Warn("broker cannot be reached; retrying", "for", "global tables", "broker", broker, "error", err)
			}
		},
	})
	for _, tp := range tps {
		if _, err := g.fetcher.Subscribe(kafka.SubscribeOptions{
			TP: tp, Isolation: kafka.ReadCommitted, Offset: first[tp], Sink: func(b *kafka.Batch) { g.take(tp, b) },
		}); err != nil {
			return fmt.Errorf("fetch %s: %w", tp, err)
		}
	}
	return nil
}

// ends asks for offsets; a cluster that does not answer is waited for.
func (g *globals) ends(ctx context.Context, at int64, tps []ids.TopicPartition) (map[ids.TopicPartition]int64, error) {
	for {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		found, err := g.d.admin.ListOffsets(try, at, tps...)
		cancel()
		if err == nil || ctx.Err() != nil || permanent(err) {
			return found, err
		}
		g.d.cfg.Logger.Warn("the ends of the global tables cannot be found; retrying", "error", err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// take applies a batch, on a fetch goroutine.
func (g *globals) take(tp ids.TopicPartition, b *kafka.Batch) {
	defer b.Release()
	if b.Err != nil {
		var out *kafka.OffsetOutOfRangeError
		if errors.As(b.Err, &out) {
			g.fail(fmt.Errorf("global table of topic %s: %w; records were deleted, or the topic was made anew: start the application again, it reads the table from the topic's start", tp.Topic, b.Err))
			return
		}
		g.fail(fmt.Errorf("read global table topic %s: %w", tp, b.Err))
		return
	}
	for i := range b.Records {
		for _, t := range g.tables[tp.Topic] {
			if err := g.apply(t, tp, &b.Records[i]); err != nil {
				g.fail(err)
				return
			}
		}
	}
	g.reached(tp, b.NextOffset)
}

// apply puts one record into one table; a nil error means that it is dealt with.
func (g *globals) apply(t *topology.Global, tp ids.TopicPartition, r *record.Raw) error {
	ok, err := g.stores[t.Name].Put(r)
	switch {
	case err != nil:
		fault := operators.GlobalFault(t, tp.Topic, tp.Partition, r.Offset, err)
		if g.d.cfg.OnFailure(fault) != Skip {
			return fault
		}
		g.d.counters.skipped.Add(1)
		g.d.cfg.Logger.Warn("skipped a record of a global table", "table", t.Name, "error", fault)
	case !ok:
		g.d.counters.operators.NullDropped.Add(1)
	}
	return nil
}

// reached notes how far a partition is read.
func (g *globals) reached(tp ids.TopicPartition, next int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	end, waits := g.pending[tp]
	if !waits || next < end {
		return
	}
	if delete(g.pending, tp); len(g.pending) == 0 {
		close(g.loaded)
	}
}

// fail ends the application; the first error counts.
func (g *globals) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err = err
	close(g.failed)
	if g.onFail != nil {
		g.onFail(err)
	}
}

// attach says who hears of a failure from now on, at once if there was one.
func (g *globals) attach(f func(error)) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.onFail = f; g.err != nil && f != nil {
		f(g.err)
	}
}

func (g *globals) close() {
	if g != nil && g.fetcher != nil {
		_ = g.fetcher.Close()
	}
}
