package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/tasks"
)

// All incarnations of a task write under one life and incarnation in changelog
// mode: what a displaced one wrote is aborted, not skipped by its header.
const (
	logLife        ids.Life        = 0x74696465 // of no meaning
	logIncarnation ids.Incarnation = 1
	logEnd                         = 1 << 62 // there is no control log to wait for
)

// logRun is one start of a task. It implements tasks.Protocol for it; those
// methods run on the worker.
type logRun struct {
	i       *logInstance
	id      changelog.TaskRun
	ctx     context.Context
	cancel  context.CancelFunc
	revoked atomic.Bool

	// Of the loop.
	adopted   bool
	closing   bool
	joined    ids.CheckpointID // the first interval that it writes in
	committed map[ids.TopicPartition]int64
	stored    map[ids.TopicPartition]string // the metadata of committed
	pending   *tasks.Snapshot               // at the last commit point
	offered   []kafka.Offset                // what of it is to be committed
	restored  chan struct{}                 // closed when the start in the background is over
	bounds    map[string]changelog.Bounds   // of the changelogs; the end moves with commits
	standby   *logStandby                   // of the task on this instance, if there is one
	folder    <-chan struct{}               // closed when its last one let go of the folder

	// topics and stores go into the metadata of offsets; renew says that those that
	// are committed have others, so that a commit is due although nothing moved.
	topics []changelog.KeptTopic
	stores []changelog.KeptStore
	renew  bool

	// Of whoever has the engine: the start, then the worker.
	engine  *changelog.Engine
	passedN ids.CheckpointID
	waiting int64
}

