package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/tasks"
)

// logInstance is one run of changelog mode under one InstanceID: the shell
// around changelog.Machine, as instance is around the machines of barrier mode.
// Its fields belong to the loop's goroutine unless said otherwise.
type logInstance struct {
	*deployment
	self ids.InstanceID
	log  *slog.Logger

	loop    *loop
	started time.Time
	ctx     context.Context // cancelled when the instance ends
	cancel  context.CancelFunc
	wg      sync.WaitGroup // background work

	machine  *changelog.Machine
	fetcher  *kafka.Fetcher
	restorer *kafka.Fetcher // of changelogs: they must not delay inputs
	writer   *kafka.Writer
	workers  []*tasks.Worker
	group    *logGroup
	txn      *logTxn
	runs     map[ids.Incarnation]*logRun

	members  []ids.InstanceID // of the group
	standbys map[ids.TaskID]*logStandby
	warmups  logWarmups
	leaving  map[ids.TaskID]<-chan struct{} // of the last standby of a task

	// dirty: tasks did something since the last tick; waitingBytes are in batches
	// that no producer has yet; uncommitted are in layers of stores.
	dirty        atomic.Bool
	waitingBytes atomic.Int64
	uncommitted  atomic.Int64
	hurried      atomic.Bool

	purged  time.Time
	purging bool
	exiting bool
	result  error
}

// idleCommit is how often commit points pass through tasks that seem idle.
const idleCommit = time.Second

func (i *logInstance) now() int64 { return time.Since(i.started).Milliseconds() }

func (i *logInstance) background(f func(ctx context.Context)) {
	i.wg.Add(1)
	go func() {
		defer i.wg.Done()
		f(i.ctx)
	}()
}

// step gives the machine an event and performs what it asks for.
func (i *logInstance) step(ev changelog.Event) {
	if i.exiting {
		return
	}
	// A copy: performing an effect may step again.
	for _, e := range append([]changelog.Effect(nil), i.machine.Step(i.now(), ev)...) {
		i.perform(e)
	}
	switch ev := ev.(type) {
	case changelog.EvAssigned:
		i.members = ev.Instances
		i.placeStandbys()
	case changelog.EvClosed:
		i.placeStandbys()
	}
}

func (i *logInstance) post(ev changelog.Event) { i.loop.post(func() { i.step(ev) }) }

// fail hears of an error of a task or a producer, on any goroutine.
func (i *logInstance) fail(err error) {
	i.distrust(err)
	if cause, retry := causeOf(err); !retry {
		i.setbacks.report(Failure{Time: time.Now(), Err: err, Cause: cause})
		i.post(changelog.EvFatal{Err: err})
		return
	}
	i.post(changelog.EvFailed{Err: err})
}

// runChangelog runs changelog mode until ctx ends or the application fails.
func (d *deployment) runChangelog(ctx context.Context) error {
	i := &logInstance{
		deployment: d, self: d.newInstanceID(), loop: newLoop(), started: time.Now(),
		runs: map[ids.Incarnation]*logRun{}, standbys: map[ids.TaskID]*logStandby{}, leaving: map[ids.TaskID]<-chan struct{}{},
	}
	i.log = d.cfg.Logger.With("instance", i.self.String())
	i.ctx, i.cancel = context.WithCancel(context.Background())
	defer i.cancel()
	d.status.update(func(h *Health) { h.Instance, h.Tasks, h.Restoring = i.self.String(), nil, nil })
	i.machine = changelog.NewMachine(changelog.Config{
		Self: i.self, Interval: d.cfg.CommitInterval.Milliseconds(), IdleInterval: idleCommit.Milliseconds(),
		ShutdownDeadline: d.cfg.ShutdownDeadline.Milliseconds(), GenerationTimeout: d.cfg.generationTimeout().Milliseconds(), Restart: d.cfg.Restart,
	})
	if err := i.open(); err != nil {
		i.close()
		return err
	}
	d.globals.attach(func(err error) { i.post(changelog.EvFatal{Err: err}) })
	defer d.globals.attach(nil)
	stop := context.AfterFunc(ctx, func() {
		i.log.Info("stopping: a last commit is made", "deadline", d.cfg.ShutdownDeadline)
		i.post(changelog.EvShutdown{})
	})
	defer stop()
	i.loop.run(min(tickEvery, max(d.cfg.CommitInterval/4, time.Millisecond)), func() {
		i.step(changelog.EvTick{Dirty: i.dirty.Load()})
		i.probe()
	}, func() bool { return i.exiting })
	i.close()
	return i.result
}

// open makes the parts of the instance; close undoes it in any state.
func (i *logInstance) open() error {
	i.fetcher = i.client.NewFetcher(kafka.FetcherConfig{
		MaxBytes: fetchAnswer, PartitionMaxBytes: fetchPartition, TopicIDs: i.topicIDs, OnState: i.brokerState("fetch"),
	})
	i.restorer = i.client.NewFetcher(kafka.FetcherConfig{OnState: i.brokerState("restore")})
	i.writer = i.client.NewWriter(kafka.WriterConfig{
		Compression: i.codec, MaxInFlightBytes: int(i.cfg.ProduceBytes), OnState: i.brokerState("produce"),
	})
	for range i.cfg.Workers {
		i.workers = append(i.workers, tasks.NewWorker(i.fetcher, i.congested))
	}
	i.txn = newLogTxn(i)
	if err := i.fenceFormer(); err != nil {
		return err
	}
	i.txn.begin()
	group, err := newLogGroup(i)
	if err != nil {
		return err
	}
	i.group = group
	return nil
}

