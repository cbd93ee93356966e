package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/dir"
	"github.com/tidegate/tidegate/checkpoint/s3"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/runtime"
)

// commandFor bounds a command: deleting many topics takes a while.
const commandFor = 2 * time.Minute

// passwordVariable has the SASL password, which must not stand on a command line.
const passwordVariable = "TIDEGATE_SASL_PASSWORD"

// command is what reset, repair and upgrade have in common: the cluster, the
// application, its store, and what may be deleted.
type command struct {
	name string
	out  io.Writer

	brokers, application, include string
	checkpoints, endpoint         string
	pathStyle, execute            bool
	security                      kafka.Security
}

// parse reads the flags; false when they make no sense, which it said. The store
// may be left out if it is optional.
func (c *command) parse(args []string, storeOptional bool) bool {
	fs := flag.NewFlagSet("tidegate "+c.name, flag.ContinueOnError)
	fs.SetOutput(c.out)
	fs.StringVar(&c.brokers, "brokers", "", "brokers as host:port, separated by commas")
	fs.StringVar(&c.application, "application", "", "application id")
	fs.StringVar(&c.include, "include", "", "topics, separated by commas, that are this application's although another one could have them")
	fs.BoolVar(&c.execute, "execute", false, "delete what must go; without it only shown")
	fs.StringVar(&c.checkpoints, "checkpoints", "", "the checkpoint store of an application in barrier mode: a directory, or s3://BUCKET/PREFIX")
	fs.StringVar(&c.endpoint, "endpoint", "", "URL of an S3 server other than Amazon's")
	fs.BoolVar(&c.pathStyle, "path-style", false, "put the bucket in the path of S3 requests")
	fs.BoolVar(&c.security.TLS, "tls", false, "connect to the brokers with TLS")
	fs.StringVar(&c.security.CA, "tls-ca", "", "PEM file with the authorities of the brokers' certificates; the system's unless given")
	fs.StringVar(&c.security.Cert, "tls-cert", "", "PEM file with the client's certificate, where brokers want one")
	fs.StringVar(&c.security.Key, "tls-key", "", "PEM file with its key")
	fs.StringVar(&c.security.User, "sasl-user", "", "user for SASL/PLAIN; the password is taken from "+passwordVariable)
	if err := fs.Parse(args); err != nil {
		return false
	}
	if c.brokers == "" || c.application == "" || c.checkpoints == "" && !storeOptional || fs.NArg() > 0 {
		store := "--checkpoints DIR|s3://BUCKET/PREFIX"
		if storeOptional {
			store = "[" + store + "]"
		}
		fmt.Fprintf(c.out, "usage: tidegate %s --brokers HOST:PORT,… --application ID %s [--include TOPIC,…] [--execute]; -h lists all flags\n", c.name, store)
		return false
	}
	if c.security.User != "" {
		c.security.Password = os.Getenv(passwordVariable)
	}
	return true
}

// cluster says how to reach Kafka.
func (c *command) cluster() (runtime.KafkaConfig, error) {
	conf, err := c.security.Config()
	return runtime.KafkaConfig{Brokers: strings.Split(c.brokers, ","), Sarama: conf}, err
}

// store opens the checkpoint store, which must be the one that the application has.
func (c *command) store(ctx context.Context) (checkpoint.Store, error) {
	rest, remote := strings.CutPrefix(c.checkpoints, "s3://")
	if !remote {
		return dir.New(c.checkpoints)
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	return s3.New(ctx, s3.Config{Bucket: bucket, Prefix: prefix, Endpoint: c.endpoint, PathStyle: c.pathStyle})
}

// log shows warnings of the client.
func (c *command) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.out, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// fail says why the command ends.
func (c *command) fail(err error) int {
	fmt.Fprintf(c.out, "tidegate %s: %v\n", c.name, err)
	return 1
}

// take adds to the plan what --include names.
func (c *command) take(plan *runtime.Reset) error {
	if c.include == "" {
		return nil
	}
	if err := plan.Include(strings.Split(c.include, ",")...); err != nil {
		return fmt.Errorf("--include: %w", err)
	}
	return nil
}

// show lists what is to be deleted, and what could be.
func (c *command) show(plan *runtime.Reset) {
	fmt.Fprintf(c.out, "To be deleted:\n  consumer group %s with its offsets\n", plan.Application)
	for _, t := range plan.Topics {
		fmt.Fprintf(c.out, "  topic %s\n", t)
	}
	for _, a := range plan.Ambiguous {
		fmt.Fprintf(c.out, "Left alone: topic %s can be that of application %s (%s); if it is this one's, add: --include %s\n", a.Topic, a.Other, a.Trace, a.Topic)
	}
}
