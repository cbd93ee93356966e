package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidegate/tidegate/compare/report"
	"github.com/tidegate/tidegate/integration/servers"
)

// settings are the flags.
type settings struct {
	systems, workloads, latencyOf string
	recovery                      string
	recoveryRounds                int
	rounds                        int
	records                       int64
	keys                          int
	partitions                    int
	warmup, window                time.Duration
	latencyWarmup, latencyWindow  time.Duration
	latencyRate                   int64
	interval, grace               time.Duration
	eventRate                     int64
	seed                          uint64
	heapMB                        int
	out, logs                     string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-child" {
		exit(runChild(os.Args[2:]))
	}
	var s settings
	flag.StringVar(&s.systems, "systems", "floor,barrier,changelog,kafka-streams,flink", "contestants, separated by commas, in the order of a round; see -list")
	flag.StringVar(&s.workloads, "workloads", "count,q5,q8", "workloads whose rate is measured, separated by commas")
	flag.StringVar(&s.latencyOf, "latency", "q5", "workloads whose latency is measured, separated by commas; empty: none")
	flag.StringVar(&s.recovery, "recovery", "1000000", "numbers of keys with which an instance is killed, separated by commas; empty: none")
	flag.IntVar(&s.recoveryRounds, "recovery-rounds", 1, "rounds of each recovery")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds; each contestant runs once in each")
	flag.Int64Var(&s.records, "records", 20_000_000, "input records of a rate round; enough for warm-up and window at the fastest rate")
	flag.IntVar(&s.keys, "keys", 100_000, "keys of the count workload")
	flag.IntVar(&s.partitions, "partitions", 4, "partitions of every topic")
	flag.DurationVar(&s.warmup, "warmup", 10*time.Second, "time after the first output that does not count")
	flag.DurationVar(&s.window, "window", 15*time.Second, "time that counts")
	flag.DurationVar(&s.latencyWarmup, "latency-warmup", 10*time.Second, "time of a latency round that does not count")
	flag.DurationVar(&s.latencyWindow, "latency-window", 30*time.Second, "time of a latency round that counts")
	flag.Int64Var(&s.latencyRate, "latency-rate", 0, "records per second of a latency round; 0: half of Kafka Streams' rate in this run, else 50000")
	flag.DurationVar(&s.interval, "interval", time.Second, "checkpoint or commit interval of every system")
	flag.DurationVar(&s.grace, "grace", time.Minute, "how late records may be, in event time, in systems that drop late ones by the largest timestamp seen")
	flag.Int64Var(&s.eventRate, "event-rate", 10_000, "input records per second of event time in rate rounds")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the input records")
	flag.IntVar(&s.heapMB, "broker-heap", 1024, "the broker's heap in MB, if one is started")
	flag.StringVar(&s.out, "out", "out", "folder for results.json, results.md and results.html")
	flag.StringVar(&s.logs, "logs", "", "folder that keeps the contestants' logs; default: a temporary one")
	list := flag.Bool("list", false, "list systems and workloads, and end")
	flag.Parse()
	if *list {
		for _, sys := range (&runner{}).systems() {
			fmt.Printf("%-20s %s\n", sys.name, sys.about)
		}
		return
	}
	exit(run(s))
}

