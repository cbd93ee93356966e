package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// sample is how many output records were visible at a moment.
type sample struct {
	at    time.Duration // since the counter started
	total int64
}

// counter reads the output of a contestant while it runs and checks it: the
// running counts of every key are 1, 2, 3, … in this order.
type counter struct {
	begun   time.Time
	readers []*reader

	mu      sync.Mutex
	counts  []uint64 // by key
	total   int64
	samples []sample
	lost    int64 // counts that never came before a later one
	doubled int64 // counts that came again
	wrong   error // the first record that is none of a contestant's
	example string
	failure error
}

func newCounter(ctx context.Context, client sarama.Client, topic string, keys int) (*counter, error) {
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
	c := &counter{begun: time.Now(), counts: make([]uint64, keys)}
	for addr, ps := range byAddr {
		r, err := newReader(ctx, addr, topic, ps)
		if err != nil {
			return nil, err
		}
		c.readers = append(c.readers, r)
	}
	return c, nil
}

// run reads until ctx ends.
func (c *counter) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, r := range c.readers {
		wg.Go(func() {
			defer r.conn.Close()
			for ctx.Err() == nil {
				n := int64(0)
				err := r.poll(func(_ int32, key, value []byte) { c.record(key, value); n++ })
				c.answered(n, err)
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

// record checks one output record. The counts of one key are in one partition,
// so no lock is needed for them; mistakes are rare.
func (c *counter) record(key, value []byte) {
	if len(key) != 8 || len(value) != 8 || binary.BigEndian.Uint64(key) >= uint64(len(c.counts)) {
		c.mistake(func() { c.wrong = fmt.Errorf("output record with key %x and value %x", key, value) })
		return
	}
	k := binary.BigEndian.Uint64(key)
	got, want := binary.BigEndian.Uint64(value), c.counts[k]+1
	if got == want {
		c.counts[k] = got
		return
	}
	c.mistake(func() {
		if c.example == "" {
			c.example = fmt.Sprintf("key %d: count %d came where %d was due", k, got, want)
		}
		if got < want {
			c.doubled++
			return
		}
		c.lost += int64(got - want)
		c.counts[k] = got
	})
}

func (c *counter) mistake(note func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note()
}

func (c *counter) answered(n int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failure = err
		return
	}
	if n > 0 {
		c.total += n
		c.samples = append(c.samples, sample{time.Since(c.begun), c.total})
	}
}

// seen returns what was read, when the first records came, and any failure.
func (c *counter) seen() (total int64, first, last time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.samples) > 0 {
		first, last = c.samples[0].at, c.samples[len(c.samples)-1].at
	}
	return c.total, first, last, c.failure
}

// verdict returns an error if a record was lost, doubled or wrong.
func (c *counter) verdict() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return c.failure
	}
	if c.wrong != nil {
		return c.wrong
	}
	if c.lost > 0 || c.doubled > 0 {
		return fmt.Errorf("%d records lost, %d doubled; first: %s", c.lost, c.doubled, c.example)
	}
	return nil
}

// rate returns the slope of the total over time, in records per second, from
// warmup after the first record to its end, and the length of that window.
// Output that appears in bursts, one per checkpoint, is followed step by step
// on a grid, so that neither end of the window needs to meet a burst.
func (c *counter) rate(warmup, window time.Duration) (perSecond float64, length time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slope(c.samples, warmup, window)
}

const grid = 100 * time.Millisecond

func slope(samples []sample, warmup, window time.Duration) (float64, time.Duration) {
	if len(samples) == 0 {
		return 0, 0
	}
	from := samples[0].at + warmup
	to := min(from+window, samples[len(samples)-1].at)
	var n, sumT, sumN, sumTT, sumTN float64
	i := 0
	for at := from; at <= to; at += grid {
		for i+1 < len(samples) && samples[i+1].at <= at {
			i++
		}
		t, total := at.Seconds(), float64(samples[i].total)
		n, sumT, sumN, sumTT, sumTN = n+1, sumT+t, sumN+total, sumTT+t*t, sumTN+t*total
	}
	if n < 2 {
		return 0, 0
	}
	return (n*sumTN - sumT*sumN) / (n*sumTT - sumT*sumT), to - from
}
