package harness

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/tasks"
	"github.com/tidegate/tidegate/topology"
)

// ApplicationID is the application id of every driver.
const ApplicationID = "app"

// batchBytes is where a batch of output is full.
const batchBytes = 256 << 10

// Failure is a failed record.
type Failure = operators.RecordError

// Record is a record of a topic.
type Record struct {
	Topic      string
	Partition  int32
	Key, Value []byte // nil is null
	Headers    record.Headers
	Timestamp  int64
}

// Driver runs a topology.
type Driver struct {
	res    *topology.Resolved
	given  map[string]int32
	dir    string
	worker *tasks.Manual

	parts map[ids.TopicPartition]*partition
	order []*task // by id
	tasks map[ids.TaskID]*task
	arena arena
	batch *kafka.Builders
	now   time.Time

	// globals are the stores of global tables.
	globals map[string]operators.GlobalStore

	out     map[string][]Record
	outMem  arena
	tapped  map[string]bool
	mute    bool
	failure error
	closing []error

	log      int64 // the next offset of the control log that is not there
	inc      ids.Incarnation
	lineages barrier.Lineages
	snaps    map[ids.TaskID]*tasks.Snapshot

	// Turn chooses which of the tasks that have something to do has its turn, by
	// its index; −1 leaves all of it to the next Run. In the order of H1 unless
	// set.
	Turn func(due []ids.TaskID) int
	// Skip decides about failed records; nil lets every failure end Run.
	Skip func(*operators.RecordError) bool
	// Skipped are the errors for which Skip was true.
	Skipped []*operators.RecordError
	// MaxSeen makes the highest timestamp seen the time of a repartition
	// partition; set before Start.
	MaxSeen bool
	// CacheBytes is the cache budget of a task, 1 MiB unless set before Start.
	CacheBytes int64
	// Open opens the state of a task, in memory unless set before Start.
	Open    state.OpenFunc
	Metrics operators.Metrics
}

// task is a task with the partitions that it reads.
type task struct {
	id      ids.TaskID
	dir     string // of its engine
	engine  state.Engine
	run     *tasks.Task
	readers []*reader
	dirty   bool // has something to do
	left    bool // has something that it may not take yet
}

// New resolves a topology. partitions are those of the external topics, also
// of those that only records name; sinks that are not named have as many as the
// largest. dir holds the state.
func New(top *topology.Topology, partitions map[string]int32, dir string) (*Driver, error) {
	all := map[string]int32{}
	most := int32(1)
	for topic, n := range partitions {
		all[topic] = n
		most = max(most, n)
	}
	for _, topic := range top.Sinks() {
		if all[topic] == 0 {
			all[topic] = most
		}
	}
	res, err := top.Resolve(ApplicationID, all)
	if err != nil {
		return nil, err
	}
	return &Driver{
		res: res, given: all, dir: dir, now: time.UnixMilli(0),
		parts: map[ids.TopicPartition]*partition{}, tasks: map[ids.TaskID]*task{},
		batch: kafka.NewBuilders(batchBytes), out: map[string][]Record{}, tapped: map[string]bool{},
		globals: makeGlobals(top), CacheBytes: 1 << 20, log: 1,
		Open: func(dir string) (state.Engine, error) { return memory.Open(dir) },
	}, nil
}

// Resolved is the topology that runs.
func (d *Driver) Resolved() *topology.Resolved { return d.res }

// Pipe writes a record to an input topic, at the partition of its key's hash,
// and processes it.
func (d *Driver) Pipe(r Record) error {
	if r.Key != nil {
		r.Partition = ids.Partition(r.Key, d.res.Partitions(r.Topic))
	}
	return d.PipeTo(r)
}

// PipeTo is Pipe with the record's own partition number.
func (d *Driver) PipeTo(r Record) error {
	if err := d.Queue(r); err != nil {
		return err
	}
	return d.Run()
}

// Queue writes a record to an input topic; Run processes it. Tasks choose among
// what is queued as they do among what they fetched.
func (d *Driver) Queue(r Record) error {
	if d.worker == nil {
		if err := d.Start(); err != nil {
			return err
		}
	}
	tp := ids.TopicPartition{Topic: r.Topic, Partition: r.Partition}
	p := d.parts[tp]
	raw := record.Raw{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
	global := d.global(r.Topic)
	if global {
		copied := raw // keeps raw itself off the heap
		if err := d.takeGlobal(tp, &copied); err != nil {
			return err
		}
	}
	switch _, read := d.res.Reader(r.Topic); {
	case !read && global:
		return nil
	case !read:
		return fmt.Errorf("nothing reads topic %q", r.Topic)
	case p == nil:
		return fmt.Errorf("topic %q has no partition %d", r.Topic, r.Partition)
	}
	p.begin()
	p.add(&raw)
	return nil
}

// Run processes what is queued to its last consequence. After an error nothing
// goes on.
func (d *Driver) Run() error {
	if d.Turn != nil {
		if all, err := d.turns(); err != nil || !all {
			return err
		}
	}
	for again := true; again; {
		again = false
		for _, t := range d.order {
			for t.dirty {
				again = true
				t.turn(d)
				if d.failure != nil {
					return d.failure
				}
			}
		}
	}
	for _, t := range d.order {
		if t.left {
			return nil
		}
	}
	for _, p := range d.parts {
		p.forget()
	}
	d.arena.overwrite()
	return nil
}

// turns gives tasks their turns in the order that Turn wants, and reports whether
// nothing is left to do.
func (d *Driver) turns() (all bool, err error) {
	for {
		var due []ids.TaskID
		for _, t := range d.order {
			if t.dirty {
				due = append(due, t.id)
			}
		}
		if len(due) == 0 {
			return true, nil
		}
		i := d.Turn(due)
		if i < 0 {
			return false, nil
		}
		d.tasks[due[i]].turn(d)
		if d.failure != nil {
			return false, d.failure
		}
	}
}

// turn gives a task what is new in its partitions and lets it take that.
func (t *task) turn(d *Driver) {
	t.dirty = false
	for _, r := range t.readers {
		r.deliver(d.now)
	}
	t.left = d.worker.Step(t.run)
}

// Take returns and forgets what was written to a topic: one that is not a
// repartition topic, or one that Tap was called for.
func (d *Driver) Take(topic string) []Record {
	out := d.out[topic]
	delete(d.out, topic)
	return out
}

// Tap keeps from now on what is written to a repartition topic.
func (d *Driver) Tap(topic string) { d.tapped[topic] = true }

// Mute drops output from now on, for a benchmark.
func (d *Driver) Mute() { d.mute = true }

// StreamTime is the largest stream time of a subtopology's tasks.
func (d *Driver) StreamTime(sub int32) int64 {
	most := int64(-1)
	for _, t := range d.order {
		if t.id.Sub == sub {
			most = max(most, d.worker.StreamTime(t.run))
		}
	}
	return most
}

// Engine is the state of a task; nil for one without stores.
func (d *Driver) Engine(id ids.TaskID) state.Engine { return d.tasks[id].engine }

// Flush writes the caches of all tasks.
func (d *Driver) Flush() error {
	for _, t := range d.order {
		if err := d.worker.Flush(t.run); err != nil {
			return err
		}
	}
	return nil
}

// Close closes graphs and engines.
func (d *Driver) Close() error {
	if d.worker == nil {
		return nil
	}
	d.worker.Close()
	errs := d.closing
	d.worker, d.order, d.closing = nil, nil, nil
	clear(d.tasks)
	return errors.Join(errs...)
}