func exit(err error) {
	if err := errors.Join(err, servers.CloseAll()); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func split(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

func run(s settings) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := newRunner(ctx, s)
	if err != nil {
		return err
	}
	defer r.close()
	p := r.newReport()
	systems, err := r.choose(ctx, p)
	if err != nil {
		return err
	}
	rates, latencies := split(s.workloads), split(s.latencyOf)
	for _, w := range rates {
		r.steps += s.rounds * count(systems, w)
	}
	for _, w := range latencies {
		r.steps += count(systems, w) * s.rounds
	}
	for _, s := range systems {
		if s.recovers {
			r.steps += len(r.recoveryKeys()) * r.recoveryRounds
		}
	}
	for _, w := range rates {
		if err := r.rates(ctx, p, systems, w); err != nil {
			return err
		}
	}
	for _, w := range latencies {
		if err := r.latencies(ctx, p, systems, w); err != nil {
			return err
		}
	}
	if err := r.recoveries(ctx, p, systems); err != nil {
		return err
	}
	p.Summarize()
	if err := write(s.out, p); err != nil {
		return err
	}
	return p.Err()
}

func count(systems []*system, workload string) (n int) {
	for _, s := range systems {
		if s.runs(workload) {
			n++
		}
	}
	return n
}

// choose prepares the systems that were asked for. One that cannot take part is
// reported, and the others run.
func (r *runner) choose(ctx context.Context, p *report.Report) ([]*system, error) {
	all := r.systems()
	var out []*system
	for _, name := range split(r.settings.systems) {
		i := slices.IndexFunc(all, func(s *system) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("system %q: -list names those that exist", name)
		}
		if all[i].prepare != nil {
			if err := all[i].prepare(ctx); err != nil {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				r.note("%s takes no part: %v", name, err)
				p.Missing = append(p.Missing, report.Missing{System: name, Why: err.Error()})
				continue
			}
		}
		p.Systems = append(p.Systems, report.System{Name: name, About: all[i].about})
		out = append(out, all[i])
	}
	return out, nil
}

// rates measures the steady rate of every system, in turns.
func (r *runner) rates(ctx context.Context, p *report.Report, systems []*system, workload string) error {
	in, err := r.newInput(workload, "rate", time.UnixMilli(1_700_000_000_000), r.records, r.eventRate, r.grace)
	if err != nil {
		return err
	}
	if err := r.prepareInput(ctx, in, true); err != nil {
		return err
	}
	defer r.cluster.delete("cmp-" + r.run + "-" + workload + "-rate-")
	for round := 1; round <= r.rounds; round++ {
		for _, s := range systems {
			if !s.runs(workload) {
				continue
			}
			r.step++
			got := r.rate(ctx, s, workload, in, round)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			p.Rounds = append(p.Rounds, got)
			if got.Error != "" {
				r.note("%s %s round %d FAILED: %s", workload, s.name, round, got.Error)
				continue
			}
			r.note("%s %s round %d: %.0f records/s over %.1f s, %d records checked, %.1f cpu s per million, %d MB",
				workload, s.name, round, got.Rate, got.WindowSeconds, got.Records, got.CPUPerMillion, got.RSSMB)
		}
	}
	return nil
}

// latencies measures every system at one offered rate, in turns.
func (r *runner) latencies(ctx context.Context, p *report.Report, systems []*system, workload string) error {
	rate := r.latencyRate
	if rate == 0 {
		rate = r.halfOfStreams(p, workload)
	}
	for round := 1; round <= r.rounds; round++ {
		for _, s := range systems {
			if !s.runs(workload) {
				continue
			}
			r.step++
			got := r.latency(ctx, s, workload, rate, round)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			p.Rounds = append(p.Rounds, got)
			if got.Error != "" {
				r.note("%s %s latency FAILED: %s", workload, s.name, got.Error)
				continue
			}
			r.note("%s %s at %d records/s: p50 %.0f ms, p99 %.0f ms, p99.9 %.0f ms, %d rows", workload, s.name, rate, got.P50, got.P99, got.P999, got.Samples)
		}
	}
	return nil
}

func (r *runner) halfOfStreams(p *report.Report, workload string) int64 {
	var rates []float64
	for _, got := range p.Rounds {
		if got.Kind == "rate" && got.Workload == workload && got.System == "kafka-streams" && got.Error == "" {
			rates = append(rates, got.Rate)
		}
	}
	if len(rates) == 0 {
		return 50_000
	}
	slices.Sort(rates)
	return int64(rates[len(rates)/2]/2) / 1000 * 1000
}

func (r *runner) newReport() *report.Report {
	return &report.Report{
		Date: time.Now(), Machine: machine(), Versions: []string{runtime.Version(), "Kafka 4.4.0 from " + string(r.cluster.kafka.Source())},
		Command: "make compare ARGS=\"" + strings.Join(os.Args[1:], " ") + "\"",
		Settings: []string{
			fmt.Sprintf("%d partitions, %d keys, interval %s, %d rounds, warm-up %s, window %s", r.partitions, r.keys, r.interval, r.rounds, r.warmup, r.window),
			fmt.Sprintf("grace %s where a system drops late records by the largest timestamp seen; 1 s in latency rounds", r.grace),
		},
	}
}

func machine() string {
	name := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(b), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), ":"))
		}
	}
	return fmt.Sprintf("%d cores of %s, %s", runtime.NumCPU(), name, runtime.GOOS)
}

func write(dir string, p *report.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		to   func(io.Writer) error
	}{{"results.json", p.JSON}, {"results.md", p.Markdown}, {"results.html", p.HTML}} {
		var b bytes.Buffer
		if err := file.to(&b); err != nil {
			return err
		}
		path := filepath.Join(dir, file.name)
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			return err
		}
		fmt.Println("written", path)
	}
	return nil
}
