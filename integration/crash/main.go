package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/testkit"
)

type options struct {
	duration  time.Duration
	seed      uint64
	breaking  string
	mode      string
	guarantee string
	standbys  int
	instances int
	rate      int64
	keep      bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		if err := child(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "instance failed:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.DurationVar(&o.duration, "duration", 75*time.Second, "how long the chaos lasts")
	flag.Uint64Var(&o.seed, "seed", 1, "root seed of the chaos")
	flag.StringVar(&o.mode, "mode", barrierMode, "the application's mode, barrier or changelog")
	flag.StringVar(&o.guarantee, "guarantee", exactlyOnce, "exactly-once, or at-least-once: then output may be repeated, and only losses fail the run")
	flag.IntVar(&o.standbys, "standbys", 0, "standbys per task")
	flag.StringVar(&o.breaking, "break", "", "switch a rule off: commit-early, no-lineage or offsets-ahead, in changelog mode offsets-ahead or store-early; the run must then fail")
	flag.IntVar(&o.instances, "instances", 3, "instances of the application")
	flag.Int64Var(&o.rate, "rate", 2500, "input records a second")
	flag.BoolVar(&o.keep, "keep", false, "keep logs and state")
	flag.Parse()
	if o.mode != barrierMode && o.mode != changelogMode {
		fmt.Fprintf(os.Stderr, "crash: -mode %q: want barrier or changelog\n", o.mode)
		os.Exit(2)
	}
	if o.guarantee != exactlyOnce && o.guarantee != atLeastOnce {
		fmt.Fprintf(os.Stderr, "crash: -guarantee %q: want exactly-once or at-least-once\n", o.guarantee)
		os.Exit(2)
	}
	if o.breaking == "store-early" {
		o.instances = 1 // others would restore what this one left, and hide it
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o)
	if cerr := servers.CloseAll(); err == nil {
		err = cerr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

// harness is the run.
type harness struct {
	opts   options
	kafka  *servers.KafkaServer
	s3     *servers.S3Server
	bucket string
	dir    string
	client *testkit.Client
	oracle *oracle
	gen    *generator
	slots  []*instance
	extra  *instance // joins and leaves
	rng    *rand.Rand
	begun  time.Time

	mu     sync.Mutex
	stats  stats
	failed error // an instance ended by itself
}

type stats struct {
	kills       map[string]int // by phase
	kinds       map[string]int // by kind of event
	uncommitted int64
}

// The modes.
const (
	barrierMode   = "barrier"
	changelogMode = "changelog"
)

// The guarantees.
const (
	exactlyOnce = "exactly-once"
	atLeastOnce = "at-least-once"
)

// phases are where instances are killed: of a checkpoint, or of a commit.
func (h *harness) phases() []string {
	if h.opts.mode == changelogMode {
		return []string{"restoring", "passing", "flushing", "offsets", "ending", "applying"}
	}
	if h.opts.guarantee == atLeastOnce { // there is no transaction to commit
		return []string{"aligning", "uploading", "prepared", "decided"}
	}
	return []string{"aligning", "uploading", "prepared", "decided", "committing"}
}

func run(ctx context.Context, o options) (err error) {
	h := &harness{opts: o, oracle: newOracle(o.guarantee == atLeastOnce), rng: rand.New(rand.NewPCG(o.seed, 1)), begun: time.Now()}
	h.stats.kills, h.stats.kinds = map[string]int{}, map[string]int{}
	if h.dir, err = os.MkdirTemp("", "tidegate-crash-"); err != nil {
		return err
	}
	defer func() {
		if err == nil && !o.keep {
			_ = os.RemoveAll(h.dir)
		} else {
			fmt.Println("logs and state:", h.dir)
		}
	}()
	if err := h.open(ctx); err != nil {
		return err
	}
	defer h.killAll()
	genCtx, stopGen := context.WithCancel(ctx)
	genDone := make(chan error, 1)
	go func() { genDone <- h.gen.run(genCtx, o.rate) }()
	closeReaders, err := h.follow()
	if err != nil {
		stopGen()
		return err
	}
	defer closeReaders()
	for _, s := range h.slots {
		if err := s.start(); err != nil {
			stopGen()
			return err
		}
	}
	h.chaos(ctx)
	stopGen()
	if err := <-genDone; err != nil {
		return err
	}
	h.settle(ctx)
	return h.report()
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (h *harness) open(ctx context.Context) (err error) {
	h.kafka, err = servers.Kafka(ctx, servers.KafkaOptions{Own: true, Config: map[string]string{
		"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0",
	}})
	if err != nil {
		return err
	}
	store := "none"
	if h.opts.mode == barrierMode {
		if h.s3, err = servers.S3(ctx); err != nil {
			return err
		}
		if h.bucket, err = h.s3.NewBucket(ctx); err != nil {
			return err
		}
		store = h.s3.Endpoint
	}
	if h.client, err = testkit.Dial(h.kafka.Brokers()...); err != nil {
		return err
	}
	if err := h.client.CreateTopics(ctx, partitions, inputTopic, runningOut, windowsOut); err != nil {
		return err
	}
	h.gen = &generator{client: h.client}
	for n := range h.opts.instances {
		h.slots = append(h.slots, &instance{h: h, name: fmt.Sprintf("i%d", n)})
	}
	h.extra = &instance{h: h, name: "extra", done: closed()}
	fmt.Printf("mode: %s, %s, kafka: %s, s3: %s, instances: %d, rate: %d/s, seed: %d, break: %q\n",
		h.opts.mode, h.opts.guarantee, h.kafka.Source(), store, h.opts.instances, h.opts.rate, h.opts.seed, h.opts.breaking)
	return nil
}

// follow begins to check the output, and to count what a read_uncommitted
// reader sees of it.
func (h *harness) follow() (func(), error) {
	var readers []*testkit.Reader
	add := func(topic string, committed bool, f func(testkit.Message)) error {
		r, err := h.client.Follow(topic, partitions, committed, f)
		if err == nil {
			readers = append(readers, r)
		}
		return err
	}
	uncommitted := func(testkit.Message) {
		h.mu.Lock()
		h.stats.uncommitted++
		h.mu.Unlock()
	}
	err := errors.Join(
		add(runningOut, true, h.oracle.running), add(windowsOut, true, h.oracle.window),
		add(runningOut, false, uncommitted), add(windowsOut, false, uncommitted),
	)
	return func() {
		for _, r := range readers {
			r.Close()
		}
	}, err
}

// ended hears that a process ended, and attributes a kill to its phase.
func (h *harness) ended(i *instance, cmd *exec.Cmd, err error) {
	i.mu.Lock()
	phase, armed := i.phase, i.armed
	i.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		if armed != "" {
			phase = armed
		}
		if phase == "" {
			phase = "starting"
		}
		h.stats.kills[phase]++
	case err != nil && h.failed == nil:
		h.failed = fmt.Errorf("instance %s ended by itself: %w; see %s", i.name, err, filepath.Join(h.dir, i.name+".log"))
	}
}

func (h *harness) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

func (h *harness) killAll() {
	for _, s := range append(h.slots, h.extra) {
		if s.alive() {
			s.signal(syscall.SIGKILL)
			<-s.wait()
		}
	}
}

// settle mends everything and waits until the whole output appeared, or nothing
// moves for a while.
func (h *harness) settle(ctx context.Context) {
	if h.s3 != nil {
		if err := h.s3.Start(ctx); err != nil {
			fmt.Println("start s3:", err)
		}
	}
	for _, s := range h.slots {
		s.signal(syscall.SIGCONT)
		if !s.alive() {
			if err := s.start(); err != nil {
				fmt.Println(err)
			}
		}
	}
	want := 2 * h.gen.written.Load()
	last, moved := int64(-1), time.Now()
	for ctx.Err() == nil && time.Since(moved) < 60*time.Second && h.failure() == nil {
		have := h.oracle.count()
		if have != last {
			last, moved = have, time.Now()
		}
		// Where records come twice, counting them says nothing.
		if have >= want && (h.opts.guarantee == exactlyOnce || h.oracle.remaining(h.gen.written.Load()) == 0) {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (h *harness) report() error {
	written := h.gen.written.Load()
	h.oracle.missing(written)
	completed, aborted := h.checkpoints()
	o := h.oracle
	h.mu.Lock()
	defer h.mu.Unlock()
	kills := 0
	var byPhase []string
	for _, p := range append(append(h.phases(), "manifest", "stored", "marked", "starting"), movePhases...) {
		kills += h.stats.kills[p]
		byPhase = append(byPhase, fmt.Sprintf("%s %d", p, h.stats.kills[p]))
	}
	aborts := h.stats.uncommitted - o.checked
	fmt.Printf("elapsed %s, input %d records\n", time.Since(h.begun).Round(time.Second), written)
	fmt.Printf("kills %d: %s\n", kills, strings.Join(byPhase, ", "))
	fmt.Printf("events: %v\n", h.stats.kinds)
	if h.opts.mode == barrierMode {
		fmt.Printf("checkpoints completed %d aborted %d, instances that handed tasks over %d\n", completed, aborted, h.moves())
	}
	fmt.Printf("records checked %d, aborted records seen by a read_uncommitted reader %d, wrong values %d\n", o.checked, aborts, o.wrong)
	if o.first != "" {
		fmt.Println("first offence:", o.first)
	}
	fmt.Printf("checked %d lost %d duplicated %d\n", o.checked, o.lost, o.duplicated)
	switch {
	case o.lost+o.wrong > 0 || o.duplicated > 0 && h.opts.guarantee == exactlyOnce:
		return fmt.Errorf("output is not %s", strings.ReplaceAll(h.opts.guarantee, "-", " "))
	case h.failed != nil:
		return h.failed
	}
	return h.enough(aborts)
}

// longRun is how long the chaos must last for every phase to be hit.
const longRun = 10 * time.Minute

// enough reports what a long run did not try: then its zeros prove little.
func (h *harness) enough(aborts int64) error {
	if h.opts.duration < longRun {
		return nil
	}
	for _, p := range h.phases() {
		if h.stats.kills[p] == 0 {
			return fmt.Errorf("no instance was killed while %s: run longer, or with another seed", p)
		}
	}
	switch {
	case h.opts.guarantee == atLeastOnce && h.oracle.duplicated == 0:
		return errors.New("nothing was repeated: no failure hit records in flight")
	case h.opts.guarantee == exactlyOnce && aborts <= 0:
		return errors.New("no aborted record was seen by a read_uncommitted reader: nothing was rolled back, or the reader did not see it")
	}
	return nil
}

// checkpoints counts, over the logs of all instances, what was completed and
// aborted.
func (h *harness) checkpoints() (completed, aborted int) {
	seen := map[string]bool{}
	for _, s := range h.slots {
		b, err := os.ReadFile(filepath.Join(h.dir, s.name+".log"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			_, after, ok := strings.Cut(line, " checkpoint=")
			if !ok {
				continue
			}
			n, _, _ := strings.Cut(strings.TrimSpace(after), " ")
			switch {
			case strings.Contains(line, "checkpoint completed") && !seen["c"+n]:
				seen["c"+n] = true
				completed++
			case strings.Contains(line, "checkpoint aborted") && !seen["a"+n]:
				seen["a"+n] = true
				aborted++
			}
		}
	}
	return completed, aborted
}
