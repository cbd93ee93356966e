package optest

import (
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

// announced is what a task last told the readers of its repartition topics.
type announced struct {
	time int64
	idle bool
}

// streamTime is stream time as operators see it.
func streamTime(ts int64) int64 {
	if ts == barrier.NoTime {
		return -1
	}
	return ts
}

// inputs are the inputs of a task's clock, as the runtime makes them.
func (d *Driver) inputs(id ids.TaskID) []barrier.TimeInput {
	var out []barrier.TimeInput
	external, internal := d.res.TaskInputs(id)
	for _, tp := range external {
		out = append(out, barrier.TimeInput{Partition: tp, Source: true, IdleTimeout: d.res.IdleMs(tp.Topic)})
	}
	for _, tp := range internal {
		in := barrier.TimeInput{Partition: tp, MaxSeen: d.MaxSeen}
		var forward, cycle []ids.TaskID
		for _, c := range d.res.Channels(tp.Topic) {
			if c.Cycle {
				cycle = append(cycle, c.Task)
			} else {
				forward = append(forward, c.Task)
			}
		}
		in.Forward, in.Cycle = barrier.NewTaskSet(forward...), barrier.NewTaskSet(cycle...)
		out = append(out, in)
	}
	return out
}

// input is the number of a task's input, or -1.
func (t *task) input(tp ids.TopicPartition) int {
	return slices.IndexFunc(t.inputs, func(in barrier.TimeInput) bool { return in.Partition == tp })
}

// punctuate fires what is due at the task's stream time.
func (t *task) punctuate() error {
	return t.guard(func() error { return t.graph.Punctuate(&t.ctx, streamTime(t.times.StreamTime())) })
}

// announce tells the readers of repartition topics the stream times that
// changed (R13). It reports whether a reader may have something to do or to
// announce in turn.
func (d *Driver) announce() (more bool, err error) {
	for _, id := range d.res.Tasks() {
		t := d.tasks[id]
		now := announced{t.times.StreamTime(), t.times.Idle(d.now)}
		if now == t.told {
			continue
		}
		t.told, more = now, true
		for _, topic := range d.res.TaskOutputs(id.Sub) {
			reader, _ := d.res.Reader(topic)
			for p := range d.res.Partitions(topic) {
				r := d.tasks[ids.TaskID{Sub: reader, Partition: p}]
				r.times.Announce(r.input(ids.TopicPartition{Topic: topic, Partition: p}), id, now.time, now.idle)
				if err := r.punctuate(); err != nil {
					return false, err
				}
			}
		}
	}
	return more, nil
}

// SetClock sets where the wall clock begins, 0 unless set before Start.
func (d *Driver) SetClock(now int64) { d.now = now }

// Wall moves the wall clock: it fires the wall-clock timers of all tasks that
// are due, and inputs without records become idle.
func (d *Driver) Wall(now int64) error {
	d.now = now
	for _, id := range d.res.Tasks() {
		t := d.tasks[id]
		t.times.Advance(now)
		if err := t.punctuate(); err != nil {
			return err
		}
		if err := t.guard(func() error { return t.graph.PunctuateWallClock(&t.ctx, now) }); err != nil {
			return err
		}
	}
	return d.drain()
}

// Advance moves stream time: as if every partition of every external input had
// a record of that timestamp which no step sees.
func (d *Driver) Advance(ts int64) error {
	for _, id := range d.res.Tasks() {
		t := d.tasks[id]
		for i, in := range t.inputs {
			if in.Source {
				t.times.Record(i, ids.TaskID{}, ts)
				t.times.CaughtUp(i, true, d.now)
			}
		}
		if err := t.punctuate(); err != nil {
			return err
		}
	}
	return d.drain()
}

// stamp gives a record of an input topic its event time, as a task does. It
// reports whether the record is processed.
func (t *task) stamp(input int, r *record.Raw) (kept bool, err error) {
	known := streamTime(t.times.InputTime(input))
	one := []record.Raw{*r}
	n, fault := t.graph.Stamper(t.ctx.Ctx, t.ctx.Topic, t.ctx.Partition).Stamp(one, t.d.now, &known)
	if fault != nil {
		return false, env{t}.Fail(fault)
	}
	*r = one[0]
	return n == 1, nil
}
