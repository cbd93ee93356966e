package tasks

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
)

// housekeeping is how often a worker looks at timers and idle outputs when no
// batch comes.
const housekeeping = 50 * time.Millisecond

// Worker is one goroutine that owns tasks. Its methods may be called from any
// goroutine; commands are carried out in order.
type Worker struct {
	fetcher   Fetcher
	clock     func() time.Time
	congested func() (full bool, room <-chan struct{})

	mu       sync.Mutex
	commands []func()
	arrived  []delivery
	wake     chan struct{}
	logEnd   int64
	// cancels end the contexts of adopted tasks: at once, since the worker may
	// be within a user's function that waits for that.
	cancels []taskCancel

	// Below: the goroutine's own.
	tasks    []*Task
	seenLog  int64
	pressure backpressure
	spareC   []func()
	spareA   []delivery
	lastTick time.Time
	alone    []*Task // whose times may have to be announced
	quit     bool
	done     chan struct{}
}

type taskCancel struct {
	inc    ids.Incarnation
	task   ids.TaskID
	cancel context.CancelFunc
}

type delivery struct {
	t  *Task
	in *input
	b  *kafka.Batch
}

// NewWorker starts a worker; Stop ends it. congested reports whether tasks
// should stop producing; room, if any, is closed when they may go on.
func NewWorker(f *kafka.Fetcher, congested func() (full bool, room <-chan struct{})) *Worker {
	w := newWorker(brokers{f}, time.Now)
	w.congested = congested
	go w.run()
	return w
}

