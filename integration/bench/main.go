package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidegate/tidegate/integration/servers"
)

// voidBelow is the floor under which a run says nothing: the machine was busy.
const voidBelow = 800_000

// The modes.
const (
	barrierMode   = "barrier"
	changelogMode = "changelog"
)

// settings are the flags.
type settings struct {
	systems    string
	rounds     int
	records    int64
	keys       int
	partitions int
	warmup     time.Duration
	window     time.Duration
	interval   time.Duration
	store      string
	mode       string
	seed       uint64
	heapMB     int
	stateDir   string
	childArgs  string
	keepLogs   string

	floorProfile string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-child" {
		exit(runChild(os.Args[2:]))
	}
	var s settings
	flag.StringVar(&s.systems, "systems", "floor,tidegate", "contestants, separated by commas, in the order of a round")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds; each contestant runs once in each")
	flag.Int64Var(&s.records, "records", 40_000_000, "input records; enough for warm-up and window at the fastest rate")
	flag.IntVar(&s.keys, "keys", 100_000, "keys after re-keying")
	flag.IntVar(&s.partitions, "partitions", 4, "partitions of every topic")
	flag.DurationVar(&s.warmup, "warmup", 10*time.Second, "time after the first output record that does not count")
	flag.DurationVar(&s.window, "window", 20*time.Second, "time that counts")
	flag.DurationVar(&s.interval, "interval", time.Second, "tidegate's checkpoint interval; in changelog mode the commit interval is a tenth")
	flag.StringVar(&s.store, "store", "s3", "tidegate's checkpoint store: s3 or dir")
	flag.StringVar(&s.mode, "mode", barrierMode, "tidegate's mode, barrier or changelog")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the input records")
	flag.IntVar(&s.heapMB, "broker-heap", 1024, "the broker's heap in MB, if one is started")
	flag.StringVar(&s.stateDir, "state", "", "folder for tidegate's state; default: a temporary one")
	flag.StringVar(&s.childArgs, "child-args", "", "more arguments for the tidegate process, e.g. \"-cpuprofile=/tmp/cpu\"")
	flag.StringVar(&s.floorProfile, "floor-cpuprofile", "", "file for a processor profile of the floor; the last round's stays")
	flag.StringVar(&s.keepLogs, "logs", "", "folder that keeps the contestants' logs; default: a temporary one")
	flag.Parse()
	if s.mode != barrierMode && s.mode != changelogMode {
		fmt.Fprintf(os.Stderr, "bench: -mode %q: want barrier or changelog\n", s.mode)
		os.Exit(2)
	}
	exit(run(s))
}

func exit(err error) {
	if err := errors.Join(err, servers.CloseAll()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	systems := strings.Split(s.systems, ",")
	b, err := newBench(ctx, s, systems)
	if err != nil {
		return err
	}
	defer b.close()
	results := map[string][]result{}
	for round := 1; round <= s.rounds; round++ {
		for _, system := range systems {
			r, err := b.round(ctx, system, round)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round, system, err)
			}
			results[system] = append(results[system], r)
			fmt.Printf("round %d %s %.0f records/s over %s, %d records checked, rss max %d MB, cpu %.1f s per million records\n",
				round, system, r.rate, r.window.Round(100*time.Millisecond), r.records, r.rssMB, r.cpuPerMillion)
			if r.allocations != "" {
				fmt.Printf("round %d %s allocations per record %s\n", round, system, r.allocations)
			}
			if r.window < s.window {
				fmt.Printf("round %d %s: the window is shorter than %s: the input ended; use more -records\n", round, system, s.window)
			}
		}
		if len(results["floor"]) == round && len(results["tidegate"]) == round {
			fmt.Printf("round %d ratio %.2f\n", round, results["tidegate"][round-1].rate/results["floor"][round-1].rate)
		}
	}
	return report(results)
}

// report prints the medians, the ratio as the median of the rounds' ratios.
func report(results map[string][]result) error {
	for _, system := range []string{"floor", "tidegate"} {
		if rs := results[system]; len(rs) > 0 {
			fmt.Printf("%s %.0f records/s\n", system, median(rs, func(r result) float64 { return r.rate }))
		}
	}
	floor, ours := results["floor"], results["tidegate"]
	if len(ours) > 0 {
		most := slices.MaxFunc(ours, func(a, b result) int { return int(a.rssMB - b.rssMB) })
		fmt.Printf("rss max %d MB\n", most.rssMB)
	}
	if len(floor) == 0 {
		return nil
	}
	void := median(floor, func(r result) float64 { return r.rate }) < voidBelow
	if len(ours) > 0 {
		i := -1
		ratio := median(ours, func(r result) float64 { i++; return r.rate / floor[i].rate })
		fmt.Printf("ratio to floor %.2f\n", ratio)
	}
	if void {
		return fmt.Errorf("the run is void: the floor is below %d records/s, so something else used the machine", voidBelow)
	}
	return nil
}

func median(rs []result, of func(result) float64) float64 {
	var v []float64
	for _, r := range rs {
		v = append(v, of(r))
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
