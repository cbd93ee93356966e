package runtime

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/tasks"
	"github.com/tidegate/tidegate/transactions"
)

// run is what one Start or handover gave this instance: its tasks as one
// incarnation. It implements tasks.Protocol for them; those methods run on
// workers.
type run struct {
	i        *instance
	inc      ids.Incarnation
	life     ids.Life
	tasks    barrier.TaskSet // as given
	left     barrier.TaskSet // loop; those that neither moved away nor were stopped since
	mu       sync.Mutex
	gone     barrier.TaskSet // the others
	share    int             // tasks of the instance at the start: buffers are shared
	from     barrier.CheckpointRef
	lineages barrier.Lineages
	ctx      context.Context
	cancel   context.CancelFunc
	revoked  atomic.Bool
	tables   map[ids.TaskID]*checkpoint.FileTable // loop
	bases    map[ids.TaskID]taskBase              // loop
	dir      string
	// producer writes repartition records (R8); set before any task is adopted.
	producer *kafka.Producer
	// failed: tasks failed, and the rollback is asked for failedWait later; loop.
	failed     bool
	failedWait time.Duration
}

// startTasks begins to restore what a Start gave this instance.
func (i *instance) startTasks(e barrier.DoStartTasks) {
	i.owns(e.All)
	i.lineages = e.Lineages
	if i.cfg.Guarantee == ExactlyOnce {
		i.txns.step(transactions.Started{From: e.From.N, Tasks: i.startList(e.Tasks)})
	}
	if n := i.cfg.RestoreFrom; n != nil && ids.CheckpointID(*n) != e.From.N {
		i.log.Warn("RestoreFrom was carried out before and is not repeated; remove the option", "checkpoint", *n, "from", int64(e.From.N))
	}
	if i.cfg.StartFrom != "" && e.From.N > 0 {
		i.log.Warn("StartFrom was carried out before, or is not needed; remove the option", "checkpoint", i.cfg.StartFrom, "from", int64(e.From.N))
	}
	i.startRun(e)
}

// owns notes which tasks this instance has now.
func (i *instance) owns(list barrier.TaskSet) {
	i.tasks = list
	i.group.setOwned(slices.Clone(list))
	i.status.update(func(h *Health) {
		h.Tasks = h.Tasks[:0:0]
		for _, t := range list {
			h.Tasks = append(h.Tasks, t.String())
		}
	})
}

// startRun begins to restore tasks as one incarnation, beside what runs.
func (i *instance) startRun(e barrier.DoStartTasks) {
	if len(e.Tasks) == 0 {
		return // a run without tasks would have no producer to wait for at a checkpoint
	}
	r := &run{
		i: i, inc: e.Incarnation, life: e.Life, tasks: e.Tasks, left: e.Tasks, from: e.From, lineages: e.Lineages,
		tables: map[ids.TaskID]*checkpoint.FileTable{}, bases: map[ids.TaskID]taskBase{}, share: max(len(i.tasks), 1),
		dir: filepath.Join(i.stateDir, "run", fmt.Sprintf("%016x-%d", i.self.Rand, e.Incarnation)),
	}
	r.ctx, r.cancel = context.WithCancel(i.ctx)
	i.runs = append(i.runs, r)
	for _, t := range e.Tasks {
		r.tables[t] = checkpoint.NewFileTable()
		i.prefetch.claim(t)
	}
	i.log.Info("starting tasks", "tasks", taskNames(e.Tasks), "from", int64(e.From.N), "incarnation", int64(e.Incarnation))
	logEnd := i.machine.LogEnd()
	i.background(func(context.Context) { r.start(logEnd) })
}

// stopRun stops all tasks for a rollback: what no completed checkpoint lists is
// aborted.
func (i *instance) stopRuns() {
	i.dropRuns()
	i.txns.step(transactions.RolledBack{})
}

// dropRuns stops all tasks at once; what they still hand over is dropped.
func (i *instance) dropRuns() {
	for n, c := range i.checkpoints {
		c.cancel()
		delete(i.checkpoints, n)
	}
	for len(i.runs) > 0 {
		i.dropRun(i.runs[0])
	}
	i.tasks = nil
}

// dropRun stops the tasks of a run.
func (i *instance) dropRun(r *run) {
	i.runs = slices.DeleteFunc(i.runs, func(x *run) bool { return x == r })
	r.revoked.Store(true)
	r.cancel()
	done := make([]<-chan struct{}, 0, len(i.workers))
	for _, w := range i.workers {
		done = append(done, w.Revoke(r.inc))
	}
	if r.producer != nil {
		r.producer.Close()
	}
	i.wg.Add(1)
	go func() { // the folder goes when the tasks let go of it
		defer i.wg.Done()
		for _, d := range done {
			<-d
		}
		_ = os.RemoveAll(r.dir)
	}()
}

