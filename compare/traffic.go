package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/compare/report"
)

// traffic adds up what a system writes to the broker. Logs are looked at often,
// because repartition topics are purged and changelogs compacted meanwhile: only
// growth counts. What is written and deleted between two looks is missed.
type traffic struct {
	prefix, output string
	cluster        *cluster
	stop           context.CancelFunc
	done           chan struct{}

	mu     sync.Mutex
	last   map[partition]int64
	grown  map[kind]int64
	failed error
}

type partition struct {
	topic string
	n     int32
}

// kind is what a topic is for.
type kind uint8

const (
	outputs kind = iota
	repartitions
	changelogs
	others // control logs
)

const trafficTick = 500 * time.Millisecond

// newTraffic watches the topics whose names begin with a prefix; output is the
// one that holds the results.
func (c *cluster) newTraffic(ctx context.Context, prefix, output string) *traffic {
	ctx, stop := context.WithCancel(ctx)
	t := &traffic{prefix: prefix, output: output, cluster: c, stop: stop, done: make(chan struct{}), last: map[partition]int64{}, grown: map[kind]int64{}}
	go func() {
		defer close(t.done)
		tick := time.NewTicker(trafficTick)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				t.look(ctx)
			}
		}
	}()
	return t
}

func (t *traffic) look(ctx context.Context) {
	sizes, err := t.cluster.sizes(ctx, func(topic string) bool { return strings.HasPrefix(topic, t.prefix) })
	t.mu.Lock()
	defer t.mu.Unlock()
	// Only the last look has to succeed: it sees what others missed, and the one
	// before it may have been interrupted by the end.
	if t.failed = err; err != nil {
		return
	}
	for p, size := range sizes {
		if by := size - t.last[p]; by > 0 {
			t.grown[t.kindOf(p.topic)] += by
		}
		t.last[p] = size
	}
}

func (t *traffic) kindOf(topic string) kind {
	switch {
	case topic == t.output:
		return outputs
	case strings.HasSuffix(topic, "-repartition"):
		return repartitions
	case strings.HasSuffix(topic, "-changelog"):
		return changelogs
	}
	return others
}

// end looks once more and returns bytes per input record.
func (t *traffic) end(ctx context.Context, records int64) (report.Bytes, error) {
	t.stop()
	<-t.done
	t.look(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	of := func(k kind) float64 { return float64(t.grown[k]) / float64(max(records, 1)) }
	return report.Bytes{Output: of(outputs), Repartition: of(repartitions), Changelog: of(changelogs), Other: of(others)}, t.failed
}
