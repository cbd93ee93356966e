package tasks

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

// joining is a task with an external input and a repartition partition that two
// upstream tasks write; checkpoint 5 aligns.
type joining struct {
	*Task
	external, internal *input
	life               ids.Life
	offset             int64
}

func newJoining(t *testing.T) *joining {
	t.Helper()
	const inc = ids.Incarnation(1)
	up := barrier.NewTaskSet(ids.TaskID{Partition: 0}, ids.TaskID{Partition: 1})
	in := ids.TopicPartition{Topic: "in"}
	re := ids.TopicPartition{Topic: "re"}
	a, err := barrier.NewAligner(barrier.AlignConfig{
		Inputs:   []barrier.AlignInput{{Partition: re, Forward: up}},
		Lineages: barrier.Lineages{}.Restart(up, 0, inc), Positions: []barrier.PartitionPosition{barrier.FirstPosition(re, 0)},
		LogEnd: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	j := &joining{
		external: &input{spec: InputSpec{TP: in}, align: -1},
		internal: &input{spec: InputSpec{TP: re, Internal: true, Forward: up}, index: 1},
	}
	j.Task = &Task{
		now: time.Unix(0, 0), aligner: a, inputs: []*input{j.external, j.internal},
		times: barrier.NewTimes([]barrier.TimeInput{{Partition: in, Source: true}, {Partition: re, Forward: up, RestartKnown: true}}, nil, 0, 0),
	}
	a.Trigger(5)
	return j
}

// records queues data records of an upstream task, one per timestamp; of the
// external input for -1.
func (j *joining) records(from int32, times ...int64) {
	in := j.internal
	if from < 0 {
		in = j.external
	}
	for _, ts := range times {
		in.queue = append(in.queue, item{seg: barrier.Segment{
			Kind: barrier.HeaderData, Life: j.life, Channel: barrier.Channel{Task: ids.TaskID{Partition: from}, Inc: 1},
			Records: []record.Raw{{Offset: j.offset, Timestamp: ts}}, First: j.offset, Last: j.offset, MinTime: ts, MaxTime: ts, Bytes: 1,
		}})
		j.offset++
	}
}

func (j *joining) barrier(from int32, n ids.CheckpointID) {
	j.internal.queue = append(j.internal.queue, item{seg: barrier.Segment{
		Kind: barrier.HeaderBarrier, Life: j.life, Channel: barrier.Channel{Task: ids.TaskID{Partition: from}, Inc: 1}, N: n,
		First: j.offset, Last: j.offset,
	}})
	j.offset++
}

// takeAll takes heads as a task does, without operators, until nothing may be
// taken or the alignment is complete.
func (j *joining) takeAll(t *testing.T) (times []int64, aligned bool) {
	t.Helper()
	for {
		in, _ := j.pick()
		if in == nil {
			return times, false
		}
		it := in.peek()
		ts, data := int64(0), it.data()
		if data {
			ts = it.time()
		}
		verdict := barrier.Deliver
		if in.spec.Internal {
			verdict, aligned = j.aligner.Offer(in.align, &it.seg)
		}
		if data && verdict == barrier.Deliver {
			times = append(times, ts)
		}
		in.pop()
		if in.empty() {
			in.since = j.now
		}
		if aligned {
			return times, true
		}
	}
}

// A record waits behind the barrier of one channel, the external head is later
// than it, and the other channel of the same partition is later still: it must
// be read on to its barrier all the same, or the alignment never ends (R9).
func TestChannelsThatOweTheirBarrierAreReadOn(t *testing.T) {
	j := newJoining(t)
	j.barrier(0, 5)
	j.records(0, 50)
	j.records(1, 200, 201)
	j.barrier(1, 5)
	j.records(-1, 40, 100)
	times, aligned := j.takeAll(t)
	if !aligned {
		t.Fatalf("the alignment is stuck behind %v", times)
	}
	if held, ok := j.aligner.MinHeld(); !ok || held != 50 {
		t.Errorf("held %d, %v", held, ok)
	}
	for _, ts := range times {
		if ts == 100 {
			t.Errorf("an external record above the smallest waiting one was taken: %v", times)
		}
	}
	if j.external.empty() {
		t.Error("nothing is left of the external input")
	}
}

// An empty input that is caught up is waited for as long as TaskIdle says, and
// not at all when that is negative.
func TestTaskIdle(t *testing.T) {
	begin := time.Unix(100, 0)
	for _, c := range []struct {
		idle     time.Duration
		caughtUp bool
		after    time.Duration
		taken    bool
	}{
		{idle: 0, caughtUp: false, taken: false},
		{idle: 0, caughtUp: true, taken: true},
		{idle: time.Second, caughtUp: true, after: 999 * time.Millisecond, taken: false},
		{idle: time.Second, caughtUp: true, after: time.Second, taken: true},
		{idle: -1, caughtUp: false, taken: true},
	} {
		j := newJoining(t)
		j.aligner.Decided(5)
		j.Task.spec.TaskIdle = c.idle
		j.Task.started, j.Task.now = begin, begin.Add(c.after)
		j.internal.since, j.internal.align = begin, -1
		if c.caughtUp {
			j.internal.endAsked = begin.Add(time.Microsecond)
		} else {
			j.internal.end = 7
		}
		j.records(-1, 40)
		if in, _ := j.pick(); (in != nil) != c.taken {
			t.Errorf("idle %v, caught up %v, after %v: taken %v", c.idle, c.caughtUp, c.after, in != nil)
		}
	}
}
