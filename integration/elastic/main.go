// Command elastic scales an application on a real broker under load, 1 → 3 → 2
// instances, restarts all of them one after the other, and says what became of
// the records: counted by its own operators, and by a read_committed consumer.
//
//	elastic [-rate 4000] [-partitions 6] [-interval 1s]
//
// It fails when a record was processed twice, lost or doubled, or when a
// partition of the output stood still for too long.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/dsltest/moves"
)

func main() {
	o := moves.Options{App: "elastic"}
	partitions := flag.Int("partitions", 6, "partitions of the input")
	flag.IntVar(&o.Rate, "rate", 4000, "records a second")
	flag.DurationVar(&o.Interval, "interval", time.Second, "checkpoint interval")
	gap := flag.Duration("gap", 2*time.Second, "longest allowed gap in the output of a partition")
	log := flag.String("log", "", "write the instances' logs to this file")
	flag.Parse()
	o.Partitions = int32(*partitions)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	err := run(ctx, o, *gap, *log)
	cancel()
	stop()
	if cerr := servers.CloseAll(); err == nil {
		err = cerr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "elastic:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o moves.Options, most time.Duration, logFile string) error {
	kafka, err := servers.Kafka(ctx, servers.KafkaOptions{Own: true, Config: map[string]string{
		"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0",
	}})
	if err != nil {
		return err
	}
	o.Brokers = kafka.Brokers()
	if o.Dir, err = os.MkdirTemp("", "tidegate-elastic-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(o.Dir) }()
	o.Logger = slog.New(slog.DiscardHandler)
	if logFile != "" {
		f, err := os.Create(filepath.Clean(logFile))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		o.Logger = slog.New(slog.NewTextHandler(f, nil))
	}
	// A cache of a byte: every running count goes out at once.
	o.Extra = []tidegate.Option{tidegate.WithCacheBytes(1), tidegate.WithSessionTimeout(6 * time.Second)}
	f, err := moves.New(ctx, o)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := scale(ctx, f, int(o.Partitions)); err != nil {
		return err
	}
	report, err := f.Finish(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("reprocessed %d\n", report.Reprocessed)
	fmt.Print("longest output gap per partition:")
	for _, p := range slices.Sorted(maps.Keys(report.Gaps)) {
		fmt.Printf(" %d: %v", p, report.Gaps[p].Round(time.Millisecond))
	}
	fmt.Printf("; longest of all %v\n", report.MaxGap().Round(time.Millisecond))
	fmt.Printf("records %d lost %d duplicated %d wrong counts %d\n", report.Records, report.Lost, report.Duplicated, report.WrongCounts)
	switch {
	case report.Reprocessed+report.Lost+report.Duplicated+report.WrongCounts > 0:
		return fmt.Errorf("records were not processed once: %s", report)
	case report.MaxGap() > most:
		return fmt.Errorf("a partition of the output stood still for %v, allowed are %v", report.MaxGap(), most)
	}
	return nil
}

// scale goes 1 → 3 → 2 and restarts everybody, each stop as by SIGTERM. Two
// subtopologies have as many tasks each as the input has partitions.
func scale(ctx context.Context, f *moves.Fleet, partitions int) error {
	all := 2 * partitions
	share := func(instances int) (low, high int) { return all / instances, (all + instances - 1) / instances }
	say := func(what string) { fmt.Println(what) }
	settle := func(instances int) error {
		low, high := share(instances)
		if err := f.AwaitTasks(ctx, low, high); err != nil {
			return err
		}
		return f.AwaitOutput(ctx)
	}
	if err := f.Start(ctx, "a"); err != nil {
		return err
	}
	// A new broker makes its internal topics with the first commits, which takes
	// seconds and has nothing to do with moves.
	for range 5 {
		if err := settle(1); err != nil {
			return err
		}
	}
	f.Measure()
	say("1 instance; two more join")
	for _, name := range []string{"b", "c"} {
		if err := f.Start(ctx, name); err != nil {
			return err
		}
	}
	if err := settle(3); err != nil {
		return err
	}
	say("3 instances; all are restarted, one after the other")
	for _, name := range []string{"a", "b", "c"} {
		if err := f.Stop(ctx, name); err != nil {
			return err
		}
		if err := settle(2); err != nil {
			return err
		}
		if err := f.Start(ctx, name); err != nil {
			return err
		}
		if err := settle(3); err != nil {
			return err
		}
	}
	say("3 instances; one leaves")
	if err := f.Stop(ctx, "b"); err != nil {
		return err
	}
	if err := settle(2); err != nil {
		return err
	}
	say("2 instances")
	return nil
}
