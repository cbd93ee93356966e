// Package optest runs a whole topology in process, without a broker: every
// task of every subtopology, over state in memory. Repartition topics are
// queues. It is for tests of operators and of the DSL; package tidegatetest is
// its face for users.
//
// A record is processed to its last consequence before Pipe returns: what was
// written to topics that the topology itself reads is read, and stream times are
// announced downstream, as tasks do behind their data (clock.go).
package optest

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/topology"
)

// ApplicationID is the application id of every driver.
const ApplicationID = "app"

// Failure is a failed record.
type Failure = operators.RecordError

// Record is a record of a topic.
type Record struct {
	Topic      string
	Partition  int32
	Key, Value []byte // nil is null
	Headers    record.Headers
	Timestamp  int64

	from ids.TaskID // that wrote it to a repartition topic
}

// Driver runs a topology.
type Driver struct {
	res   *topology.Resolved
	given map[string]int32
	dir   string
	tasks map[ids.TaskID]*task
	queue []Record
	out   map[string][]Record
	ends  map[ids.TopicPartition]int64
	now   int64 // the wall clock
	lives int   // how often state was opened

	// Skip decides about failed records; nil lets every failure end Pipe.
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

type task struct {
	d      *Driver
	id     ids.TaskID
	dir    string // of the engine
	engine state.Engine
	graph  *operators.Graph
	ctx    operators.Context

	inputs []barrier.TimeInput
	times  *barrier.Times
	told   announced
}

// New resolves a topology. partitions are those of the external topics, also
// of those that only records name; sinks that are not named have as many as the largest. dir holds the state.
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
		res: res, given: all, dir: dir, tasks: map[ids.TaskID]*task{}, out: map[string][]Record{},
		ends: map[ids.TopicPartition]int64{}, CacheBytes: 1 << 20,
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
	if len(d.tasks) == 0 {
		if err := d.Start(); err != nil {
			return err
		}
	}
	d.queue = append(d.queue, r)
	return d.drain()
}

// drain processes what is queued and what follows from it. An error drops the
// rest.
func (d *Driver) drain() error {
	for {
		for len(d.queue) > 0 {
			r := d.queue[0]
			d.queue = d.queue[1:]
			if err := d.take(r); err != nil {
				d.queue = nil
				return err
			}
		}
		more, err := d.announce()
		if err != nil {
			d.queue = nil
			return err
		}
		if !more {
			return nil
		}
	}
}

func (d *Driver) take(r Record) error {
	sub, ok := d.res.Reader(r.Topic)
	if !ok {
		return fmt.Errorf("nothing reads topic %q", r.Topic)
	}
	t := d.tasks[ids.TaskID{Sub: sub, Partition: r.Partition}]
	if t == nil {
		return fmt.Errorf("topic %q has no partition %d", r.Topic, r.Partition)
	}
	return t.take(r)
}

// Take returns and forgets what was written to an external topic.
func (d *Driver) Take(topic string) []Record {
	out := d.out[topic]
	delete(d.out, topic)
	return out
}

// StreamTime is the largest stream time of a subtopology's tasks.
func (d *Driver) StreamTime(sub int32) int64 {
	most := int64(math.MinInt64)
	for id, t := range d.tasks {
		if id.Sub == sub {
			most = max(most, t.ctx.StreamTime)
		}
	}
	return most
}

// Engine is the state of a task.
func (d *Driver) Engine(id ids.TaskID) state.Engine { return d.tasks[id].engine }

// Flush writes the caches of all tasks.
func (d *Driver) Flush() error {
	for _, id := range d.res.Tasks() {
		if t := d.tasks[id]; t != nil {
			if err := t.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close closes graphs and engines.
func (d *Driver) Close() error {
	var errs []error
	for _, id := range d.res.Tasks() {
		if t := d.tasks[id]; t != nil {
			errs = append(errs, t.close())
		}
	}
	clear(d.tasks)
	return errors.Join(errs...)
}

// take processes one record.
func (t *task) take(r Record) error {
	src, ok := t.graph.Source(r.Topic)
	if !ok {
		return fmt.Errorf("task %s does not read topic %q", t.id, r.Topic)
	}
	tp := ids.TopicPartition{Topic: r.Topic, Partition: r.Partition}
	input := t.input(tp)
	if input < 0 {
		return fmt.Errorf("topic %q has no partition %d", r.Topic, r.Partition)
	}
	key, value := bytes.Clone(r.Key), bytes.Clone(r.Value)
	// A task's fetch buffer is used again: whoever kept a part of it shows.
	defer func() {
		for _, b := range [][]byte{key, value} {
			for i := range b {
				b[i] = '!'
			}
		}
	}()
	raw := record.Raw{Key: key, Value: value, Headers: r.Headers, Timestamp: r.Timestamp, Offset: t.d.ends[tp]}
	t.d.ends[tp]++
	c := &t.ctx
	c.Topic, c.Partition = r.Topic, r.Partition
	if t.inputs[input].Source {
		if kept, err := t.stamp(input, &raw); !kept {
			return err
		}
	}
	c.StreamTime = streamTime(t.times.Record(input, r.from, raw.Timestamp))
	t.times.CaughtUp(input, true, t.d.now)
	return t.guard(func() error {
		if err := src(c, &raw); err != nil {
			return err
		}
		return t.graph.Punctuate(c, c.StreamTime)
	})
}

// guard catches the panic of user code, as a task does.
func (t *task) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = env{t}.Fail(t.graph.RecoverError(p))
		}
	}()
	return f()
}