func newWorker(f Fetcher, clock func() time.Time) *Worker {
	return &Worker{fetcher: f, clock: clock, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (w *Worker) command(f func()) {
	w.mu.Lock()
	w.commands = append(w.commands, f)
	w.mu.Unlock()
	w.poke()
}

func (w *Worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// deliver is called on fetch goroutines.
func (w *Worker) deliver(t *Task, in *input, b *kafka.Batch) {
	w.mu.Lock()
	w.arrived = append(w.arrived, delivery{t, in, b})
	w.mu.Unlock()
	w.poke()
}

// Adopt gives the worker a task; running is called on the worker once it
// fetches.
func (w *Worker) Adopt(t *Task, running func()) {
	w.mu.Lock()
	w.cancels = append(w.cancels, taskCancel{t.spec.Incarnation, t.spec.ID, t.cancel})
	w.mu.Unlock()
	w.command(func() {
		t.worker, t.now = w, w.clock()
		t.setLog(max(w.seenLog, t.spec.LogEnd))
		w.tasks = append(w.tasks, t)
		slices.SortStableFunc(w.tasks, func(a, b *Task) int { return b.spec.ID.Compare(a.spec.ID) })
		if err := t.subscribe(w.fetcher); err != nil {
			t.fail(err)
			return
		}
		running()
	})
}

// cancel ends the contexts of the tasks of an incarnation (all tasks for 0).
func (w *Worker) cancel(inc ids.Incarnation) {
	w.cancelIf(func(c taskCancel) bool { return inc == 0 || c.inc == inc })
}

func (w *Worker) cancelIf(gone func(taskCancel) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancels = slices.DeleteFunc(w.cancels, func(c taskCancel) bool {
		if !gone(c) {
			return false
		}
		c.cancel()
		return true
	})
}

// Revoke closes the tasks of an incarnation (all tasks for 0); the channel is
// closed when the worker did so. Their contexts end at once; a user call that
// does not heed its context delays the rest.
func (w *Worker) Revoke(inc ids.Incarnation) <-chan struct{} {
	return w.remove(func(i ids.Incarnation, _ ids.TaskID) bool { return inc == 0 || i == inc })
}

// remove closes the tasks that are gone, their contexts at once; the channel is
// closed when the worker did so.
func (w *Worker) remove(gone func(inc ids.Incarnation, t ids.TaskID) bool) <-chan struct{} {
	w.cancelIf(func(c taskCancel) bool { return gone(c.inc, c.task) })
	done := make(chan struct{})
	w.command(func() {
		keep := w.tasks[:0]
		for _, t := range w.tasks {
			if gone(t.spec.Incarnation, t.spec.ID) {
				t.close()
			} else {
				keep = append(keep, t)
			}
		}
		clear(w.tasks[len(keep):])
		w.tasks = keep
		close(done)
	})
	return done
}

// Trigger begins checkpoint n on the tasks of an incarnation but some; with stop they
// stop behind its barrier.
func (w *Worker) Trigger(inc ids.Incarnation, n ids.CheckpointID, stop bool, but ...ids.TaskID) {
	w.command(func() {
		var due []*Task
		for _, t := range w.tasks {
			if t.spec.Incarnation == inc && !slices.Contains(but, t.spec.ID) {
				t.now = w.clock()
				if t.trigger(n, stop) {
					due = append(due, t)
				}
			}
		}
		snapshots(due, n)
	})
}

// Decided tells the tasks how checkpoint n ended.
func (w *Worker) Decided(n ids.CheckpointID, completed bool) {
	w.command(func() {
		for _, t := range w.tasks {
			t.decided(n, completed)
		}
	})
}

// Do runs f on the worker's goroutine, in order with the other commands; after
// Stop it is dropped.
func (w *Worker) Do(f func()) { w.command(f) }

// SetLog hands over the position in the control log, behind the commands that
// came before it: a task sees a Trigger before the position passes it.
func (w *Worker) SetLog(end int64) {
	w.mu.Lock()
	moved := end > w.logEnd
	w.logEnd = max(w.logEnd, end)
	w.mu.Unlock()
	if moved {
		w.poke()
	}
}

// Stop closes all tasks and ends the goroutine.
func (w *Worker) Stop() {
	w.cancel(0)
	w.command(func() {
		for _, t := range w.tasks {
			t.close()
		}
		w.tasks, w.quit = nil, true
	})
	<-w.done
}

func (w *Worker) run() {
	defer close(w.done)
	timer := time.NewTimer(housekeeping)
	defer timer.Stop()
	for {
		w.drain()
		if w.quit {
			return
		}
		now := w.clock()
		w.tick(now)
		full, room := w.congested()
		if !full {
			room = nil
		}
		if !full && w.stepAll(now) {
			w.flush(now.Add(-Linger))
			continue
		}
		next := w.flush(now.Add(-Linger))
		wait := housekeeping
		if w.pressure.heldBack {
			wait = upstreamTurn
		}
		if !next.IsZero() {
			wait = min(wait, max(next.Add(Linger).Sub(now), 100*time.Microsecond))
		}
		timer.Reset(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		case <-room:
		}
	}
}

// drain carries out commands and takes batches in, in the order in which they
// came within each kind. Commands go first: a batch of a revoked task finds it
// closed.
func (w *Worker) drain() {
	w.mu.Lock()
	commands, arrived, end := w.commands, w.arrived, w.logEnd
	w.commands, w.arrived = w.spareC[:0], w.spareA[:0]
	w.mu.Unlock()
	for _, f := range commands {
		f()
	}
	now := w.clock()
	for _, d := range arrived {
		d.t.now = now
		d.t.receive(d.in, d.b)
	}
	clear(commands)
	clear(arrived)
	w.spareC, w.spareA = commands, arrived
	if end > w.seenLog {
		w.seenLog = end
		for _, t := range w.tasks {
			t.setLog(end)
		}
	}
}

// stepAll gives every task a turn, those of later subtopologies first. Tasks
// whose records wait unread in a repartition topic have to wait for its reader,
// if that one is a task of this worker: what they would add only lengthens the
// queue, and with it the way of a barrier. (In Flink, back-pressure does this.)
func (w *Worker) stepAll(now time.Time) (progress bool) {
	w.pressure.begin(now)
	for _, t := range w.tasks {
		t.now = now
		most := w.pressure.most(t.spec.ID.Sub)
		if most == 0 {
			continue
		}
		if t.step(most) {
			progress = true
		}
		if t.behind() {
			w.pressure.behind(t.upstream)
		}
	}
	return progress
}

// flush hands over open batches that are older than the limit, and returns
// when the oldest of the others was opened.
func (w *Worker) flush(limit time.Time) (oldest time.Time) {
	for _, t := range w.tasks {
		if t.failed || len(t.open) == 0 {
			continue
		}
		if o := t.flushOpen(limit); !o.IsZero() && (oldest.IsZero() || o.Before(oldest)) {
			oldest = o
		}
	}
	return oldest
}

// tick announces times now and then.
func (w *Worker) tick(now time.Time) {
	if now.Sub(w.lastTick) < housekeeping {
		return
	}
	since := now.Sub(w.lastTick)
	w.lastTick = now
	w.alone = w.alone[:0]
	for _, t := range w.tasks {
		t.pace.look(since)
		if !t.failed && !t.parked && len(t.repartition) > 0 {
			t.now = now
			w.alone = append(w.alone, t)
		}
	}
	for _, s := range sharing(w.alone) {
		if len(s) == 1 {
			s[0].announceAlone(timeAlone)
		} else {
			s.announceAlone(timeAlone)
		}
	}
	clear(w.alone)
}
