package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/checkpoint/dir"
	"github.com/tidegate/tidegate/checkpoint/s3"
)

// serviceConfig is how one instance of the service runs.
type serviceConfig struct {
	app      string // application id
	prefix   string // before the names of topics
	brokers  string // host:port, comma-separated
	store    string // see openStore
	state    string // local folder; "" for the default
	name     string // instance name; "" for the default
	interval time.Duration
	session  time.Duration
	attached bool // stop when standard input ends
}

// serve runs one instance until ctx ends. It logs JSON lines to standard
// output.
func serve(ctx context.Context, c serviceConfig) error {
	topology, err := Topology(c.prefix)
	if err != nil {
		return err
	}
	store, err := openStore(ctx, c.store)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	app, err := tidegate.New(topology,
		tidegate.WithApplicationID(c.app),
		tidegate.WithBrokers(strings.Split(c.brokers, ",")...),
		tidegate.WithCheckpointStore(store),
		tidegate.WithCheckpointInterval(c.interval),
		tidegate.WithSessionTimeout(c.session),
		tidegate.WithStateDir(c.state),
		tidegate.WithInstanceName(c.name),
		tidegate.WithLogger(log),
		tidegate.WithStateListener(func(from, to tidegate.State) {
			log.Info("state", "from", from.String(), "to", to.String())
		}),
	)
	if err != nil {
		return err
	}
	if c.attached {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	return app.Run(ctx)
}

// openStore makes a checkpoint store of "dir:/path" or "s3://bucket/prefix".
// Endpoint, region and credentials of S3 come from the environment
// (AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID, …).
func openStore(ctx context.Context, url string) (checkpoint.Store, error) {
	if path, ok := strings.CutPrefix(url, "dir:"); ok {
		return dir.New(path)
	}
	if rest, ok := strings.CutPrefix(url, "s3://"); ok {
		bucket, prefix, _ := strings.Cut(rest, "/")
		return s3.New(ctx, s3.Config{
			Bucket: bucket, Prefix: prefix,
			PathStyle: os.Getenv("AWS_ENDPOINT_URL_S3") != "", // servers other than Amazon's
		})
	}
	return nil, fmt.Errorf("-store %q: want dir:/path or s3://bucket/prefix", url)
}
