package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/compare/check"
	"github.com/tidegate/tidegate/compare/load"
	"github.com/tidegate/tidegate/compare/nexmark"
	"github.com/tidegate/tidegate/compare/report"
	"github.com/tidegate/tidegate/compare/workload"
	"github.com/tidegate/tidegate/integration/measure"
	"github.com/tidegate/tidegate/integration/servers"
)

// runner holds what all steps share.
type runner struct {
	settings
	cluster *cluster
	s3      *servers.S3Server
	buckets map[string]string
	built   map[string]error
	dir     string // state, stores, logs
	run     string // distinguishes this run's topics
	begun   time.Time
	step    int
	steps   int
}

func newRunner(ctx context.Context, s settings) (*runner, error) {
	r := &runner{
		settings: s, begun: time.Now(), run: strconv.FormatInt(time.Now().UnixMilli(), 36),
		buckets: map[string]string{}, built: map[string]error{},
	}
	var err error
	if r.dir, err = os.MkdirTemp("", "tidegate-compare-"); err != nil {
		return nil, err
	}
	if s.logs != "" {
		if err := os.MkdirAll(s.logs, 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil { // rather now than after the measurements
		return nil, errors.Join(fmt.Errorf("-out: %w", err), os.RemoveAll(r.dir))
	}
	r.note("starting Kafka, or looking for it")
	if r.cluster, err = newCluster(ctx, s.heapMB, int32(s.partitions)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.dir))
	}
	return r, nil
}

// close removes what the run made: topics, folders; servers end with the
// program.
func (r *runner) close() {
	r.cluster.delete("cmp-" + r.run)
	r.cluster.client.Close()
	if err := os.RemoveAll(r.dir); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
	}
}

func (r *runner) startS3(ctx context.Context) (err error) {
	if r.s3 == nil {
		r.s3, err = servers.S3(ctx)
	}
	return err
}

// note prints a line with the time since the start and the step.
func (r *runner) note(format string, args ...any) {
	fmt.Printf("[%s, step %d of %d] %s\n", time.Since(r.begun).Round(time.Second), r.step, r.steps, fmt.Sprintf(format, args...))
}

// input is the input of a workload: topics on the broker, and how its output
// is judged.
type input struct {
	topics  workload.Topics
	sources []load.Source
	records int64
	check   func(*check.Latency) check.Check
}

// newInput describes the input of a workload with about so many records, the
// first of them due at start, perSecond of event time; grace is how late a
// record may be.
func (r *runner) newInput(name, kind string, v variant, start time.Time, records, perSecond int64, grace time.Duration) (*input, error) {
	prefix := "cmp-" + r.run + "-" + name + "-" + kind + v.tag() + "-"
	in := &input{records: records}
	at := start.UnixMilli()
	// The generator counts all events, of which only some are read.
	of := func(share int64) nexmark.Generator {
		return nexmark.Generator{Start: at, PerSecond: perSecond * nexmark.Cycle / share, Seed: r.seed}
	}
	switch name {
	case "count", "bigstate":
		in.topics.Input = prefix + "input"
		keys := r.keys
		in.sources = []load.Source{load.Numbers(in.topics.Input, at, perSecond, records, r.seed)}
		if v.skew > 0 {
			in.sources[0] = load.Skewed(in.topics.Input, at, perSecond, records, r.seed, keys, v.skew)
		}
		in.check = func(l *check.Latency) check.Check { return check.NewCounts(keys, records, l) }
	case "passthrough":
		g := of(46)
		in.topics.Bids = prefix + "bids"
		in.sources = []load.Source{load.Bids(in.topics.Bids, g, records)}
		in.check = func(l *check.Latency) check.Check { return check.NewPrices(g, records, r.partitions, l) }
	case "q7", "q11":
		return in, r.closing(in, name, prefix, of(46), grace)
	case "q3":
		g := of(4)
		persons := records / 4
		in.records = persons * 4
		in.topics.Persons, in.topics.Auctions = prefix+"persons", prefix+"auctions"
		in.sources = []load.Source{load.Persons(in.topics.Persons, g, persons), load.Auctions(in.topics.Auctions, g, 3*persons)}
		in.check = func(l *check.Latency) check.Check { return check.NewLocals(g, 3*persons, r.partitions, l) }
	case "q5":
		g := of(46)
		in.topics.Bids = prefix + "bids"
		in.sources = []load.Source{load.Bids(in.topics.Bids, g, records)}
		slack := 2*grace.Milliseconds() + check.WindowMs + 3*check.AdvanceMs
		if span := g.Time(nexmark.BidEvent(records-1)) - at; span < 2*slack {
			return nil, fmt.Errorf("%d records of q5 are %d s of event time, too little to close windows: use more -records or a lower -event-rate", records, span/1000)
		}
		in.check = func(l *check.Latency) check.Check { return check.NewHottest(g, records, slack, l) }
	case "q8":
		g := of(4)
		persons := records / 4
		in.records = persons * 4
		in.topics.Persons, in.topics.Auctions = prefix+"persons", prefix+"auctions"
		in.sources = []load.Source{load.Persons(in.topics.Persons, g, persons), load.Auctions(in.topics.Auctions, g, 3*persons)}
		in.check = func(l *check.Latency) check.Check { return check.NewSellers(g, 3*persons, r.partitions, l) }
	default:
		return nil, fmt.Errorf("workload %q has no input here", name)
	}
	return in, nil
}