// start restores and adopts the tasks, in the background.
func (r *run) start(logEnd int64) {
	i := r.i
	if len(r.tasks) == 0 {
		return
	}
	i.setbacks.wait(r.ctx, r.tasks)
	if !i.retry(r.ctx, "draw a producer id for repartition records", func(ctx context.Context) error {
		id, epoch, err := i.client.Transactions().InitProducer(ctx)
		if err == nil {
			p := i.writer.NewProducer(kafka.ProducerOptions{
				ID: id, Epoch: epoch, Once: i.cfg.Guarantee == ExactlyOnce, OnFail: r.producerFailed,
			})
			ready := make(chan struct{})
			i.loop.post(func() {
				if r.revoked.Load() {
					p.Close() // dropRun came first and saw no producer
					return
				}
				r.producer = p
				close(ready)
			})
			select {
			case <-ready:
			case <-r.ctx.Done():
				p.Close()
			}
		}
		return err
	}) {
		return
	}
	src, err := i.loadSource(r.ctx, r.from)
	if err != nil {
		r.giveUp(err)
		return
	}
	if err := i.checkState(src.manifest); err != nil {
		r.giveUp(final(err))
		return
	}
	have, err := r.channelBounds(src.manifest)
	if err != nil {
		r.giveUp(err)
		return
	}
	for _, t := range r.tasks {
		if r.ctx.Err() != nil {
			return
		}
		if r.stopped(t) {
			continue
		}
		if err := r.startTask(t, src, have, logEnd); err != nil && !r.stopped(t) {
			r.giveUp(fmt.Errorf("start task %s: %w", t, err))
			return
		}
	}
}

// giveUp reports an error of a start: what repetition may mend is Failed and
// leads to another start, the rest ends the application.
func (r *run) giveUp(err error) {
	if r.ctx.Err() != nil {
		return
	}
	r.i.loop.post(func() { r.i.failTasks(r, r.left, err) })
}

// startTask restores one task and hands it to its worker.
func (r *run) startTask(t ids.TaskID, src *source, have map[ids.TopicPartition]bounds, logEnd int64) error {
	i := r.i
	restored, err := r.restoreTask(t, src)
	if err != nil {
		return err
	}
	if err := r.fit(restored.Positions, have); err != nil {
		if restored.Engine != nil {
			_ = restored.Engine.Close() // never used
		}
		return err
	}
	task, err := tasks.New(r.spec(t, logEnd), r, restored, i.envConfig(r.share))
	if err != nil {
		if restored.Engine != nil {
			_ = restored.Engine.Close() // never used
		}
		return err
	}
	taken := make(chan struct{})
	i.loop.post(func() {
		close(taken)
		if !r.has(t) {
			task.Discard()
			return
		}
		task.SetLineages(i.lineages) // they may have changed meanwhile
		i.workerOf(t).Adopt(task, func() {
			i.loop.post(func() {
				if r.has(t) {
					i.step(barrier.EvTaskRunning{Incarnation: r.inc, Tasks: barrier.NewTaskSet(t)})
				}
			})
		})
	})
	select {
	case <-taken:
	case <-i.loop.done: // nobody takes it any more
		select {
		case <-taken:
		default:
			task.Discard()
		}
	}
	return nil
}

func (r *run) spec(t ids.TaskID, logEnd int64) tasks.Spec {
	i := r.i
	s := tasks.Spec{
		ID: t, Incarnation: r.inc, Life: r.life, Sub: i.plan.Subtopologies()[t.Sub],
		Lineages: r.lineages, LogEnd: logEnd,
		HoldLimit:   max(i.cfg.AlignmentBytes/int64(r.share), 1),
		IdleTimeout: i.cfg.IdleTimeout, MaxSeen: i.cfg.RepartitionTime == MaximumSeen, TaskIdle: i.cfg.TaskIdle,
		SnapshotDir: func(n ids.CheckpointID) string {
			return filepath.Join(r.dir, "snapshots", fmt.Sprintf("%d-%s", n, t))
		},
		AtLeastOnce: i.cfg.Guarantee == AtLeastOnce, Rules: i.cfg.TestRules.Tasks,
	}
	s.Rules.Rules = i.cfg.TestRules.Barrier
	s.Inputs, s.Outputs = tasks.InputsOf(i.plan, t), tasks.OutputsOf(i.plan, t)
	inputs := len(s.Inputs) * r.share // about; tasks differ little
	s.InputBytes = int(max(i.cfg.FetchBytes/int64(max(inputs, 1)), leastInput))
	s.TurnBytes = i.cfg.turnBytes(r.share)
	return s
}

