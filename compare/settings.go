package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/compare/workload"
)

// settings are the flags.
type settings struct {
	systems, workloads, latencyOf string
	recovery                      string
	recoveryRounds                int
	restore                       string
	restoreRounds                 int
	checkpoints, checkpointWarm   int
	checkpointKeys                int64
	checkpointChange              float64
	checkpointInterval            time.Duration
	rounds, latencyRounds         int
	intervals, skews              string
	sweepRounds                   int
	records                       int64
	keys                          int
	partitions                    int
	warmup, window                time.Duration
	latencyWarmup, latencyWindow  time.Duration
	latencyRate                   int64
	interval, grace               time.Duration
	threads                       int
	eventRate                     int64
	seed                          uint64
	heapMB                        int
	out, logs                     string

	// what check makes of the lists
	recoveryKeys, restoreKeys []int64
	sweepIntervals            []time.Duration
	sweepSkews                []float64
}

// define declares the flags.
func (s *settings) define(f *flag.FlagSet) {
	f.StringVar(&s.systems, "systems", "floor,barrier,changelog,kafka-streams,flink", "contestants, separated by commas, in the order of a round; see -list")
	f.StringVar(&s.workloads, "workloads", "count,q5,q8", "workloads whose rate is measured, separated by commas; empty: none")
	f.StringVar(&s.latencyOf, "latency", "q5", "workloads whose latency is measured, separated by commas; empty: none")
	f.StringVar(&s.recovery, "recovery", "1000000", "numbers of keys with which an instance is killed, separated by commas; empty: none")
	f.IntVar(&s.recoveryRounds, "recovery-rounds", 1, "rounds of each recovery")
	f.StringVar(&s.restore, "restore", "", "numbers of keys with which an instance is started without its local state, separated by commas; empty: none")
	f.IntVar(&s.restoreRounds, "restore-rounds", 3, "rounds of each restore")
	f.IntVar(&s.checkpoints, "checkpoints", 0, "checkpoints in a row of a large state whose sizes are measured, in systems that report them; 0: none")
	f.IntVar(&s.checkpointWarm, "checkpoint-warm", 5, "checkpoints before them that do not count")
	f.Int64Var(&s.checkpointKeys, "checkpoint-keys", 10_000_000, "keys of that state")
	f.Float64Var(&s.checkpointChange, "checkpoint-change", 0.01, "share of its keys that change between two checkpoints, each once")
	f.DurationVar(&s.checkpointInterval, "checkpoint-interval", 5*time.Second, "interval of these checkpoints")
	f.IntVar(&s.rounds, "rounds", 3, "rounds of each rate; each contestant runs once in each")
	f.IntVar(&s.latencyRounds, "latency-rounds", 1, "rounds of each latency")
	f.StringVar(&s.intervals, "intervals", "", "checkpoint or commit intervals with which the rate of count and the latencies of -latency are measured, separated by commas, e.g. 25ms,100ms,1s,10s; empty: none")
	f.StringVar(&s.skews, "skews", "", "exponents of Zipf's law for the keys of count with which its rate is measured, separated by commas, e.g. 0.5,1,1.5; empty: none")
	f.IntVar(&s.sweepRounds, "sweep-rounds", 1, "rounds of -intervals and -skews")
	f.Int64Var(&s.records, "records", 13_000_000, "input records of a rate round; enough for warm-up and window at the fastest rate")
	f.IntVar(&s.keys, "keys", 100_000, "keys of the count workload")
	f.IntVar(&s.partitions, "partitions", 4, "partitions of every topic")
	f.IntVar(&s.threads, "threads", 2, "stream threads of Kafka Streams, except for q5, which has one, and task slots of Flink")
	f.DurationVar(&s.warmup, "warmup", 10*time.Second, "time after the first output that does not count")
	f.DurationVar(&s.window, "window", 6*time.Second, "time that counts")
	f.DurationVar(&s.latencyWarmup, "latency-warmup", 6*time.Second, "time of a latency round that does not count")
	f.DurationVar(&s.latencyWindow, "latency-window", 30*time.Second, "time of a latency round that counts")
	f.Int64Var(&s.latencyRate, "latency-rate", 0, "records per second of a latency round; 0: half of Kafka Streams' rate in this run, else 10000")
	f.DurationVar(&s.interval, "interval", time.Second, "checkpoint or commit interval of every system")
	f.DurationVar(&s.grace, "grace", 0, "how late records may be in rate rounds, in event time, in systems that drop late ones by the largest timestamp seen; 0: 20s in q5, else 1m")
	f.Int64Var(&s.eventRate, "event-rate", 10_000, "input records per second of event time in rate rounds")
	f.Uint64Var(&s.seed, "seed", 1, "seed of the input records")
	f.IntVar(&s.heapMB, "broker-heap", 1024, "the broker's heap in MB, if one is started")
	f.StringVar(&s.out, "out", "out", "folder for results.json, results.md and results.html")
	f.StringVar(&s.logs, "logs", "", "folder that keeps the contestants' logs; default: a temporary one")
}

