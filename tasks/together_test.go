package tasks

import (
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
)

// onWire is a Protocol that keeps, per partition, what reaches it: data and
// entries of barriers and times, in order, and how many records that took.
type onWire struct {
	t        *testing.T
	builders *kafka.Builders
	parts    map[int32][]barrier.Segment
	records  map[barrier.HeaderKind]int
	batches  int
	passed   []ids.TaskID
	atPassed int // barrier records when the first task passed
}

func newWire(t *testing.T) *onWire {
	return &onWire{t: t, builders: kafka.NewBuilders(1 << 20), parts: map[int32][]barrier.Segment{}, records: map[barrier.HeaderKind]int{}}
}

func (w *onWire) NewBatch(tp ids.TopicPartition) *kafka.Builder { return w.builders.NewBatch(tp) }

func (w *onWire) Send(_ *Task, o Outgoing) {
	w.batches++
	var raws []record.Raw
	o.Batch.Each(func(r *record.Raw) {
		own := *r
		own.Headers = slices.Clone(r.Headers)
		raws = append(raws, own)
		var h barrier.Header
		if err := h.Decode(own.Headers[0].Value); err != nil {
			w.t.Fatal(err)
		}
		w.records[h.Kind]++
	})
	var r barrier.SegmentReader
	r.Reset(raws)
	for {
		s, ok, err := r.Next()
		if err != nil {
			w.t.Fatal(err)
		}
		if !ok {
			break
		}
		p := o.Batch.TP().Partition
		w.parts[p] = append(w.parts[p], s)
	}
}

func (w *onWire) Passed(t *Task, _ *Snapshot) {
	if len(w.passed) == 0 {
		w.atPassed = w.records[barrier.HeaderBarrier]
	}
	w.passed = append(w.passed, t.ID())
}
func (w *onWire) Failed(_ *Task, err error)                        { w.t.Error(err) }
func (w *onWire) Skipped(*Task, error) bool                        { return false }
func (w *onWire) Closed(_ *Task, err error)                        { w.t.Error(err) }
func (w *onWire) Processed(*Task, int)                             {}
func (w *onWire) InputLost(_ *Task, _ ids.TopicPartition, _ error) {}

