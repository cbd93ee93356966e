package tasks

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

// What several tasks of a worker say at the same moment to the partitions of a
// repartition topic goes into one record (R8, R13): with a hundred tasks and a
// hundred partitions there would be ten thousand otherwise. Nobody waits for
// that. At a Trigger the worker takes the snapshots of all tasks without forward
// channels anyhow, one after the other, and a reader needs the barriers of all
// of them; times of partitions without data are looked at by the clock.
//
// The order is kept because nothing of a task is processed in between, what it
// wrote before is handed over before, and batches of one producer reach a
// partition in the order in which they were handed over. So only tasks that write
// by one producer share records: those with the same Protocol.

// maxTogether bounds the entries of a record, at most some 20 bytes each.
const maxTogether = 1024

// shared is the same repartition topic as several tasks write it.
type shared []*output

// sharing sorts the repartition outputs of tasks by producer and topic, in the
// order of the tasks.
func sharing(list []*Task) (out []shared) {
	for i, t := range list {
		if slices.ContainsFunc(list[:i], func(u *Task) bool { return u.protocol == t.protocol }) {
			continue
		}
		var all shared
		for _, u := range list[i:] {
			if u.protocol == t.protocol {
				all = append(all, u.repartition...)
			}
		}
		slices.SortStableFunc(all, func(a, b *output) int { return cmp.Compare(a.topic, b.topic) })
		for len(all) > 0 {
			n := 1
			for n < min(len(all), maxTogether) && all[n].topic == all[0].topic {
				n++
			}
			out, all = append(out, all[:n:n]), all[n:]
		}
	}
	return out
}

// snapshots takes the snapshots of tasks at barrier n, whose barriers go out
// together, before the states are fixed.
func snapshots(list []*Task, n ids.CheckpointID) {
	if len(list) == 1 || slices.ContainsFunc(list, func(t *Task) bool { return t.spec.ReadCommitted || t.spec.Rules.SkipR8 }) {
		for _, t := range list {
			t.snapshot(n)
		}
		return
	}
	begun := make([]*Snapshot, len(list))
	var passing []*Task
	for i, t := range list {
		if begun[i] = t.beginSnapshot(n); begun[i] == nil {
			continue
		}
		passing = append(passing, t)
		if !t.spec.Rules.SharedFirst {
			t.flushOpen(t.now)
		}
	}
	for _, s := range sharing(passing) {
		s.barriers(n)
	}
	for i, t := range list {
		if begun[i] != nil {
			t.flushOpen(t.now) // nothing, but for SharedFirst
			t.endSnapshot(begun[i])
		}
	}
}

// barriers writes barrier n of all the tasks to every partition, with the times
// that were not announced yet.
func (s shared) barriers(n ids.CheckpointID) {
	channels := make([]barrier.Channel, len(s))
	for i, o := range s {
		channels[i] = o.t.channel
	}
	first := s[0].t
	header := barrier.AppendBarrierHeader(nil, first.spec.Life, n, channels)
	current := s.current()
	var times []barrier.ChannelTime
	for i := range s[0].parts {
		times = times[:0]
		for k, o := range s {
			p := &o.parts[i]
			if c, ok := o.news(p, p.announcedIdle && (!o.merged || !o.t.parked), current[k]); ok {
				times = append(times, c)
			}
		}
		s.send(i, times, header)
	}
}

func (s shared) current() []bool {
	out := make([]bool, len(s))
	for i, o := range s {
		out[i] = o.current()
	}
	return out
}

// announceAlone is Task.announceAlone for all the tasks: where one of them is
// due, those go along that are soon.
func (s shared) announceAlone(after time.Duration) {
	idle, current := make([]bool, len(s)), s.current()
	for i, o := range s {
		idle[i] = o.t.times.Idle(o.t.monoMillis())
	}
	var times []barrier.ChannelTime
	for i := range s[0].parts {
		due := false
		for k, o := range s {
			due = due || o.due(&o.parts[i], idle[k], current[k], after)
		}
		if !due {
			continue
		}
		times = times[:0]
		for k, o := range s {
			if p := &o.parts[i]; o.due(p, idle[k], current[k], after/2) {
				if c, ok := o.news(p, idle[k], current[k]); ok {
					times = append(times, c)
				}
			}
		}
		s.send(i, times, nil)
	}
}

// send hands over a batch for a partition: times, and a barrier if there is one.
func (s shared) send(partition int, times []barrier.ChannelTime, header []byte) {
	if len(times) == 0 && header == nil {
		return
	}
	first := s[0].t
	b := first.protocol.NewBatch(s[0].parts[partition].tp)
	b.Limit(s[0].limit.Bytes)
	wall := first.wallMillis()
	if len(times) > 0 {
		first.scratch = barrier.AppendTimeHeader(first.scratch[:0], first.spec.Life, times)
		b.AppendTagged(record.Header{Key: barrier.HeaderKey, Value: first.scratch}, nil, nil, nil, wall)
	}
	if header != nil {
		b.AppendTagged(record.Header{Key: barrier.HeaderKey, Value: header}, nil, nil, nil, wall)
	}
	for _, o := range s {
		o.parts[partition].sent = o.t.now
	}
	first.protocol.Send(first, Outgoing{Batch: b, Internal: true, LastBarrier: first.lastBarrier})
}