// restoreTask makes the local state of a task from the checkpoint.
func (r *run) restoreTask(t ids.TaskID, src *source) (tasks.Restored, error) {
	i := r.i
	out := tasks.Restored{LastBarrier: r.from.N, External: map[ids.TopicPartition]int64{}}
	dir := filepath.Join(r.dir, t.String())
	var files []checkpoint.FileRef
	part, err := src.task(t)
	if err != nil {
		return out, err
	}
	if r.from.N == 0 {
		out.External, out.Positions = src.zero(i.plan, t)
	}
	switch {
	case part == nil:
	case r.from.N == 0:
		files, out = part.Files, decodeSeed(part, out)
	default:
		files, out.Cut = part.Files, src.cut(t)
		if out, err = decodePart(part, out); err != nil {
			return out, err
		}
	}
	if err := r.lateInputs(t, &out); err != nil {
		return out, err
	}
	if len(i.plan.Subtopologies()[t.Sub].Stores) == 0 {
		return out, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return out, fmt.Errorf("make the state folder: %w", err)
	}
	if len(files) > 0 {
		begun := time.Now()
		done, err := i.restore.Restore(r.ctx, checkpoint.TaskRestore{
			Marker: checkpoint.RestoreMarker{App: i.cfg.ApplicationID, Life: r.life, Checkpoint: r.from.N, Task: t},
			Dir:    dir, Files: files, Vanished: i.cfg.CheckpointTimeout, Copies: i.files,
		})
		if err != nil {
			return out, err
		}
		i.restoredFrom(t, r.from.N, done)
		// The restorer's mark is no engine's; the seal takes its place.
		if err := os.Remove(filepath.Join(dir, checkpoint.RestoreMarkerName)); err != nil {
			return out, fmt.Errorf("prepare restored state: %w", err)
		}
		if err := state.WriteSeal(dir, fmt.Sprintf("checkpoint %d", r.from.N)); err != nil {
			return out, err
		}
		if r.from.N > 0 { // an earlier life's objects are not referenced (R30)
			r.tables[t].Restored(r.from.N, files)
		}
		i.log.Info("restored", "task", t.String(), "bytes", done.Bytes, "downloaded", done.Downloaded, "took", time.Since(begun).Round(time.Millisecond))
	}
	out.Engine, err = i.openEngine(dir)
	return out, err
}

// failTasks reports that tasks cannot go on; on the loop. Errors of the user's
// code, data or set-up end the application, others lead to a rollback, as the
// restart strategy allows.
func (i *instance) failTasks(r *run, list []ids.TaskID, err error) {
	list = r.tasksIn(list)
	if r.revoked.Load() || i.ending || len(list) == 0 {
		return
	}
	wait, end := r.failedWait, error(nil)
	if _, retry := causeOf(err); !r.failed || !retry {
		wait, end = i.setbacks.failed(list, err)
	}
	if end != nil {
		i.end(end)
		return
	}
	// Whatever else fails before the rollback is part of the same setback.
	r.failed, r.failedWait = true, wait
	i.log.Error("tasks failed; rolling back to the last checkpoint", "tasks", taskNames(list), "in", wait, "error", err)
	failed := barrier.EvTaskFailed{Incarnation: r.inc, Tasks: barrier.NewTaskSet(list...), Error: err.Error()}
	if wait == 0 {
		i.step(failed)
		return
	}
	time.AfterFunc(wait, func() { i.post(failed) }) // void if the tasks were stopped meanwhile
}

// passing hides what an error is made of, so that it counts as one that a
// rollback may mend.
type passing struct{ err error }

func (p passing) Error() string { return p.err.Error() }

func (r *run) producerFailed(err error) {
	r.i.loop.post(func() { r.i.failTasks(r, r.left, fmt.Errorf("write records: %w", r.i.writeAdvice(err))) })
}

// sinkFailed reports a refused sink batch that only the user can mend.
func (i *instance) sinkFailed(e transactions.Send, err error) {
	if permanent(err) {
		i.failEach([]ids.TaskID{e.Task}, fmt.Errorf("write to %s: %w", e.Partition, err))
	}
}

func taskNames(list []ids.TaskID) []string {
	out := make([]string, len(list))
	for n, t := range list {
		out[n] = t.String()
	}
	return out
}