// writer makes a task with one external input that writes a repartition topic.
func writer(t *testing.T, p Protocol, id ids.TaskID, partitions int32, now time.Time) *Task {
	t.Helper()
	a, err := barrier.NewAligner(barrier.AlignConfig{LogEnd: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := &Task{
		spec: Spec{ID: id, Incarnation: 1, Life: 7}, protocol: p, graph: &operators.Graph{}, now: now, started: now,
		aligner: a, outputs: map[string]*output{}, stopAt: ids.NoCheckpoint, channel: barrier.Channel{Task: id, Inc: 1},
		times: barrier.NewTimes([]barrier.TimeInput{{Source: true}}, nil, 0, 0),
	}
	w.dataHeader = barrier.AppendDataHeader(nil, w.spec.Life, w.channel)
	w.addOutput(OutputSpec{Topic: "re", Internal: true, Partitions: partitions})
	return w
}

func (t *Task) emit(tb testing.TB, partition int32, ts int64) {
	tb.Helper()
	t.times.Record(0, ids.TaskID{}, ts)
	if err := t.repartition[0].Append(partition, []byte("k"), []byte("v"), 0, ts, nil); err != nil {
		tb.Fatal(err)
	}
}

// together is a worker with tasks that write the same topic, each with a record
// in the partition of its number.
func together(t *testing.T, w *onWire, count, partitions int32) (*Worker, *time.Time) {
	now := time.Unix(1000, 0)
	worker := newWorker(nil, func() time.Time { return now })
	for p := range count {
		u := writer(t, w, ids.TaskID{Partition: p}, partitions, now)
		u.emit(t, p%partitions, 10*int64(p+1))
		worker.tasks = append(worker.tasks, u)
	}
	return worker, &now
}

// R8: the tasks' barriers share a record per partition, behind what each of them
// wrote; no task passes before that; what follows is behind it.
func TestBarriersTogether(t *testing.T) {
	w := newWire(t)
	worker, _ := together(t, w, 100, 100)
	worker.Trigger(1, 5, false)
	worker.drain()
	if got := w.records[barrier.HeaderBarrier]; got != 100 {
		t.Errorf("%d barrier records for 100 tasks and 100 partitions, want one a partition", got)
	}
	if got := w.records[barrier.HeaderTime]; got > 200 {
		t.Errorf("%d time records, want at most one with the data and one with the barrier a partition", got)
	}
	if len(w.passed) != 100 || w.atPassed != 100 {
		t.Errorf("%d tasks passed, the first after %d barrier records", len(w.passed), w.atPassed)
	}
	for _, u := range worker.tasks {
		u.emit(t, u.spec.ID.Partition, 5000)
		u.flushOpen(u.now)
	}
	for p := range int32(100) {
		checkBarriers(t, w.parts[p], 100, p)
	}
}

// checkBarriers checks that a partition has barrier 5 of every task once, between
// the data of before and behind; data come from one task only.
func checkBarriers(t *testing.T, list []barrier.Segment, tasks int, from int32) {
	t.Helper()
	seen := map[barrier.Channel]bool{}
	times := map[barrier.Channel]int64{}
	data := 0
	for _, s := range list {
		passed := seen[s.Channel]
		switch s.Kind {
		case barrier.HeaderBarrier:
			if passed || s.N != 5 {
				t.Errorf("partition %d: barrier %d of %s again", from, s.N, s.Channel.Task)
			}
			if want := 10 * int64(s.Channel.Task.Partition+1); times[s.Channel] != want {
				t.Errorf("partition %d: barrier of %s behind time %d, want %d", from, s.Channel.Task, times[s.Channel], want)
			}
			seen[s.Channel] = true
		case barrier.HeaderTime:
			times[s.Channel] = s.Time
		case barrier.HeaderData:
			data++
			if before := s.MaxTime < 5000; before == passed {
				t.Errorf("partition %d: record at %d of %s on the wrong side of its barrier", from, s.MaxTime, s.Channel.Task)
			}
		}
	}
	if len(seen) != tasks || data != 2 {
		t.Errorf("partition %d: barriers of %d tasks and %d runs of data", from, len(seen), data)
	}
}

// The test above notices barriers that overtake data.
func TestBarriersTogetherMutant(t *testing.T) {
	w := newWire(t)
	worker, _ := together(t, w, 3, 3)
	for _, u := range worker.tasks {
		u.spec.Rules.SharedFirst = true
	}
	worker.Trigger(1, 5, false)
	worker.drain()
	for p := range int32(3) {
		last := w.parts[p][len(w.parts[p])-1]
		if last.Kind == barrier.HeaderBarrier {
			t.Errorf("partition %d: the barrier is behind the data", p)
		}
	}
}

// Only tasks that write by one producer share records, and a record has a bound.
func TestSharing(t *testing.T) {
	now := time.Unix(1000, 0)
	one, two := newWire(t), newWire(t)
	var list []*Task
	for p := range int32(maxTogether + 1) {
		list = append(list, writer(t, one, ids.TaskID{Partition: p}, 1, now))
	}
	list = append(list, writer(t, two, ids.TaskID{Sub: 1}, 1, now))
	list[0].addOutput(OutputSpec{Topic: "a", Internal: true, Partitions: 1})
	var got []int
	for _, s := range sharing(list) {
		got = append(got, len(s))
		for _, o := range s {
			if o.topic != s[0].topic || o.t.protocol != s[0].t.protocol {
				t.Errorf("%s of %s shares with %s", o.topic, o.t.spec.ID, s[0].topic)
			}
		}
	}
	if want := []int{1, maxTogether, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("shares %v, want %v", got, want)
	}
}

// R13: times of partitions without data go out together, too: when one task is
// due, those that are due soon go along.
func TestTimesTogether(t *testing.T) {
	w := newWire(t)
	worker, now := together(t, w, 10, 50)
	worker.lastTick = *now
	for _, u := range worker.tasks {
		u.flushOpen(u.now)
	}
	clear(w.records)
	for range 20 { // a second
		*now = now.Add(housekeeping)
		for k, u := range worker.tasks {
			u.times.Record(0, ids.TaskID{}, now.UnixMilli()+int64(k))
		}
		worker.tick(*now)
	}
	// 500 pairs of task and partition, every 200 ms.
	if got := w.records[barrier.HeaderTime]; got > 50*6 {
		t.Errorf("%d time records in a second, want one a partition every 200 ms", got)
	}
	for p := range int32(50) {
		last := map[ids.TaskID]int64{}
		for _, s := range w.parts[p] {
			if s.Kind == barrier.HeaderTime {
				if s.Time < last[s.Channel.Task] {
					t.Errorf("partition %d: time of %s goes back", p, s.Channel.Task)
				}
				last[s.Channel.Task] = s.Time
			}
		}
		for k := range int32(10) {
			if late := now.UnixMilli() - last[ids.TaskID{Partition: k}]; late > 250 {
				t.Errorf("partition %d: the time of task %d is %d ms old", p, k, late)
			}
		}
	}
}
