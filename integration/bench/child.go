package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint/s3"
	"github.com/tidegate/tidegate/serde"
)

// childSettings are the flags of the tidegate process.
type childSettings struct {
	brokers, input, output, app    string
	keys                           uint64
	interval                       time.Duration
	mode                           string
	stateDir                       string
	storeDir, s3Endpoint, s3Bucket string
	cpuProfile, memProfile         string
	records                        int64 // processed, both hops together
}

// runChild runs the count topology until it is terminated.
func runChild(args []string) error {
	var s childSettings
	f := flag.NewFlagSet("bench -child", flag.ExitOnError)
	f.StringVar(&s.brokers, "brokers", "127.0.0.1:9092", "Kafka bootstrap servers, separated by commas")
	f.StringVar(&s.input, "input", "bench-input", "topic to read")
	f.StringVar(&s.output, "output", "bench-output", "topic for the running counts")
	f.StringVar(&s.app, "app", "bench", "application id")
	f.Uint64Var(&s.keys, "keys", 100_000, "number of keys after re-keying")
	f.DurationVar(&s.interval, "interval", time.Second, "checkpoint interval; ten times the commit interval in changelog mode")
	f.StringVar(&s.mode, "mode", barrierMode, "barrier or changelog")
	f.StringVar(&s.stateDir, "state", "", "folder for local state")
	f.StringVar(&s.storeDir, "store-dir", "", "folder for checkpoints, instead of S3")
	f.StringVar(&s.s3Endpoint, "s3-endpoint", "", "URL of the S3 server")
	f.StringVar(&s.s3Bucket, "s3-bucket", "", "bucket for checkpoints")
	f.StringVar(&s.cpuProfile, "cpuprofile", "", "file to write a processor profile to")
	f.StringVar(&s.memProfile, "memprofile", "", "file to write an allocation profile to")
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app, err := s.newApp(ctx)
	if err != nil {
		return err
	}
	return profiled(&s, func() error {
		defer func() { s.records = app.Health().Records }()
		return app.Run(ctx)
	})
}

// newApp builds the topology: re-key, count, write every update.
func (s childSettings) newApp(ctx context.Context) (*tidegate.App, error) {
	b := tidegate.NewBuilder()
	b.Stream(s.input, serde.Bytes(), serde.Bytes()).
		GroupBy("by-key", func(key, _ []byte) uint64 { return binary.BigEndian.Uint64(key) % s.keys }, serde.Uint64()).
		Count("counts").
		ToStream().
		To(s.output)
	topology, err := b.Build()
	if err != nil {
		return nil, err
	}
	options := []tidegate.Option{
		tidegate.WithApplicationID(s.app),
		tidegate.WithBrokers(strings.Split(s.brokers, ",")...),
		tidegate.WithCheckpointInterval(s.interval),
		tidegate.WithStateDir(s.stateDir),
		tidegate.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))),
	}
	if s.mode == changelogMode {
		return tidegate.New(topology, append(options, tidegate.WithMode(tidegate.Changelog), tidegate.WithCommitInterval(s.interval/10))...)
	}
	if s.storeDir != "" {
		return tidegate.New(topology, append(options, tidegate.WithCheckpointDir(s.storeDir))...)
	}
	store, err := s3.New(ctx, s3.Config{Bucket: s.s3Bucket, Endpoint: s.s3Endpoint, PathStyle: true})
	if err != nil {
		return nil, err
	}
	return tidegate.New(topology, append(options, tidegate.WithCheckpointStore(store))...)
}

// allocationsPrefix begins the line by which a child reports its allocations.
const allocationsPrefix = "allocations per record "

// countAllocations reports every allocation of the process, from its start,
// per record that went through both hops.
func countAllocations(s childSettings) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if through := s.records / 2; through > 0 {
		fmt.Printf("%s%.3f\n", allocationsPrefix, float64(m.Mallocs)/float64(through))
	}
}

// profiled runs f and writes the profiles that were asked for.
func profiled(s *childSettings, f func() error) error {
	if s.cpuProfile != "" {
		out, err := os.Create(s.cpuProfile)
		if err != nil {
			return err
		}
		defer out.Close()
		if err := pprof.StartCPUProfile(out); err != nil {
			return fmt.Errorf("processor profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	err := f()
	countAllocations(*s)
	if s.memProfile != "" {
		out, createErr := os.Create(s.memProfile)
		if createErr != nil {
			return createErr
		}
		defer out.Close()
		if err := pprof.Lookup("allocs").WriteTo(out, 0); err != nil {
			return fmt.Errorf("allocation profile: %w", err)
		}
	}
	return err
}
