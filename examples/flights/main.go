package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "flights:", err)
		os.Exit(1)
	}
}

// run is the program with its arguments.
func run(ctx context.Context, args []string) error {
	var (
		s  serviceConfig
		d  demoConfig
		fs = flag.NewFlagSet("flights", flag.ContinueOnError)
	)
	service := fs.Bool("serve", false, "run one instance of the service, not the demonstration")
	fs.StringVar(&s.brokers, "brokers", "", "Kafka `host:port`, comma-separated; none: a broker in this process")
	fs.StringVar(&s.store, "store", "", "checkpoints: `dir:/path` or s3://bucket/prefix")
	fs.StringVar(&s.app, "app", "flights", "application id")
	fs.StringVar(&s.prefix, "prefix", "", "what the names of topics begin with")
	fs.StringVar(&s.state, "state", "", "local `folder` for state")
	fs.StringVar(&s.name, "name", "", "name of the instance")
	fs.DurationVar(&s.interval, "interval", time.Second, "time between checkpoints")
	fs.DurationVar(&s.session, "session", 6*time.Second, "silence after which an instance counts as lost")
	fs.BoolVar(&s.attached, "attached", false, "with -serve: stop when standard input ends")
	fs.IntVar(&d.days, "days", 31, "demonstration: days of January")
	fs.DurationVar(&d.pace, "pace", 16*time.Second, "demonstration: time in which all flights are fed")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if *service {
		return serve(ctx, s)
	}
	d.service = s
	return demonstrate(ctx, d, os.Stdout)
}
