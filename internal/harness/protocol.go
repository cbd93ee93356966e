package harness

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/tasks"
)

// seam is how tasks see the driver: their Protocol and their Fetcher.
type seam struct{ d *Driver }

// NewBatch implements tasks.Protocol.
func (s seam) NewBatch(tp ids.TopicPartition) *kafka.Builder { return s.d.batch.NewBatch(tp) }

// Send implements tasks.Protocol: records are there at once.
func (s seam) Send(_ *tasks.Task, o tasks.Outgoing) {
	d, b := s.d, o.Batch
	tp := b.TP()
	if p := d.parts[tp]; p != nil {
		p.begin()
		b.Each(p.add)
	}
	if !o.Internal && d.global(tp.Topic) {
		visible(b, func(r *record.Raw) {
			if err := d.takeGlobal(tp, r); err != nil && d.failure == nil {
				d.failure = err
			}
		})
	}
	if d.tapped[tp.Topic] || !o.Internal && !d.mute {
		out := d.out[tp.Topic]
		visible(b, func(r *record.Raw) {
			out = append(out, Record{
				Topic: tp.Topic, Partition: tp.Partition, Key: d.outMem.copy(r.Key), Value: d.outMem.copy(r.Value),
				Headers: cloneHeaders(r.Headers), Timestamp: r.Timestamp,
			})
		})
		d.out[tp.Topic] = out
	}
	b.Discard()
}

// Passed implements tasks.Protocol.
func (s seam) Passed(_ *tasks.Task, snap *tasks.Snapshot) { s.d.snaps[snap.Task] = snap }

// Failed implements tasks.Protocol.
func (s seam) Failed(_ *tasks.Task, err error) {
	if s.d.failure == nil {
		s.d.failure = err
	}
}

// Skipped implements tasks.Protocol.
func (s seam) Skipped(_ *tasks.Task, err error) bool {
	d := s.d
	var rec *operators.RecordError
	if d.Skip == nil || !errors.As(err, &rec) || !d.Skip(rec) {
		return false
	}
	d.Skipped = append(d.Skipped, rec)
	return true
}

// Closed implements tasks.Protocol.
func (s seam) Closed(_ *tasks.Task, err error) { s.d.closing = append(s.d.closing, err) }

// Processed implements tasks.Protocol.
func (seam) Processed(*tasks.Task, int) {}

// InputLost implements tasks.Protocol.
func (s seam) InputLost(t *tasks.Task, tp ids.TopicPartition, err error) {
	s.Failed(t, fmt.Errorf("task %s cannot read %s: %w", t.ID(), tp, err))
}

// topicPartitions is the partition count of a topic that a record names.
func (d *Driver) topicPartitions(topic string) (int32, error) {
	if n := d.given[topic]; n > 0 {
		return n, nil
	}
	return 0, errors.New("unknown topic")
}

// sortedTasks are all tasks, those up the stream first.
func (d *Driver) sortedTasks() []ids.TaskID {
	all := slices.Clone(d.res.Tasks())
	slices.SortFunc(all, ids.TaskID.Compare)
	return all
}
