// Package load writes the input of the workloads: all of it before a round that
// measures a rate, or record by record at the times at which they are due.
package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/compare/nexmark"
	"github.com/tidegate/tidegate/integration/measure"
)

// Source makes the records of one topic in the order of their times.
type Source struct {
	Topic   string
	Records int64
	// At makes the i-th record; time is in milliseconds since the epoch. It
	// allocates key and value.
	At func(i int64) (key, value []byte, time int64)
}

// Persons is the topic of persons of package nexmark.
func Persons(topic string, g nexmark.Generator, n int64) Source {
	return Source{topic, n, func(i int64) ([]byte, []byte, int64) {
		return g.AppendPerson(make([]byte, 0, 8), make([]byte, 0, nexmark.PersonSize), i)
	}}
}

// Auctions is the topic of auctions.
func Auctions(topic string, g nexmark.Generator, n int64) Source {
	return Source{topic, n, func(i int64) ([]byte, []byte, int64) {
		return g.AppendAuction(make([]byte, 0, 8), make([]byte, 0, nexmark.AuctionSize), i)
	}}
}

// Bids is the topic of bids.
func Bids(topic string, g nexmark.Generator, n int64) Source {
	return Source{topic, n, func(i int64) ([]byte, []byte, int64) {
		return g.AppendBid(make([]byte, 0, 8), make([]byte, 0, nexmark.BidSize), i)
	}}
}

// CountValueSize is the size of the values of the count workload.
const CountValueSize = 100

// Numbers are records of a random 8-byte key and a value of 100 bytes, so many
// per second of event time.
func Numbers(topic string, start, perSecond, n int64, seed uint64) Source {
	return Source{topic, n, func(i int64) ([]byte, []byte, int64) {
		b := make([]byte, 0, 8+CountValueSize)
		for j := range uint64((8+CountValueSize)/8 + 1) {
			b = binary.BigEndian.AppendUint64(b, mix(uint64(i)*16+j+seed<<48))
		}
		return b[:8:8], b[8 : 8+CountValueSize], start + i*1000/perSecond
	}}
}

// Skewed is Numbers whose keys modulo keys are not drawn evenly: the k-th is about
// as frequent as (k+1)^-skew, and skew is above 0 (Zipf's law).
func Skewed(topic string, start, perSecond, n int64, seed uint64, keys int, skew float64) Source {
	even := Numbers(topic, start, perSecond, n, seed)
	m := float64(keys) + 1
	return Source{topic, n, func(i int64) ([]byte, []byte, int64) {
		key, value, at := even.At(i)
		x := binary.BigEndian.Uint64(key)
		u := float64(x>>11) / (1 << 53)
		k := math.Pow(m, u) // the inverse of the sum up to k; here for skew 1
		if skew != 1 {
			k = math.Pow(1+u*(math.Pow(m, 1-skew)-1), 1/(1-skew))
		}
		// Many input keys for one of the count: the input stays spread.
		spread := mix(x) >> 24 * uint64(keys)
		binary.BigEndian.PutUint64(key, spread+min(uint64(k)-1, uint64(keys)-1))
		return key, value, at
	}}
}

// Keys holds each of n keys once, in order, with a value as Numbers has.
func Keys(topic string, n int64) Source {
	start := time.Now().Add(-time.Hour).UnixMilli()
	return Source{topic, n, func(i int64) ([]byte, []byte, int64) {
		return binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(i)), make([]byte, CountValueSize), start + i/10_000
	}}
}

// mix is the finalizer of a well-known generator: every bit of x matters.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Preload writes all records of the sources, each source by its own connection.
// progress is called now and then with how many were written.
func Preload(ctx context.Context, client sarama.Client, sources []Source, progress func(written int64)) error {
	written := make([]int64, len(sources))
	errs := make(chan error, len(sources))
	report := make(chan func())
	for s, src := range sources {
		go func() {
			errs <- each(ctx, client, src, func(i int64, w *measure.Writer) error {
				if i%100_000 == 0 {
					report <- func() { written[s] = i }
				}
				return nil
			})
		}()
	}
	var first error
	for done := 0; done < len(sources); {
		select {
		case f := <-report:
			f()
			sum := int64(0)
			for _, n := range written {
				sum += n
			}
			progress(sum)
		case err := <-errs:
			done++
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// each writes a source; before is called before each record.
func each(ctx context.Context, client sarama.Client, src Source, before func(int64, *measure.Writer) error) error {
	w, err := measure.NewWriter(client, src.Topic)
	if err != nil {
		return err
	}
	for i := range src.Records {
		if i%1000 == 0 && ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		if err = before(i, w); err != nil {
			break
		}
		key, value, at := src.At(i)
		if err = w.Add(at, key, value); err != nil {
			break
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if e := w.Close(closing); err == nil && e != nil {
		err = fmt.Errorf("write %s: %w", src.Topic, e)
	}
	return err
}

// tick is how often an open-loop writer sends what is due.
const tick = 5 * time.Millisecond

// OpenLoop writes each record when it is due by its timestamp, whatever became
// of those before: a slow system does not slow the load down. It returns how far
// behind the clock the writer itself was at most; more than a few ticks says
// that the machine could not offer the rate.
func OpenLoop(ctx context.Context, client sarama.Client, src Source, dueAt func(timestamp int64) time.Time) (behind time.Duration, err error) {
	next := time.Time{}
	err = each(ctx, client, src, func(i int64, w *measure.Writer) error {
		_, _, at := src.At(i)
		due := dueAt(at)
		now := time.Now()
		if now.After(due) {
			behind = max(behind, now.Sub(due))
			if now.Before(next) {
				return nil
			}
			next = now.Add(tick)
			return w.Flush()
		}
		if err := w.Flush(); err != nil {
			return err
		}
		// The records of one tick go together.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(max(time.Until(due), tick)):
		}
		return nil
	})
	return behind, err
}
