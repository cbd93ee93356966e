// Command floor moves the bytes of the count workload with nothing around
// them: what a job on the same client library could reach at best.
//
// It fetches the input, re-keys each record modulo the number of keys and
// produces it to a repartition topic; it fetches that topic, counts per key in
// a Go map, and produces every update to the output topic. Sarama's
// broker-level Fetch and AsyncProduce, batches built by hand, an idempotent
// producer, no transaction, no offsets, no store, no recovery. It uses nothing
// of tidegate's code.
//
// Input records have an 8-byte key and any value; output records have the
// 8-byte big-endian key and the 8-byte big-endian running count. The topics
// must exist, with as many partitions each. It runs until it is terminated.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"

	"github.com/tidegate/tidegate/integration/measure"
)

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "Kafka bootstrap servers, separated by commas")
	input := flag.String("input", "floor-input", "topic to read")
	repartition := flag.String("repartition", "floor-repartition", "topic for the re-keyed records")
	output := flag.String("output", "floor-output", "topic for the running counts")
	keys := flag.Uint64("keys", 100_000, "number of keys after re-keying")
	profile := flag.String("cpuprofile", "", "file to write a processor profile to")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "floor:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(*brokers, ","), *input, *repartition, *output, *keys); err != nil && ctx.Err() == nil {
		pprof.StopCPUProfile()
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

// run moves records until ctx ends or something fails: the floor has no answer
// to failures.
func run(ctx context.Context, brokers []string, input, repartition, output string, keys uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	kafka, err := connect(brokers)
	if err != nil {
		return err
	}
	rekeyed, err := kafka.newProducer(repartition, cancel)
	if err != nil {
		return err
	}
	counted, err := kafka.newProducer(output, cancel)
	if err != nil {
		return err
	}
	if len(rekeyed.parts) != len(counted.parts) {
		return fmt.Errorf("topic %s has %d partitions and topic %s has %d: they must have as many", repartition, len(rekeyed.parts), output, len(counted.parts))
	}
	done := make(chan error, 2)
	go func() { done <- kafka.each(ctx, input, rekeyer(rekeyed, keys), rekeyed.flush) }()
	go func() { done <- kafka.each(ctx, repartition, counter(counted), counted.flush) }()
	err = <-done
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// rekeyer returns the first stage: the value goes on under a new key.
func rekeyer(to *producer, keys uint64) handler {
	names := make([]byte, 8*keys) // every key once, so that none is allocated per record
	parts := make([]int32, keys)
	for k := range keys {
		name := names[8*k : 8*k+8]
		binary.BigEndian.PutUint64(name, k)
		parts[k] = int32(measure.Murmur2(name)&0x7fffffff) % int32(len(to.parts))
	}
	return func(_ int32, key, value []byte) error {
		if len(key) != 8 {
			return fmt.Errorf("input key of %d bytes: want 8", len(key))
		}
		k := binary.BigEndian.Uint64(key) % keys
		return to.add(parts[k], names[8*k:8*k+8], value)
	}
}

// counter returns the second stage: a running count per key.
func counter(to *producer) handler {
	counts := make([]map[uint64]*uint64, len(to.parts))
	for p := range counts {
		counts[p] = map[uint64]*uint64{}
	}
	return func(partition int32, key, _ []byte) error {
		k := binary.BigEndian.Uint64(key)
		n := counts[partition][k]
		if n == nil {
			n = new(uint64)
			counts[partition][k] = n
		}
		*n++
		return to.add(partition, key, to.number(partition, *n))
	}
}
