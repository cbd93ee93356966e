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
	"github.com/tidegate/tidegate/compare/workload"
	"github.com/tidegate/tidegate/integration/servers"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-child" {
		exit(runChild(os.Args[2:]))
	}
	var s settings
	s.define(flag.CommandLine)
	list := flag.Bool("list", false, "list systems and workloads, and end")
	flag.Parse()
	if flag.NArg() > 0 {
		exit(fmt.Errorf("%q is no flag: everything is said with flags; see -help", flag.Arg(0)))
	}
	if *list {
		for _, sys := range (&runner{}).systems() {
			runs := "all workloads"
			if sys.workloads != nil {
				runs = strings.Join(sys.workloads, ", ")
			}
			fmt.Printf("%-32s %s (%s)\n", sys.name, sys.about, runs)
		}
		fmt.Printf("%-32s %s\n", "workloads", strings.Join(workload.Names(), ", "))
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

func run(s settings) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.check(); err != nil {
		return err
	}
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
	r.count(systems)
	err = r.measure(ctx, p, systems)
	if ctx.Err() != nil { // what an earlier run found is better than a part
		return err
	}
	p.Summarize()
	return errors.Join(err, write(s.out, p), p.Err())
}

// measure takes all steps. An error is none of a system's: the rest is left out.
func (r *runner) measure(ctx context.Context, p *report.Report, systems []*system) error {
	plain, byInterval, bySkew := []variant{r.plain()}, r.intervalSweep(), r.skewSweep()
	latencies := split(r.latencyOf)
	for _, w := range split(r.workloads) {
		if err := r.rates(ctx, p, systems, w, plain, r.rounds); err != nil {
			return err
		}
	}
	for _, w := range latencies {
		if err := r.latencies(ctx, p, systems, w, plain, r.latencyRounds); err != nil {
			return err
		}
	}
	if err := r.rates(ctx, p, systems, "count", byInterval, r.sweepRounds); err != nil {
		return err
	}
	for _, w := range latencies {
		if err := r.latencies(ctx, p, systems, w, byInterval, r.sweepRounds); err != nil {
			return err
		}
	}
	for _, v := range bySkew { // each has an input of its own
		if err := r.rates(ctx, p, systems, "count", []variant{v}, r.sweepRounds); err != nil {
			return err
		}
	}
	for _, part := range []func(context.Context, *report.Report, []*system) error{r.recoveries, r.restores, r.checkpointSizes} {
		if err := part(ctx, p, systems); err != nil {
			return err
		}
	}
	return nil
}

// count counts the steps, for those who wait.
func (r *runner) count(systems []*system) {
	run := func(workload string) (n int) {
		for _, s := range systems {
			if s.runs(workload) {
				n++
			}
		}
		return n
	}
	for _, w := range split(r.workloads) {
		r.steps += r.rounds * run(w)
	}
	r.steps += r.sweepRounds * run("count") * (len(r.sweepIntervals) + len(r.sweepSkews))
	for _, w := range split(r.latencyOf) {
		r.steps += run(w) * (r.latencyRounds + r.sweepRounds*len(r.sweepIntervals))
	}
	for _, s := range systems {
		if s.recovers {
			r.steps += len(r.recoveryKeys)*r.recoveryRounds + len(r.restoreKeys)*r.restoreRounds
		}
		if s.checkpoints && r.checkpoints > 0 {
			r.steps++
		}
	}
}

