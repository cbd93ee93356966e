package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/testkit"
)

const (
	groupSize = 50   // numbers in a group
	groupSpan = 1000 // from a group's first number to the next one's
	active    = 64   // groups that get numbers at the same time
	stepMs    = 1    // event time between records
	batch     = 500  // records produced together
)

// epoch is the event time of the first record, in milliseconds. It is the time of
// the run: of records with old timestamps a broker forgets, when it starts again,
// that it wrote them, and the generator's repetition would be written twice.
var epoch = time.Now().Truncate(time.Minute).UnixMilli()

// numberOf returns the i-th input record: the closed form that generator and
// oracle share. Groups run in cohorts of active ones, their numbers taking
// turns.
func numberOf(i int64) (group, n int64) {
	cohort := i / (active * groupSize)
	rest := i % (active * groupSize)
	return cohort*active + rest%active, rest / active
}

func groupName(group int64) string {
	lo := group * groupSpan
	return fmt.Sprintf("%d-%d", lo, lo+groupSize-1)
}

// partitionOf keeps even groups in one partition and spreads odd ones.
func partitionOf(group, n int64) int32 {
	if group%2 == 0 {
		return int32(group / 2 % partitions)
	}
	return int32(n % partitions)
}

func timeOf(i int64) int64 { return epoch + i*stepMs }

// generator writes input at a rate until told to stop.
type generator struct {
	client  *testkit.Client
	written atomic.Int64
}

func (g *generator) run(ctx context.Context, perSecond int64) error {
	begun := time.Now()
	for i := int64(0); ctx.Err() == nil; {
		due := int64(time.Since(begun).Seconds() * float64(perSecond))
		if due < i+batch {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		list := make([]testkit.Message, 0, batch)
		for k := i; k < i+batch; k++ {
			group, n := numberOf(k)
			list = append(list, testkit.Message{
				Partition: partitionOf(group, n), Key: fmt.Appendf(nil, "%s/%d", groupName(group), n),
				Value: binary.BigEndian.AppendUint64(nil, uint64(group*groupSpan+n)), Timestamp: timeOf(k),
			})
		}
		// Not ctx: a batch is written whole or the run has failed.
		write, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		err := g.client.Produce(write, inputTopic, list)
		cancel()
		if err != nil {
			return fmt.Errorf("write input: %w", err)
		}
		i += batch
		g.written.Store(i)
	}
	return nil
}
