package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint/s3"
	"github.com/tidegate/tidegate/compare/workload"
)

// childSettings are the flags of the tidegate process.
type childSettings struct {
	workload, brokers, app, mode string
	o                            workload.Options
	atLeastOnce                  bool
	interval                     time.Duration
	state, name                  string
	storeDir                     string
	s3Endpoint, s3Bucket         string
	session                      time.Duration
	standbys                     int
}

// runChild runs a workload on tidegate until it is terminated.
func runChild(args []string) error {
	var s childSettings
	f := flag.NewFlagSet("compare -child", flag.ExitOnError)
	f.StringVar(&s.workload, "workload", "count", "workload")
	f.StringVar(&s.brokers, "brokers", "", "Kafka bootstrap servers, separated by commas")
	f.StringVar(&s.app, "app", "", "application id")
	f.StringVar(&s.mode, "mode", "barrier", "barrier or changelog")
	f.BoolVar(&s.atLeastOnce, "at-least-once", false, "at-least-once instead of exactly-once")
	f.DurationVar(&s.interval, "interval", time.Second, "checkpoint or commit interval")
	f.StringVar(&s.state, "state", "", "folder for local state")
	f.StringVar(&s.name, "name", "", "instance name")
	f.StringVar(&s.storeDir, "store-dir", "", "folder for checkpoints")
	f.StringVar(&s.s3Endpoint, "s3-endpoint", "", "URL of an S3 server for checkpoints")
	f.StringVar(&s.s3Bucket, "s3-bucket", "", "bucket for checkpoints")
	f.DurationVar(&s.session, "session", 10*time.Second, "session timeout")
	f.IntVar(&s.standbys, "standbys", 0, "standby replicas")
	f.Uint64Var(&s.o.Keys, "keys", 100_000, "number of keys")
	f.IntVar(&s.o.ValueBytes, "value-bytes", 32, "size of a value of bigstate")
	f.DurationVar(&s.o.Grace, "grace", 0, "how late records of q7's longer way may be")
	f.StringVar(&s.o.Topics.Input, "input", "", "topic")
	f.StringVar(&s.o.Topics.Persons, "persons", "", "topic")
	f.StringVar(&s.o.Topics.Auctions, "auctions", "", "topic")
	f.StringVar(&s.o.Topics.Bids, "bids", "", "topic")
	f.StringVar(&s.o.Topics.Output, "output", "", "topic")
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app, err := s.newApp(ctx)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

func (s childSettings) newApp(ctx context.Context) (*tidegate.App, error) {
	topology, err := workload.Build(s.workload, s.o)
	if err != nil {
		return nil, err
	}
	options := []tidegate.Option{
		tidegate.WithApplicationID(s.app),
		tidegate.WithBrokers(strings.Split(s.brokers, ",")...),
		tidegate.WithStateDir(s.state),
		tidegate.WithSessionTimeout(s.session),
		// A round begins with topics that are quiet for longer than the default:
		// their tasks would count as idle, and the first windows close without
		// them. (Flink's job has no idle timeout at all.)
		tidegate.WithIdleTimeout(time.Minute),
		tidegate.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))),
	}
	if s.name != "" {
		options = append(options, tidegate.WithInstanceName(s.name))
	}
	if s.atLeastOnce {
		options = append(options, tidegate.WithGuarantee(tidegate.AtLeastOnce))
	}
	options = append(options, tidegate.WithCheckpointInterval(s.interval))
	switch {
	case s.mode == "changelog":
		options = append(options, tidegate.WithMode(tidegate.Changelog), tidegate.WithCommitInterval(s.interval))
	case s.mode != "barrier":
		return nil, fmt.Errorf("mode %q: want barrier or changelog", s.mode)
	case s.storeDir != "":
		options = append(options, tidegate.WithCheckpointDir(s.storeDir))
	default:
		store, err := s3.New(ctx, s3.Config{Bucket: s.s3Bucket, Endpoint: s.s3Endpoint, PathStyle: true})
		if err != nil {
			return nil, err
		}
		options = append(options, tidegate.WithCheckpointStore(store))
	}
	return tidegate.New(topology, options...)
}