// startRun begins to restore a task.
func (i *logInstance) startRun(t changelog.TaskRun) {
	r := &logRun{i: i, id: t, restored: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(i.ctx)
	i.runs[t.Run] = r
	if r.standby = i.standbys[t.Task]; r.standby != nil {
		r.standby.keep.Store(true)
		i.endStandby(t.Task)
	}
	r.folder = i.leaving[t.Task]
	delete(i.leaving, t.Task)
	i.log.Info("starting task", "task", t.Task.String())
	i.background(func(context.Context) {
		defer close(r.restored)
		defer r.closeFollowed()
		task, err := r.start()
		if err != nil {
			if r.ctx.Err() == nil {
				i.fail(fmt.Errorf("start task %s: %w", t.Task, err))
			}
			return
		}
		r.hand(task)
	})
}

// hand gives a restored task to its worker, through the loop.
func (r *logRun) hand(task *tasks.Task) {
	i := r.i
	taken := make(chan bool, 1)
	i.loop.post(func() {
		if r.closing {
			taken <- false
			return
		}
		taken <- true
		r.adopted, r.joined = true, i.machine.Joins()
		w := i.workerFor(r.id.Task)
		w.Adopt(task, func() {})
		i.step(changelog.EvRunning{TaskRun: r.id})
	})
	adopted := false
	select {
	case adopted = <-taken:
	case <-i.loop.done: // nobody takes it any more
		select {
		case adopted = <-taken:
		default:
		}
	}
	if !adopted {
		task.Discard()
	}
}

// closeRun closes a task, in whatever state it is, and tells the machine.
func (i *logInstance) closeRun(t changelog.TaskRun) {
	r := i.runs[t.Run]
	if r == nil || r.closing {
		return
	}
	r.closing, r.pending = true, nil
	r.revoked.Store(true)
	r.cancel()
	var done <-chan struct{} = r.restored
	if r.adopted {
		done = i.workerFor(t.Task).Revoke(t.Run)
	}
	i.background(func(context.Context) {
		<-done
		i.uncommitted.Add(-r.waiting)
		i.loop.post(func() {
			delete(i.runs, t.Run)
			i.step(changelog.EvClosed{TaskRun: t})
		})
	})
}

// workerFor gives a task its worker, the same at every start.
func (i *logInstance) workerFor(t ids.TaskID) *tasks.Worker {
	n, _ := slices.BinarySearchFunc(i.plan.Tasks(), t, ids.TaskID.Compare)
	return i.workers[n%len(i.workers)]
}

// trigger sends the commit point to the workers.
func (i *logInstance) trigger(e changelog.DoTrigger) {
	i.dirty.Store(false)
	i.hurried.Store(false)
	send := func(list []changelog.TaskRun, stop bool) {
		for _, t := range list {
			i.workerFor(t.Task).Trigger(t.Run, e.N, stop)
		}
	}
	send(e.Tasks, false)
	send(e.Stop, true)
}

// NewBatch implements tasks.Protocol.
func (r *logRun) NewBatch(tp ids.TopicPartition) *kafka.Builder { return r.i.writer.NewBatch(tp) }

// Send implements tasks.Protocol.
func (r *logRun) Send(_ *tasks.Task, o tasks.Outgoing) { r.send(o.Batch, o.LastBarrier+1) }

// send hands a batch to the transaction of an interval; the changelog's batches
// come here, too.
func (r *logRun) send(b *kafka.Builder, n ids.CheckpointID) {
	i := r.i
	if r.revoked.Load() {
		b.Discard()
		return
	}
	i.dirty.Store(true)
	size := int64(b.Bytes())
	i.waitingBytes.Add(size)
	i.loop.post(func() {
		if r.closing || i.exiting {
			i.waitingBytes.Add(-size)
			b.Discard()
			return
		}
		i.txn.write(max(n, r.joined), b, size)
	})
}

// Passed implements tasks.Protocol: the task went over a commit point.
func (r *logRun) Passed(_ *tasks.Task, s *tasks.Snapshot) {
	r.passedN = s.N
	i := r.i
	i.loop.post(func() {
		if r.closing {
			return
		}
		r.pending = s
		moved := r.renew
		for tp, next := range s.External {
			if old, ok := r.committed[tp]; !ok || old != next {
				moved = true
			}
		}
		i.step(changelog.EvPassed{TaskRun: r.id, N: s.N, Moved: moved})
	})
}

// passedOffsets are the offsets to commit with interval n: those of every task
// that moved, or whose stream time or timers did without a record, as when an input
// is idle; of one task where none did, since they are what shows that this member
// still has its tasks.
func (i *logInstance) passedOffsets(n ids.CheckpointID) ([]kafka.Offset, error) {
	var list []kafka.Offset
	var still []kafka.Offset
	for _, r := range i.runs {
		s := r.pending
		if s == nil || s.N != n || r.closing {
			continue
		}
		var moved bool
		var err error
		if r.offered, moved, err = r.offsets(s); err != nil {
			return nil, fmt.Errorf("task %s: %w", r.id.Task, err)
		}
		if moved {
			list = append(list, r.offered...)
		} else {
			still = r.offered
		}
	}
	if len(list) == 0 {
		list = still
	}
	return list, nil
}

// offsets returns the task's offsets with their metadata.
func (r *logRun) offsets(s *tasks.Snapshot) (list []kafka.Offset, moved bool, err error) {
	for k, in := range s.Times.Inputs {
		tp := in.Partition
		next, ok := s.External[tp]
		if !ok {
			return nil, false, fmt.Errorf("no offset of %s", tp)
		}
		m := changelog.Meta{Time: in.Time, Channels: in.Channels}
		if k == 0 {
			m.First, m.Stream, m.Timers = true, s.Times.Stream, s.Timers
			m.Topics, m.Stores = r.topics, r.stores
		}
		text, err := changelog.EncodeMeta(m)
		if err != nil {
			return nil, false, err
		}
		list = append(list, kafka.Offset{TP: tp, Offset: next, Metadata: text})
		if old, ok := r.committed[tp]; !ok || old != next || r.stored[tp] != text {
			moved = true
		}
	}
	return list, moved, nil
}

// apply writes what is committed to the engines.
func (i *logInstance) apply(e changelog.DoApply) {
	for _, r := range i.runs {
		s := r.pending
		if s == nil || s.N != e.N || r.closing {
			continue
		}
		r.pending = nil
		if e.Committed {
			r.committed, r.renew = s.External, false
			for _, o := range r.offered {
				r.stored[o.TP] = o.Metadata
			}
		}
		if r.engine == nil {
			continue
		}
		next := map[string]int64{}
		if e.Committed {
			for store, tp := range r.engine.Changelogs() {
				if offset, input := s.External[tp]; input {
					next[store] = offset
				} else if last := i.txn.lastOffset(tp); last >= 0 {
					next[store] = last + 1
				}
				if n, ok := next[store]; ok {
					r.bounds[store] = changelog.Bounds{Start: r.bounds[store].Start, End: n}
				}
			}
		}
		i.workerFor(r.id.Task).Do(func() {
			err := r.engine.Apply(next)
			if i.cfg.TestRules.StoreEarly && err == nil {
				err = r.engine.Flush()
			}
			if err != nil {
				i.fail(fmt.Errorf("task %s: write committed state: %w", r.id.Task, err))
			}
			r.account()
		})
	}
	if e.Committed {
		i.group.setHeld(i.held())
		i.status.update(func(h *Health) { h.LastCommitAt = time.Now() })
		i.maybePurge()
	}
}

// account keeps the sum of what waits in layers, and asks for a commit when it
// is too much. It runs on the worker.
func (r *logRun) account() {
	if r.engine == nil {
		return
	}
	now := r.engine.Waiting()
	sum := r.i.uncommitted.Add(now - r.waiting)
	r.waiting = now
	if sum > r.i.cfg.UncommittedBytes && r.i.hurried.CompareAndSwap(false, true) {
		r.i.post(changelog.EvHurry{})
	}
}

// Failed implements tasks.Protocol.
func (r *logRun) Failed(t *tasks.Task, err error) {
	if r.revoked.Load() {
		return
	}
	r.i.fail(fmt.Errorf("task %s: %w", t.ID(), err))
}

// Skipped implements tasks.Protocol.
func (r *logRun) Skipped(t *tasks.Task, err error) bool {
	if !r.i.answerOf(err) {
		return false
	}
	r.i.counters.skipped.Add(1)
	r.i.log.Warn("skipped a record", "task", t.ID().String(), "error", err)
	return true
}

// Closed implements tasks.Protocol.
func (r *logRun) Closed(t *tasks.Task, err error) {
	r.i.log.Warn("closing a task's processors failed", "task", t.ID().String(), "error", err)
}

// Processed implements tasks.Protocol.
func (r *logRun) Processed(_ *tasks.Task, n int) {
	r.i.counters.records.Add(int64(n))
	r.i.dirty.Store(true)
	r.account()
}

// InputLost implements tasks.Protocol.
func (r *logRun) InputLost(t *tasks.Task, tp ids.TopicPartition, err error) {
	var out *kafka.OffsetOutOfRangeError
	if errors.As(err, &out) {
		if slices.Contains(r.i.plan.Inputs(), tp.Topic) {
			err = fmt.Errorf("%w; records between the committed offset and the topic's start are gone: lengthen the retention of %s, or stop the application and reset it: %s", err, tp.Topic, resetAdvice(r.i.cfg, Changelog))
		} else {
			// A displaced owner may read what the next one has purged.
			err = passing{fmt.Errorf("%w; somebody deleted records of this repartition topic, which only the application itself may do", err)}
		}
	}
	var remade *kafka.TopicRemadeError
	if code, _ := kafka.Code(err); code == unknownTopic || errors.As(err, &remade) {
		err = r.i.remade(tp.Topic, err)
	}
	if !r.revoked.Load() {
		r.i.fail(fmt.Errorf("task %s cannot read %s: %w", t.ID(), tp, err))
	}
}

// spec is what the task is made from.
func (r *logRun) spec() tasks.Spec {
	i, t := r.i, r.id.Task
	s := tasks.Spec{
		ID: t, Incarnation: r.id.Run, Life: logLife, WriteAs: logIncarnation, ReadCommitted: true,
		Sub: i.plan.Subtopologies()[t.Sub], LogEnd: logEnd,
		Lineages:    barrier.Lineages{}.Restart(barrier.NewTaskSet(i.plan.Tasks()...), 0, logIncarnation),
		IdleTimeout: i.cfg.IdleTimeout, MaxSeen: i.cfg.RepartitionTime == MaximumSeen, TaskIdle: i.cfg.TaskIdle,
		SnapshotDir: func(ids.CheckpointID) string { return "" },
	}
	s.Inputs, s.Outputs = tasks.InputsOf(i.plan, t), tasks.OutputsOf(i.plan, t)
	inputs := len(s.Inputs) * max(len(i.plan.Tasks()), 1)
	s.InputBytes = int(max(i.cfg.FetchBytes/int64(max(inputs, 1)), leastInput))
	s.TurnBytes = i.cfg.turnBytes(len(i.plan.Tasks()))
	return s
}