func (i *logInstance) brokerState(what string) func(string, error) {
	return func(broker string, err error) {
		if err != nil {
			i.log.Warn("broker cannot be reached; retrying", "for", what, "broker", broker, "error", err)
		} else {
			i.log.Info("broker can be reached again", "for", what, "broker", broker)
		}
	}
}

// congested tells workers to stop producing while too much is not acknowledged,
// or waits for the next transaction.
func (i *logInstance) congested() (bool, <-chan struct{}) {
	if i.writer.Full() {
		return true, i.writer.Room()
	}
	return i.waitingBytes.Load() > i.cfg.ProduceBytes, nil
}

// close ends everything; nothing of the instance runs afterwards.
func (i *logInstance) close() {
	for _, r := range i.runs {
		r.revoked.Store(true)
		r.cancel()
	}
	for _, w := range i.workers {
		w.Stop() // closes the tasks that are left
	}
	if i.group != nil {
		i.group.close()
	}
	i.cancel()
	for _, f := range []*kafka.Fetcher{i.fetcher, i.restorer} {
		if f != nil {
			_ = f.Close()
		}
	}
	if i.writer != nil {
		_ = i.writer.Close()
	}
	i.wg.Wait()
}

// perform carries out one effect of the machine.
func (i *logInstance) perform(e changelog.Effect) {
	if f, name := i.cfg.TestRules.Phase, logPhase(e); f != nil && name != "" {
		f(name)
	}
	switch e := e.(type) {
	case changelog.DoStart:
		for _, t := range e.Tasks {
			i.startRun(t)
		}
	case changelog.DoClose:
		for _, t := range e.Tasks {
			i.closeRun(t)
		}
	case changelog.DoTrigger:
		i.trigger(e)
	case changelog.DoFlush:
		i.txn.flush(e.N)
	case changelog.DoOffsets:
		list, err := i.passedOffsets(e.N)
		if i.cfg.TestRules.StoreEarly {
			i.apply(changelog.DoApply{N: e.N, Committed: true})
		}
		i.txn.offsets(e, list, err)
	case changelog.DoEnd:
		i.txn.end(e.N)
	case changelog.DoApply:
		i.apply(e)
	case changelog.DoOpen:
		i.txn.openInterval(e.N, e.Fresh)
	case changelog.DoDrop:
		i.txn.drop()
	case changelog.DoFence:
		i.fence(e.Instances)
	case changelog.DoOwned:
		i.group.setOwned(e.Tasks)
	case changelog.DoRejoin:
		i.group.rejoin()
	case changelog.DoReport:
		i.report(e)
	case changelog.DoSetback:
		i.setback(e)
	case changelog.DoWarn:
		if e.Err != nil {
			i.log.Error(e.Text, "error", e.Err)
		} else {
			i.log.Warn(e.Text)
		}
	case changelog.DoExit:
		i.exit(e.Err)
	default:
		i.exit(fmt.Errorf("internal error: no reaction to effect %T", e))
	}
}

// logPhase names where the instance stands in a commit, for tests that kill it
// there.
func logPhase(e changelog.Effect) string {
	switch e := e.(type) {
	case changelog.DoStart:
		return "restoring"
	case changelog.DoTrigger:
		return "passing"
	case changelog.DoFlush:
		return "flushing"
	case changelog.DoOffsets:
		return "offsets"
	case changelog.DoEnd:
		return "ending"
	case changelog.DoApply:
		if e.Committed {
			return "applying"
		}
	}
	return ""
}

// exit leaves the group, so that the others need not wait for the session
// timeout, unless it is a static member that shall come back, and ends the loop.
// The first reason counts.
func (i *logInstance) exit(err error) {
	if i.exiting {
		return
	}
	i.exiting, i.result = true, err
	i.txn.abort()
	i.group.leave(i.cfg.StaticMembership && err == nil)
}

// setback reports what the machine made of a failure.
func (i *logInstance) setback(e changelog.DoSetback) {
	f := Failure{Time: time.Now(), Err: e.Err, Attempt: e.Attempt, Restart: !e.GiveUp, Delay: time.Duration(e.Wait) * time.Millisecond}
	f.Cause, _ = causeOf(e.Err)
	i.setbacks.report(f)
	if f.Restart {
		i.log.Error("the commit interval is given up; tasks start again from the last commit", "in", f.Delay, "error", f.Err)
	}
}

func (i *logInstance) report(e changelog.DoReport) {
	i.status.update(func(h *Health) { h.Tasks, h.Restoring = taskNames(e.Tasks), taskNames(e.Restoring) })
	i.status.set(map[changelog.Condition]State{
		changelog.Joining: Joining, changelog.Restoring: Restoring, changelog.Running: Running, changelog.Stopping: Stopping,
	}[e.State], nil)
}

// retry repeats op until it succeeds or ctx ends. What will never succeed is
// returned at once.
func (i *logInstance) retry(ctx context.Context, what string, op func(context.Context) error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := op(try)
		cancel()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if permanent(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		i.log.Warn("retrying", "what", what, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}