// choose prepares the systems that were asked for. One that cannot take part is
// reported, and the others run.
func (r *runner) choose(ctx context.Context, p *report.Report) ([]*system, error) {
	all := r.systems()
	var out []*system
	for _, name := range split(r.settings.systems) {
		i := slices.IndexFunc(all, func(s *system) bool { return s.name == name })
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

// rates measures the steady rate of every system, in turns, on one input.
func (r *runner) rates(ctx context.Context, p *report.Report, systems []*system, workload string, variants []variant, rounds int) error {
	if len(variants) == 0 {
		return nil
	}
	in, err := r.newInput(workload, "rate", variants[0], time.UnixMilli(1_700_000_000_000), r.records, r.eventRate, r.graceOf(workload))
	if err != nil {
		return err
	}
	if err := r.prepareInput(ctx, in, true); err != nil {
		return err
	}
	defer r.cluster.delete("cmp-" + r.run + "-" + workload + "-rate")
	return r.turns(systems, workload, variants, rounds, func(s *system, v variant, round int) error {
		got := r.rate(ctx, s, workload, v, in, round)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.Rounds = append(p.Rounds, got)
		if got.Error != "" {
			r.note("%s %s round %d FAILED: %s", got.Workload, s.name, round, got.Error)
			return nil
		}
		if got.WarmupCounts {
			p.Remark("%s, %s, round %d: the input ended before the warm-up and a quarter of the window were over, so the rate is of the whole round; give more -records", got.Workload, s.name, round)
		}
		r.note("%s %s round %d: %.0f records/s over %.1f s, %d records checked, %.1f cpu s per million, %d MB",
			got.Workload, s.name, round, got.Rate, got.WindowSeconds, got.Records, got.CPUPerMillion, got.RSSMB)
		return nil
	})
}

// turns lets the systems that run a workload take turns, round by round.
func (r *runner) turns(systems []*system, workload string, variants []variant, rounds int, measure func(*system, variant, int) error) error {
	for _, v := range variants {
		for round := 1; round <= rounds; round++ {
			for _, s := range systems {
				if !s.runs(workload) {
					continue
				}
				r.step++
				if err := measure(s, v, round); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// latencies measures every system at one offered rate, in turns.
func (r *runner) latencies(ctx context.Context, p *report.Report, systems []*system, workload string, variants []variant, rounds int) error {
	rate := r.latencyRate
	if rate == 0 {
		rate = r.halfOfStreams(p, workload)
	}
	return r.turns(systems, workload, variants, rounds, func(s *system, v variant, round int) error {
		got := r.latency(ctx, s, workload, v, rate, round)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.Rounds = append(p.Rounds, got)
		if got.Error != "" {
			r.note("%s %s latency FAILED: %s", got.Workload, s.name, got.Error)
			return nil
		}
		r.note("%s %s at %d records/s: p50 %.0f ms, p99 %.0f ms, p99.9 %.0f ms, %d rows", got.Workload, s.name, rate, got.P50, got.P99, got.P999, got.Samples)
		return nil
	})
}

// defaultOffered is the load of latency rounds where Kafka Streams' rate is not
// known, in records a second.
const defaultOffered = 10_000

func (r *runner) halfOfStreams(p *report.Report, workload string) int64 {
	var rates []float64
	for _, got := range p.Rounds {
		if got.Kind == "rate" && got.Workload == workload && got.System == "kafka-streams" && got.Error == "" {
			rates = append(rates, got.Rate)
		}
	}
	if len(rates) == 0 {
		p.Remark("latency of %s is at %d records/s, since no rate of Kafka Streams was measured in this run", workload, defaultOffered)
		return defaultOffered
	}
	slices.Sort(rates)
	return int64(rates[len(rates)/2]/2) / 1000 * 1000
}

func (r *runner) newReport() *report.Report {
	return &report.Report{
		Date: time.Now(), Machine: machine(), Versions: []string{runtime.Version(), brokerVersion(r.cluster.kafka)},
		Command: "make compare ARGS=\"" + strings.Join(os.Args[1:], " ") + "\"",
		Settings: []string{
			fmt.Sprintf("%d partitions, %d keys, interval %s, %d rounds, warm-up %s, window %s", r.partitions, r.keys, r.interval, r.rounds, r.warmup, r.window),
			fmt.Sprintf("grace %s (q5 %s) where a system drops late records by the largest timestamp seen; 1 s in latency rounds", r.graceOf(""), r.graceOf("q5")),
		},
	}
}

// brokerVersion is what is known of the broker: that of one that was running
// before is not.
func brokerVersion(k *servers.KafkaServer) string {
	if !k.Managed() {
		return "a Kafka broker that was running, of unknown version"
	}
	return "Kafka 4.4.0 from " + string(k.Source())
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