// closing is the input of q7 and q11, whose rows come when windows or sessions
// close.
func (r *runner) closing(in *input, name, prefix string, g nexmark.Generator, grace time.Duration) error {
	in.topics.Bids = prefix + "bids"
	in.sources = []load.Source{load.Bids(in.topics.Bids, g, in.records)}
	slack := 2*grace.Milliseconds() + 3*check.WindowMs
	if span := g.Time(nexmark.BidEvent(in.records-1)) - g.Start; span < 2*slack {
		return fmt.Errorf("%d records of %s are %d s of event time, too little to close windows: use more -records or a lower -event-rate", in.records, name, span/1000)
	}
	if name == "q7" {
		in.check = func(l *check.Latency) check.Check { return check.NewMaxima(g, in.records, slack, l) }
		return nil
	}
	rows, until := check.SpansOf(g, in.records), g.Time(nexmark.BidEvent(in.records-1))-slack
	if _, err := check.NewSessions(rows, until, nil); err != nil {
		return err
	}
	in.check = func(l *check.Latency) check.Check {
		c, _ := check.NewSessions(rows, until, l) // it was possible above
		return c
	}
	return nil
}

// prepareInput makes the topics, and writes all records if they are not to
// come by the clock.
func (r *runner) prepareInput(ctx context.Context, in *input, preload bool) error {
	for _, s := range in.sources {
		if err := r.cluster.create(ctx, s.Topic); err != nil {
			return err
		}
	}
	if !preload {
		return nil
	}
	begun, told := time.Now(), time.Now()
	err := load.Preload(ctx, r.cluster.client, in.sources, func(n int64) {
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			r.note("writing input: %d of %d records", n, in.records)
		}
	})
	r.note("%d input records written in %s", in.records, time.Since(begun).Round(time.Second/10))
	return err
}

// running is a system at work, with its output read and checked.
type running struct {
	r       *runner
	job     job
	procs   []*servers.Process
	killed  time.Time // when one of them was, in a recovery
	usages  []*measure.Usage
	logs    []string
	out     *measure.Output
	check   check.Check
	stopOut func()
	started int // instances, also those that were halted
}

// start creates the output topic and starts n processes of a system.
func (r *runner) start(ctx context.Context, s *system, j job, n int, c check.Check) (*running, error) {
	if err := r.cluster.create(ctx, j.topics.Output); err != nil {
		return nil, err
	}
	out, err := measure.NewOutput(ctx, r.cluster.client, j.topics.Output, c)
	if err != nil {
		return nil, err
	}
	w := &running{r: r, job: j, out: out, check: c}
	reading, stop := context.WithCancel(ctx)
	read := make(chan struct{})
	go func() { defer close(read); out.Run(reading) }()
	w.stopOut = func() { stop(); <-read }
	for i := range n {
		if err := w.startInstance(ctx, s, i); err != nil {
			return nil, errors.Join(err, w.stop())
		}
	}
	return w, nil
}

