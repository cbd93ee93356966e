// Package moves runs several instances of one application under load and lets
// them come and go: what is counted is what happened to the records, by
// operators of this package and by a consumer of the output, never by a metric
// of the library.
//
// Topology: in → (counted) → other key → repartition topic → (counted) → running
// count per key → counts; and what the second step reads goes to out, one to
// one. So a record that is processed twice, lost or doubled shows, in two
// subtopologies and in their state.
//
// The tests here use the in-process broker; integration/elastic the same fleet
// with a real one.
package moves

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/internal/testkit"
	"github.com/tidegate/tidegate/serde"
)

// Keys is the number of keys.
const Keys = 64

// Options say how a fleet runs.
type Options struct {
	Brokers    []string
	Dir        string // state folders and checkpoint store
	App        string // application id; topics are named after it
	Partitions int32
	Rate       int           // records per second, all partitions together
	Interval   time.Duration // of checkpoints
	Extra      []tidegate.Option
	Logger     *slog.Logger
}

// Fleet is one application's instances, its input and what came of it.
type Fleet struct {
	opts   Options
	client *testkit.Client
	reader *testkit.Reader

	mu        sync.Mutex
	processed map[place]int // by the counting operators
	again     int
	out       map[int64]int // sequence number → times in the committed output
	counts    map[string]int64
	last      map[int32]time.Time // per partition of out
	gaps      map[int32]time.Duration
	measuring bool

	sent     map[string]int64 // per key
	seq      int64
	stopLoad context.CancelFunc
	loadDone chan error

	instances map[string]*instance
}

// place names a record.
type place struct {
	topic     string
	partition int32
	offset    int64
}

type instance struct {
	app  *tidegate.App
	stop context.CancelFunc
	done chan error
}

// New makes the topics and begins to produce and to read.
func New(ctx context.Context, o Options) (*Fleet, error) {
	client, err := testkit.Dial(o.Brokers...)
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		opts: o, client: client, processed: map[place]int{}, out: map[int64]int{}, counts: map[string]int64{},
		last: map[int32]time.Time{}, gaps: map[int32]time.Duration{}, sent: map[string]int64{}, instances: map[string]*instance{},
	}
	if err := client.CreateTopics(ctx, o.Partitions, f.topic("in"), f.topic("out"), f.topic("counts")); err != nil {
		return nil, err
	}
	if f.reader, err = client.Follow(f.topic("out"), o.Partitions, true, f.read); err != nil {
		return nil, err
	}
	load, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stopLoad, f.loadDone = stop, make(chan error, 1)
	go func() { f.loadDone <- f.load(load) }()
	return f, nil
}

func (f *Fleet) topic(name string) string { return f.opts.App + "-" + name }

// load produces at the rate until ctx ends, the same number of records to every
// partition.
func (f *Fleet) load(ctx context.Context) error {
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	begun, made := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		due := int(time.Since(begun).Seconds() * float64(f.opts.Rate))
		var list []testkit.Message
		for ; made < due; made++ {
			key := strconv.Itoa(made % Keys)
			f.sent[key]++
			list = append(list, testkit.Message{
				Partition: int32(made) % f.opts.Partitions, Key: []byte(key),
				Value: binary.BigEndian.AppendUint64(nil, uint64(f.seq)), Timestamp: time.Now().UnixMilli(),
			})
			f.seq++
		}
		if len(list) == 0 {
			continue
		}
		if err := f.client.Produce(context.WithoutCancel(ctx), f.topic("in"), list); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
}

// read takes a committed output record.
func (f *Fleet) read(m testkit.Message) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out[int64(binary.BigEndian.Uint64(m.Value))]++
	if last, ok := f.last[m.Partition]; ok && f.measuring {
		f.gaps[m.Partition] = max(f.gaps[m.Partition], now.Sub(last))
	}
	f.last[m.Partition] = now
}

// count notes that a record is processed.
func (f *Fleet) count(c *tidegate.RecordContext) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := place{c.Topic, c.Partition, c.Offset}
	if f.processed[p]++; f.processed[p] > 1 {
		f.again++
	}
}

