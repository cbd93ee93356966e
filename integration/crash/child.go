package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint/s3"
	"github.com/tidegate/tidegate/runtime"
	"github.com/tidegate/tidegate/serde"
)

const (
	application = "crash"
	inputTopic  = "numbers"
	runningOut  = "running"
	windowsOut  = "windows"
	partitions  = 4
	buckets     = 16
	windowSize  = 10 * time.Second
)

// aggregate is the running value of a group. Seen has a bit per number of the
// group: with at-least-once a count alone could hide a loss behind a repetition.
type aggregate struct {
	Count, Sum, Min, Max int64
	Seen                 uint64
}

// aggregateSerde is five big-endian numbers.
type aggregateSerde struct{}

func (aggregateSerde) Append(dst []byte, a aggregate) ([]byte, error) {
	for _, v := range []int64{a.Count, a.Sum, a.Min, a.Max} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return binary.BigEndian.AppendUint64(dst, a.Seen), nil
}

func (aggregateSerde) Decode(b []byte) (a aggregate, err error) {
	if len(b) != 40 {
		return a, fmt.Errorf("aggregate: want 40 bytes, got %d", len(b))
	}
	for i, p := range []*int64{&a.Count, &a.Sum, &a.Min, &a.Max} {
		*p = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
	a.Seen = binary.BigEndian.Uint64(b[32:])
	return a, nil
}

func (aggregateSerde) Fingerprint() string { return "crash.aggregate/2" }

// bucketOf groups the groups for the second hop.
func bucketOf(group string) string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, group)
	return fmt.Sprintf("b%02d", h.Sum32()%buckets)
}

// topology is the application under test.
func topology() (*tidegate.Topology, error) {
	b := tidegate.NewBuilder()
	running := b.Stream(inputTopic, serde.String(), serde.Int64()).
		GroupBy("by-group", func(k string, _ int64) string { g, _, _ := strings.Cut(k, "/"); return g }, serde.String()).
		Aggregate("groups", func() aggregate { return aggregate{} }, func(_ string, v int64, a aggregate) aggregate {
			if a.Count == 0 || v < a.Min {
				a.Min = v
			}
			if a.Count == 0 || v > a.Max {
				a.Max = v
			}
			a.Count++
			a.Sum += v
			a.Seen |= 1 << (v % groupSpan)
			return a
		}, serde.Serde[aggregate](aggregateSerde{})).
		ToStream()
	running.To(runningOut)
	running.
		GroupBy("by-bucket", func(g string, _ aggregate) string { return bucketOf(g) }, serde.String()).
		WindowedBy(tidegate.Tumbling(windowSize).Grace(24*time.Hour), tidegate.ByWindow).
		Count("windows").
		ToStream().
		To(windowsOut)
	return b.Build()
}

// rules maps -break to what is switched off.
func rules(name string) (r runtime.TestRules, err error) {
	switch name {
	case "":
	case "commit-early":
		r.CommitEarly = true
	case "no-lineage":
		r.Barrier.SkipR6 = true
	case "offsets-ahead":
		r.OffsetsAhead = true
	case "store-early":
		r.StoreEarly = true
	default:
		return r, fmt.Errorf("-break %q: want commit-early, no-lineage or offsets-ahead; in changelog mode offsets-ahead or store-early", name)
	}
	return r, nil
}

// child runs one instance until SIGTERM. Lines on its standard input arm a
// phase: it kills itself with SIGKILL when it gets there.
func child(args []string) error {
	fs := flag.NewFlagSet("child", flag.ContinueOnError)
	brokers := fs.String("brokers", "", "")
	name := fs.String("name", "", "")
	stateDir := fs.String("state", "", "")
	endpoint := fs.String("s3", "", "")
	bucket := fs.String("bucket", "", "")
	interval := fs.Duration("interval", 500*time.Millisecond, "")
	breaking := fs.String("break", "", "")
	mode := fs.String("mode", "barrier", "")
	standbys := fs.Int("standbys", 0, "")
	guarantee := fs.String("guarantee", exactlyOnce, "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	topo, err := topology()
	if err != nil {
		return err
	}
	test, err := rules(*breaking)
	if err != nil {
		return err
	}
	var armed atomic.Pointer[string]
	test.Phase = func(phase string) {
		fmt.Printf("phase %s\n", phase)
		if a := armed.Load(); a != nil && *a == phase {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			phase := in.Text()
			armed.Store(&phase)
		}
		os.Exit(3) // the harness is gone
	}()
	opts := []tidegate.Option{tidegate.WithStandbys(*standbys)}
	if *guarantee == atLeastOnce {
		opts = append(opts, tidegate.WithGuarantee(tidegate.AtLeastOnce))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if *mode == "changelog" {
		return runChild(ctx, topo, test, *brokers, *stateDir, *name, append(opts,
			tidegate.WithMode(tidegate.Changelog), tidegate.WithCommitInterval(*interval/5), tidegate.WithTransactionTimeout(10*time.Second),
			// Some tasks move at once, some when they were followed.
			tidegate.WithAcceptableLag(2000), tidegate.WithProbingInterval(2*time.Second))...)
	}
	store, err := s3.New(ctx, s3.Config{Bucket: *bucket, Endpoint: *endpoint, PathStyle: true, Region: aws.ToString(aws.String("us-east-1"))})
	if err != nil {
		return err
	}
	return runChild(ctx, topo, test, *brokers, *stateDir, *name, append(opts,
		tidegate.WithCheckpointStore(store), tidegate.WithCheckpointInterval(*interval), tidegate.WithCheckpointTimeout(8*time.Second),
		tidegate.WithToleratedAborts(3), tidegate.WithTransactionTimeout(5*time.Minute), tidegate.WithExpectedRestart(2*time.Minute))...)
}

// runChild runs the application with what both modes share.
func runChild(ctx context.Context, topo *tidegate.Topology, test runtime.TestRules, brokers, stateDir, name string, opts ...tidegate.Option) error {
	app, err := tidegate.New(topo, append(opts,
		tidegate.WithApplicationID(application), tidegate.WithBrokers(strings.Split(brokers, ",")...),
		tidegate.WithStateDir(stateDir), tidegate.WithInstanceName(name),
		tidegate.WithSessionTimeout(sessionTimeout), tidegate.WithShutdownDeadline(20*time.Second),
		tidegate.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))),
		func(c *runtime.Config) { c.TestRules = test },
	)...)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

const sessionTimeout = 3 * time.Second
