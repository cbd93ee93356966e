package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// Check judges the output of a contestant. Record is called by one goroutine
// per broker, and always by the same one for one partition.
type Check interface {
	Record(partition int32, timestamp int64, key, value []byte)
	// Progress is how many input records the output so far accounts for; where
	// every input record makes one of the output, the number of records.
	Progress() int64
	// Verdict returns an error if a record was lost, doubled or wrong.
	Verdict() error
}

// Output reads the output of a contestant while it runs and has it checked.
type Output struct {
	begun   time.Time
	readers []*Reader
	check   Check

	mu      sync.Mutex
	total   int64
	samples []Sample
	failure error
}

// NewOutput prepares to read a topic from its start.
func NewOutput(ctx context.Context, client sarama.Client, topic string, check Check) (*Output, error) {
	partitions, err := client.Partitions(topic)
	if err != nil {
		return nil, fmt.Errorf("partitions of %s: %w", topic, err)
	}
	byAddr := map[string][]int32{}
	for _, p := range partitions {
		leader, err := client.Leader(topic, p)
		if err != nil {
			return nil, fmt.Errorf("leader of %s-%d: %w", topic, p, err)
		}
		byAddr[leader.Addr()] = append(byAddr[leader.Addr()], p)
	}
	o := &Output{begun: time.Now(), check: check}
	for addr, ps := range byAddr {
		r, err := NewReader(ctx, addr, topic, ps)
		if err != nil {
			return nil, err
		}
		o.readers = append(o.readers, r)
	}
	return o, nil
}

// Run reads until ctx ends.
func (o *Output) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, r := range o.readers {
		wg.Go(func() {
			defer r.conn.Close()
			for ctx.Err() == nil {
				err := r.Poll(o.check.Record)
				o.answered(err)
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

func (o *Output) answered(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.failure = err
		return
	}
	if n := o.check.Progress(); n > o.total {
		o.total = n
		o.samples = append(o.samples, Sample{time.Since(o.begun), n})
	}
}

// Begun is when the output was first asked for.
func (o *Output) Begun() time.Time { return o.begun }

// Seen returns the progress, when it was first and last seen, and any failure.
func (o *Output) Seen() (total int64, first, last time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.samples) > 0 {
		first, last = o.samples[0].At, o.samples[len(o.samples)-1].At
	}
	return o.total, first, last, o.failure
}

// Samples returns the progress over time.
func (o *Output) Samples() []Sample {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]Sample(nil), o.samples...)
}

// Verdict returns an error if reading failed or the check did.
func (o *Output) Verdict() error {
	if _, _, _, err := o.Seen(); err != nil {
		return err
	}
	return o.check.Verdict()
}

// Rate returns the slope of the progress over time, in records per second, from
// warmup after the first sample to its end, and the length of that window.
func (o *Output) Rate(warmup, window time.Duration) (perSecond float64, length time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Slope(o.samples, warmup, window)
}