// check refuses what cannot be meant, before a broker is started or anything
// built, and reads the lists.
func (s *settings) check() error {
	var systems []string
	for _, sys := range (&runner{}).systems() {
		systems = append(systems, sys.name)
	}
	var keysErr, restoreErr, changeErr error
	s.recoveryKeys, keysErr = numbers("recovery", s.recovery)
	s.restoreKeys, restoreErr = numbers("restore", s.restore)
	var intervalsErr, skewsErr error
	s.sweepIntervals, intervalsErr = list("intervals", s.intervals, "a time of at least 1ms, e.g. 100ms", time.ParseDuration, func(d time.Duration) bool { return d >= time.Millisecond })
	s.sweepSkews, skewsErr = list("skews", s.skews, "a number above 0, e.g. 1.5", func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, func(f float64) bool { return f > 0 && f < 100 })
	if s.checkpointChange <= 0 || s.checkpointChange > 1 {
		changeErr = fmt.Errorf("-checkpoint-change %g: give a share above 0 and up to 1, e.g. 0.01", s.checkpointChange)
	}
	return errors.Join(
		known("systems", s.systems, systems),
		known("workloads", s.workloads, workload.Names()),
		known("latency", s.latencyOf, workload.Names()),
		s.something(),
		keysErr, restoreErr, changeErr, intervalsErr, skewsErr,
		atLeast("restore-rounds", s.restoreRounds, 1), atLeast("checkpoints", s.checkpoints, 0), atLeast("checkpoint-warm", s.checkpointWarm, 0),
		atLeast("checkpoint-keys", s.checkpointKeys, 1), atLeast("checkpoint-interval", s.checkpointInterval, 100*time.Millisecond),
		atLeast("rounds", s.rounds, 1), atLeast("latency-rounds", s.latencyRounds, 1), atLeast("sweep-rounds", s.sweepRounds, 1), atLeast("recovery-rounds", s.recoveryRounds, 1), atLeast("keys", s.keys, 1),
		atLeast("partitions", s.partitions, 1), atLeast("records", s.records, 1), atLeast("event-rate", s.eventRate, 1),
		atLeast("threads", s.threads, 1), atLeast("warmup", s.warmup, 0), atLeast("latency-warmup", s.latencyWarmup, 0), atLeast("grace", s.grace, 0), atLeast("broker-heap", s.heapMB, 128),
		atLeast("latency-rate", s.latencyRate, 0), atLeast("interval", s.interval, time.Millisecond),
		atLeast("window", s.window, time.Second), atLeast("latency-window", s.latencyWindow, time.Second),
	)
}

// something refuses a run in which nothing would be measured, and one with a
// workload that none of its systems runs.
func (s *settings) something() error {
	var chosen []*system
	for _, sys := range (&runner{}).systems() {
		if slices.Contains(split(s.systems), sys.name) {
			chosen = append(chosen, sys)
		}
	}
	if len(chosen) == 0 {
		return errors.New("-systems: give at least one; -list shows them")
	}
	var errs []error
	for _, w := range slices.Concat(split(s.workloads), split(s.latencyOf)) {
		if !slices.ContainsFunc(chosen, func(sys *system) bool { return sys.runs(w) }) {
			errs = append(errs, fmt.Errorf("none of -systems %s runs %s; -list shows who does", s.systems, w))
		}
	}
	if s.workloads == "" && s.latencyOf == "" && s.recovery == "" && s.restore == "" && s.checkpoints == 0 && s.intervals == "" && s.skews == "" {
		errs = append(errs, errors.New("there is nothing to measure: give one of -workloads, -latency, -recovery, -restore, -checkpoints, -intervals and -skews"))
	}
	return errors.Join(errs...)
}

// split reads a list.
func split(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

// known refuses a list that names something that does not exist.
func known(name, list string, names []string) error {
	all := split(list)
	for i, s := range all {
		if slices.Contains(all[:i], s) {
			return fmt.Errorf("-%s: %q is there twice", name, s)
		}
		if !slices.Contains(names, s) {
			return fmt.Errorf("-%s: there is no %q: choose among %s, separated by commas", name, s, strings.Join(names, ", "))
		}
	}
	return nil
}

// numbers reads a list of numbers of keys.
func numbers(name, text string) ([]int64, error) {
	return list(name, text, "a number of keys, e.g. 1000000",
		func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }, func(n int64) bool { return n >= 1 })
}

// list reads a list whose entries are what want says.
func list[T any](name, text, want string, parse func(string) (T, error), valid func(T) bool) (out []T, err error) {
	for _, s := range split(text) {
		v, err := parse(s)
		if err != nil || !valid(v) {
			return nil, fmt.Errorf("-%s: %q is not %s: separate several by commas, and give -%s= for none", name, s, want, name)
		}
		out = append(out, v)
	}
	return out, nil
}

func atLeast[T int | int64 | time.Duration](name string, got, least T) error {
	if got < least {
		return fmt.Errorf("-%s %v: give at least %v", name, got, least)
	}
	return nil
}