func (w *running) startInstance(ctx context.Context, s *system, i int) error {
	j := w.job
	j.instance = i
	c, err := s.command(ctx, j)
	if err != nil {
		return err
	}
	log := filepath.Join(w.r.logDir(), j.name+"-"+strconv.Itoa(i)+".log")
	p, u, err := measure.Start(c.path, c.args, c.env, log)
	if err != nil {
		return err
	}
	w.procs, w.usages, w.logs = append(w.procs, p), append(w.usages, u), append(w.logs, log)
	w.started = max(w.started, i+1)
	return nil
}

// halt ends the processes cleanly; output, topics and folders stay, and
// startInstance may follow.
func (w *running) halt() error {
	var errs []error
	for _, p := range w.procs {
		if p.Alive() {
			errs = append(errs, p.Stop(time.Minute))
		}
	}
	w.procs, w.usages, w.logs = nil, nil, nil
	return errors.Join(errs...)
}

func (r *runner) logDir() string {
	if r.logs != "" {
		return r.logs
	}
	return r.dir
}

// stop ends the processes, the reader, and removes topics and folders.
func (w *running) stop() error {
	var errs []error
	for _, p := range w.procs {
		if p.Alive() {
			errs = append(errs, p.Stop(time.Minute))
		}
	}
	if w.stopOut != nil {
		w.stopOut()
	}
	w.r.cluster.delete(w.job.name)
	for i := range w.started {
		errs = append(errs, os.RemoveAll(filepath.Join(w.r.dir, w.job.name+"-state-"+strconv.Itoa(i))))
	}
	return errors.Join(append(errs, os.RemoveAll(filepath.Join(w.r.dir, w.job.name+"-store")))...)
}

// errEnded is how a process ended that had no error.
var errEnded = errors.New("exit code 0")

// wait returns when until is true, with an error if a process ends or nothing
// comes for a while from now on: the output before may be long ago.
func (w *running) wait(ctx context.Context, patience time.Duration, until func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	begun, told := time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		for i, p := range w.procs {
			select {
			case <-p.Done():
				return fmt.Errorf("process %d ended by itself: %w\n%s", i, cmp.Or(p.Err(), errEnded), measure.Tail(w.logs[i]))
			default:
			}
		}
		total, _, at, err := w.out.Seen()
		switch {
		case err != nil:
			return err
		case until():
			return nil
		case min(time.Since(begun), time.Since(w.out.Begun())-at) > patience:
			return fmt.Errorf("no output for %s after %d records\n%s", patience, total, measure.Tail(w.logs[0]))
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			w.r.note("%s: %d input records accounted for", w.job.name, total)
		}
	}
}

// rate measures one round of a system on an input that is there.
func (r *runner) rate(ctx context.Context, s *system, name string, v variant, in *input, round int) report.Round {
	out := report.Round{Workload: v.of(name), System: s.name, Kind: "rate", Number: round}
	fail := func(err error) report.Round {
		out.Error = err.Error()
		return out
	}
	j := r.newJob(s, name, "r"+strconv.Itoa(round)+v.tag(), in)
	j.interval = v.interval
	c := in.check(nil)
	bytes := r.cluster.newTraffic(ctx, j.name, j.topics.Output)
	w, err := r.start(ctx, s, j, 1, c)
	if err != nil {
		_, _ = bytes.end(ctx, 0) // there is nothing to tell of
		return fail(err)
	}
	err = w.wait(ctx, 90*time.Second, func() bool {
		_, first, last, _ := w.out.Seen()
		return c.Complete() || last > 0 && last-first >= r.warmup+r.window
	})
	cpu, done := w.usages[0].CPU(), c.Progress()
	var sizeErr error
	out.Bytes, sizeErr = bytes.end(ctx, done)
	rate, window := w.out.Rate(r.warmup, r.window)
	if window < r.window/4 { // the input was too short to drop the warm-up
		rate, window = w.out.Rate(0, r.warmup+r.window)
		out.WarmupCounts = true
	}
	out.Faults = c.Faults()
	err = errors.Join(err, sizeErr, w.stop(), out.Faults.Err())
	out.Rate, out.WindowSeconds, out.Records = rate, window.Seconds(), done
	out.RSSMB = w.usages[0].PeakMB()
	out.Checkpoints = checkpointsOf(w.logs[0])
	if done > 0 {
		out.CPUPerMillion = cpu / float64(done) * 1e6
	}
	if err != nil {
		return fail(err)
	}
	return out
}

