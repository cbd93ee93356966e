package runtime

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/tasks"
)

// NewBatch implements tasks.Protocol.
func (r *run) NewBatch(tp ids.TopicPartition) *kafka.Builder { return r.i.writer.NewBatch(tp) }

// Send implements tasks.Protocol: repartition records flow at once (R8), sink
// records go into the transaction of the last barrier their task passed (R18).
func (r *run) Send(t *tasks.Task, o tasks.Outgoing) {
	if r.revoked.Load() {
		o.Batch.Discard()
		return
	}
	if o.Internal || r.i.cfg.Guarantee == AtLeastOnce {
		r.producer.Enqueue(o.Batch, kafka.Token{})
		return
	}
	i := r.i
	i.waitingBytes.Add(int64(o.Batch.Bytes()))
	task := t.ID()
	i.loop.post(func() {
		if !r.has(task) {
			i.waitingBytes.Add(-int64(o.Batch.Bytes()))
			o.Batch.Discard()
			return
		}
		i.txns.write(task, o.Batch, o.FirstTime, o.LastTime)
	})
}

// congested tells workers to stop producing while too much is not acknowledged.
func (i *instance) congested() (bool, <-chan struct{}) {
	if i.writer.Full() {
		return true, i.writer.Room()
	}
	return i.waitingBytes.Load() > i.cfg.ProduceBytes, nil
}

// Passed implements tasks.Protocol.
func (r *run) Passed(_ *tasks.Task, s *tasks.Snapshot) {
	i := r.i
	i.loop.post(func() { i.passed(r, s) })
}

// Failed implements tasks.Protocol.
func (r *run) Failed(t *tasks.Task, err error) {
	task := t.ID()
	r.i.loop.post(func() { r.i.failTasks(r, []ids.TaskID{task}, fmt.Errorf("task %s: %w", task, err)) })
}

// Skipped implements tasks.Protocol.
func (r *run) Skipped(t *tasks.Task, err error) bool {
	if !r.i.answerOf(err) {
		return false
	}
	r.i.counters.skipped.Add(1)
	r.i.log.Warn("skipped a record", "task", t.ID().String(), "error", err)
	return true
}

// Closed implements tasks.Protocol.
func (r *run) Closed(t *tasks.Task, err error) {
	r.i.log.Warn("closing a task's processors failed", "task", t.ID().String(), "error", err)
}

// Processed implements tasks.Protocol.
func (r *run) Processed(_ *tasks.Task, n int) { r.i.counters.records.Add(int64(n)) }

// InputLost implements tasks.Protocol.
func (r *run) InputLost(t *tasks.Task, tp ids.TopicPartition, err error) {
	task := t.ID()
	var out *kafka.OffsetOutOfRangeError
	if _, internal := r.i.plan.Reader(tp.Topic); errors.As(err, &out) && internal && !slices.Contains(r.i.plan.Inputs(), tp.Topic) {
		// This may be a zombie that reads what others have purged.
		err = passing{r.inputAdvice(tp, err)}
	} else {
		err = r.inputAdvice(tp, err)
	}
	r.i.loop.post(func() {
		r.i.failTasks(r, []ids.TaskID{task}, fmt.Errorf("task %s cannot read %s: %w", task, tp, err))
	})
}

// inputAdvice says what to do about offsets that are gone (R29).
func (r *run) inputAdvice(tp ids.TopicPartition, err error) error {
	var remade *kafka.TopicRemadeError
	if code, _ := kafka.Code(err); code == unknownTopic || errors.As(err, &remade) {
		return r.i.remade(tp.Topic, err)
	}
	var out *kafka.OffsetOutOfRangeError
	if !errors.As(err, &out) {
		return err
	}
	external := slices.Contains(r.i.plan.Inputs(), tp.Topic)
	if !external {
		return fmt.Errorf("%w; somebody deleted records of this repartition topic, which only the application itself may do: start it again", err)
	}
	return fmt.Errorf("%w; records between the checkpoint's offset and the topic's are gone: lengthen the retention of %s, or stop the application, and reset it to new offsets on purpose", err, tp.Topic)
}
