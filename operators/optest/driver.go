// Package optest runs a whole topology in process, without a broker: every
// task of every subtopology, over state in memory. Repartition topics are
// queues. It is for tests of operators and of the DSL.
//
// A record is processed to its last consequence before Pipe returns. A task's
// stream time is the largest timestamp it was given.
package optest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"

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

	// Skip decides about failed records; nil lets every failure end Pipe.
	Skip func(*operators.RecordError) bool
	// Skipped are the errors for which Skip was true.
	Skipped []*operators.RecordError
	// CacheBytes is the cache budget of a task, 1 MiB unless set before Start.
	CacheBytes int64
	Metrics    operators.Metrics
}

type task struct {
	d      *Driver
	id     ids.TaskID
	engine state.Engine
	graph  *operators.Graph
	ctx    operators.Context
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
	}, nil
}

// Resolved is the topology that runs.
func (d *Driver) Resolved() *topology.Resolved { return d.res }

// Start makes the tasks. Pipe calls it when needed.
func (d *Driver) Start() error {
	for _, id := range d.res.Tasks() {
		dir := fmt.Sprintf("%s/%s", d.dir, id)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		engine, err := memory.Open(dir)
		if err != nil {
			return err
		}
		t := &task{d: d, id: id, engine: engine}
		t.ctx.Ctx, t.ctx.StreamTime = context.Background(), -1
		if t.graph, err = operators.Instantiate(d.res.Subtopologies()[id.Sub], env{t}); err != nil {
			return err
		}
		d.tasks[id] = t
	}
	return nil
}

// Restart makes every graph anew over its flushed state, as a restore does.
func (d *Driver) Restart() error {
	for _, id := range d.res.Tasks() {
		t := d.tasks[id]
		if err := t.graph.Flush(&t.ctx); err != nil {
			return err
		}
		timers := t.graph.SnapshotTimers()
		if err := t.graph.Close(); err != nil {
			return err
		}
		var err error
		if t.graph, err = operators.Instantiate(d.res.Subtopologies()[id.Sub], env{t}); err != nil {
			return err
		}
		if err := t.graph.RestoreTimers(timers); err != nil {
			return err
		}
		streamTime := t.ctx.StreamTime
		t.ctx = operators.Context{StreamTime: streamTime}
		t.ctx.Ctx = context.Background()
	}
	return nil
}

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

func (d *Driver) drain() error {
	for len(d.queue) > 0 {
		r := d.queue[0]
		d.queue = d.queue[1:]
		sub, ok := d.res.Reader(r.Topic)
		if !ok {
			return fmt.Errorf("nothing reads topic %q", r.Topic)
		}
		if err := d.tasks[ids.TaskID{Sub: sub, Partition: r.Partition}].take(r); err != nil {
			return err
		}
	}
	return nil
}

// Wall fires the wall-clock timers of all tasks.
func (d *Driver) Wall(now int64) error {
	for _, id := range d.res.Tasks() {
		t := d.tasks[id]
		if err := t.guard(func() error { return t.graph.PunctuateWallClock(&t.ctx, now) }); err != nil {
			return err
		}
	}
	return d.drain()
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
		if err := d.tasks[id].graph.Flush(&d.tasks[id].ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close closes graphs and engines.
func (d *Driver) Close() error {
	var errs []error
	for _, id := range d.res.Tasks() {
		if t := d.tasks[id]; t != nil {
			errs = append(errs, t.graph.Close(), t.engine.Close())
		}
	}
	return errors.Join(errs...)
}

// take processes one record.
func (t *task) take(r Record) error {
	src, ok := t.graph.Source(r.Topic)
	if !ok {
		return fmt.Errorf("task %s does not read topic %q", t.id, r.Topic)
	}
	tp := ids.TopicPartition{Topic: r.Topic, Partition: r.Partition}
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
	c.StreamTime = max(c.StreamTime, r.Timestamp)
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

// env is a task's operators.Env.
type env struct{ t *task }

func (e env) Task() ids.TaskID                    { return e.t.id }
func (e env) Store(name string) (state.KV, error) { return e.t.engine.Store(name) }
func (e env) CacheBytes() int64                   { return e.t.d.CacheBytes }
func (e env) MaySkip() bool                       { return e.t.d.Skip != nil }
func (e env) Metrics() *operators.Metrics         { return &e.t.d.Metrics }

func (e env) Fail(err *operators.RecordError) error {
	d := e.t.d
	if d.Skip == nil || err.Fatal || !d.Skip(err) {
		return err
	}
	d.Skipped = append(d.Skipped, err)
	return nil
}

func (e env) Output(topic string, internal bool) (operators.Output, error) {
	n := max(e.t.d.res.Partitions(topic), e.t.d.given[topic])
	if n == 0 {
		return nil, fmt.Errorf("topic %q: %w: unknown topic", topic, operators.ErrRefused)
	}
	return output{e.t.d, topic, n, internal}, nil
}

type output struct {
	d        *Driver
	topic    string
	n        int32
	internal bool
}

func (o output) Partitions() int32 { return o.n }

func (o output) Append(p int32, key, value []byte, null record.Null, ts int64, h record.Headers) error {
	r := Record{Topic: o.topic, Partition: p, Timestamp: ts, Headers: append(record.Headers(nil), h...)}
	if !null.Key() {
		r.Key = append([]byte{}, key...)
	}
	if !null.Value() {
		r.Value = append([]byte{}, value...)
	}
	if o.internal {
		o.d.queue = append(o.d.queue, r)
	} else {
		o.d.out[o.topic] = append(o.d.out[o.topic], r)
	}
	return nil
}