func (r *runner) newJob(s *system, name, kind string, in *input) job {
	j := job{
		name: fmt.Sprintf("cmp-%s-%s-%s-%s", r.run, name, s.name, kind), workload: name, topics: in.topics,
		interval: r.interval, keys: r.keys, graceMs: r.graceOf(name).Milliseconds(), session: 10 * time.Second,
	}
	j.topics.Output = j.name + "-output"
	return j
}

// graceOf is how late records may be in rate rounds. Rows of q5 come only after twice
// the grace, so it is shorter there; one thread reads evenly enough for it.
func (r *runner) graceOf(workload string) time.Duration {
	switch {
	case r.grace > 0:
		return r.grace
	case workload == "q5":
		return 20 * time.Second
	default:
		return time.Minute
	}
}

// latencyGrace is how late records may be in a latency round.
const latencyGrace = time.Second

// latencyPace is how much faster event time goes than the clock in a latency
// round. Windows close at whole seconds of event time, and checkpoints come at
// whole seconds of the clock: at the same pace every window would wait for its
// checkpoint equally long, and a round would only show how long by chance.
const latencyPace = 1.07

// latency measures a system under a load that comes by the clock.
func (r *runner) latency(ctx context.Context, s *system, name string, v variant, perSecond int64, round int) report.Round {
	out := report.Round{Workload: v.of(name), System: s.name, Kind: "latency", Number: round, Offered: perSecond}
	fail := func(err error) report.Round {
		out.Error = err.Error()
		return out
	}
	// Event time begins with the clock, so the input of each round is its own.
	const settle = 12 * time.Second
	start := time.Now().Add(settle)
	records := int64((r.latencyWarmup + r.latencyWindow).Seconds() * float64(perSecond))
	in, err := r.newInput(name, fmt.Sprintf("%s-l%d", s.name, round), v, start, records, int64(float64(perSecond)/latencyPace), latencyGrace)
	if err != nil {
		return fail(err)
	}
	if err := r.prepareInput(ctx, in, false); err != nil {
		return fail(err)
	}
	dueAt := func(timestamp int64) time.Time {
		passed := time.UnixMilli(timestamp).Sub(time.UnixMilli(start.UnixMilli()))
		return start.Add(time.Duration(float64(passed) / latencyPace))
	}
	hist := check.NewLatency(start.Add(r.latencyWarmup), dueAt)
	c := in.check(hist)
	j := r.newJob(s, name, "l"+strconv.Itoa(round)+v.tag(), in)
	j.interval = v.interval
	j.graceMs = latencyGrace.Milliseconds()
	w, err := r.start(ctx, s, j, 1, c)
	if err != nil {
		return fail(err)
	}
	type offered struct {
		behind time.Duration
		err    error
	}
	loads := make(chan offered, len(in.sources))
	for _, src := range in.sources {
		go func() {
			behind, err := load.OpenLoop(ctx, r.cluster.client, src, dueAt)
			loads <- offered{behind, err}
		}()
	}
	var behind time.Duration
	for range in.sources {
		o := <-loads
		behind, err = max(behind, o.behind), errors.Join(err, o.err)
	}
	end := time.Now().Add(15 * time.Second)
	err = errors.Join(err, w.wait(ctx, time.Minute, func() bool { return c.Complete() || time.Now().After(end) }))
	if err == nil && !c.Complete() {
		err = fmt.Errorf("at %d records/s the output was not complete %s after the last input: the rate is more than this system sustains here", perSecond, 15*time.Second)
	}
	out.Faults = c.Faults()
	err = errors.Join(err, w.stop(), out.Faults.Err())
	out.Records, out.LoadBehindMs = c.Progress(), float64(behind.Microseconds())/1000
	out.P50, out.P99, out.P999, out.Samples = hist.Quantile(50), hist.Quantile(99), hist.Quantile(99.9), hist.Count()
	out.RSSMB = w.usages[0].PeakMB()
	if behind > time.Second {
		err = errors.Join(err, fmt.Errorf("the broker or the machine was too slow for the offered rate: the load was up to %s behind the clock", behind.Round(time.Millisecond)))
	}
	if err != nil {
		return fail(err)
	}
	return out
}