// Start runs an instance and waits until it has been running.
func (f *Fleet) Start(ctx context.Context, name string) error {
	b := tidegate.NewBuilder()
	seen := func(c *tidegate.RecordContext, _ string, _ []byte) error { f.count(c); return nil }
	again := b.Stream(f.topic("in"), serde.String(), serde.Bytes()).
		PeekCtx(seen).
		SelectKey(func(k string, _ []byte) string { return "k" + k }, serde.String()).
		Repartition("by-key").
		PeekCtx(seen)
	again.GroupByKey("g").Count("n").ToStream().
		Peek(func(k string, n int64) { f.counted(k, n) }).
		To(f.topic("counts"))
	again.To(f.topic("out"))
	topology, err := b.Build()
	if err != nil {
		return err
	}
	running := make(chan struct{})
	var once sync.Once
	opts := append([]tidegate.Option{
		tidegate.WithApplicationID(f.opts.App), tidegate.WithBrokers(f.opts.Brokers...),
		tidegate.WithCheckpointDir(filepath.Join(f.opts.Dir, "store")), tidegate.WithCheckpointInterval(f.opts.Interval),
		tidegate.WithStateDir(filepath.Join(f.opts.Dir, name)), tidegate.WithInstanceName(name),
		tidegate.WithLogger(f.opts.Logger.With("fleet", name)), tidegate.WithWorkers(1),
		tidegate.WithStateListener(func(_, to tidegate.State) {
			if to == tidegate.Running {
				once.Do(func() { close(running) })
			}
		}),
	}, f.opts.Extra...)
	app, err := tidegate.New(topology, opts...)
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	i := &instance{app: app, stop: stop, done: make(chan error, 1)}
	f.instances[name] = i
	go func() { i.done <- app.Run(run) }()
	select {
	case <-running:
		return nil
	case err := <-i.done:
		i.done <- err
		return fmt.Errorf("instance %s ended: %w", name, err)
	case <-ctx.Done():
		return fmt.Errorf("instance %s does not run: %w", name, ctx.Err())
	}
}

// counted remembers the highest running count of a key, as it is computed: a
// count above the number of records is a record that was applied twice.
func (f *Fleet) counted(key string, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[key] = max(f.counts[key], n)
}

// Stop stops an instance cleanly, as SIGTERM does, and waits for its end.
func (f *Fleet) Stop(ctx context.Context, name string) error {
	i := f.instances[name]
	delete(f.instances, name)
	i.stop()
	select {
	case err := <-i.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("instance %s does not stop: %w", name, ctx.Err())
	}
}

// AwaitTasks waits until every instance that runs has between low and high
// tasks.
func (f *Fleet) AwaitTasks(ctx context.Context, low, high int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		fits := true
		var have []int
		for _, i := range f.instances {
			h := i.app.Health()
			fits = fits && h.State == tidegate.Running && len(h.Restoring) == 0 && len(h.Tasks) >= low && len(h.Tasks) <= high
			have = append(have, len(h.Tasks))
		}
		if fits {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("instances have %v tasks, wanted were %d to %d: %w", have, low, high, ctx.Err())
		case <-tick.C:
		}
	}
}

// AwaitOutput waits until every partition has shown more output.
func (f *Fleet) AwaitOutput(ctx context.Context) error {
	now := time.Now()
	return f.reader.Await(ctx, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for p := range f.opts.Partitions {
			if !f.last[p].After(now) {
				return false
			}
		}
		return true
	})
}

// Measure begins to measure gaps in the output.
func (f *Fleet) Measure() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.measuring = true
	clear(f.gaps)
}

// Report is what came of the records.
type Report struct {
	Records     int64
	Reprocessed int // by any operator, per topic, partition and offset
	Lost        int // input records that are not in the output
	Duplicated  int // … that are there more than once
	WrongCounts int // keys whose running count is not the number of their records
	Gaps        map[int32]time.Duration
}

// MaxGap is the longest gap between two committed records of one partition.
func (r Report) MaxGap() (gap time.Duration) {
	for _, g := range r.Gaps {
		gap = max(gap, g)
	}
	return gap
}

// String prints it in one line.
func (r Report) String() string {
	return fmt.Sprintf("records %d, reprocessed %d, lost %d, duplicated %d, wrong counts %d, longest output gap %v",
		r.Records, r.Reprocessed, r.Lost, r.Duplicated, r.WrongCounts, r.MaxGap().Round(time.Millisecond))
}

// Finish ends the load, waits for all output, and compares.
func (f *Fleet) Finish(ctx context.Context) (Report, error) {
	f.mu.Lock()
	f.measuring = false
	f.mu.Unlock()
	f.stopLoad()
	if err := <-f.loadDone; err != nil {
		return Report{}, err
	}
	r := Report{Records: f.seq, Gaps: map[int32]time.Duration{}}
	err := f.reader.Await(ctx, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return int64(len(f.out)) >= f.seq
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Lost = int(f.seq) - len(f.out)
	if r.Lost > 0 && err != nil {
		return r, fmt.Errorf("%d of %d records are missing: %w", r.Lost, f.seq, err)
	}
	for _, n := range f.out {
		if n > 1 {
			r.Duplicated++
		}
	}
	for key, n := range f.sent {
		if f.counts["k"+key] != n {
			r.WrongCounts++
		}
	}
	r.Reprocessed = f.again
	for p, g := range f.gaps {
		r.Gaps[p] = g
	}
	return r, nil
}

// Close stops what still runs.
func (f *Fleet) Close() {
	f.stopLoad()
	for _, i := range f.instances {
		i.stop()
	}
	for _, i := range f.instances {
		if <-i.done != nil {
			continue // it was told to stop; who cares for the error calls Stop
		}
	}
	f.reader.Close()
	f.client.Close()
}
