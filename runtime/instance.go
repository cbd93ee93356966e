package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/tasks"
	"github.com/tidegate/tidegate/transactions"
)

// errBecomeNew ends an instance that was declared dead: the application goes on
// as another one.
var errBecomeNew = errors.New("declared dead by the coordinator")

// tickEvery is how often the machines see the clock.
const tickEvery = 20 * time.Millisecond

// instance is one run under one InstanceID: the shell around the machines. Its
// fields belong to the loop's goroutine unless said otherwise.
type instance struct {
	*deployment
	self ids.InstanceID
	log  *slog.Logger

	loop    *loop
	started time.Time
	ctx     context.Context // cancelled when the instance ends
	cancel  context.CancelFunc
	wg      sync.WaitGroup // background work of the instance

	machine *barrier.Machine
	life    ids.Life
	names   checkpoint.Names
	catalog *checkpoint.Catalog
	fetcher *kafka.Fetcher
	writer  *kafka.Writer
	workers []*tasks.Worker
	group   *groupShell
	control *controlShell
	txns    *txnShell
	upload  *checkpoint.Uploader
	restore *checkpoint.Restorer
	cleaner *checkpoint.Cleaner

	partCache cachedPart
	// waitingBytes are in sink batches that wait for their transaction.
	waitingBytes atomic.Int64
	purged       time.Time
	purging      bool

	runs        []*run          // what the latest Start and the handovers since gave
	tasks       barrier.TaskSet // of all of them
	restoring   barrier.TaskSet // as Health shows them
	lineages    barrier.Lineages
	uploads     int64 // numbers uploads, so that no name is put twice (R15)
	prefetch    *prefetcher
	checkpoints map[ids.CheckpointID]*running
	stopping    bool            // a clean stop has begun
	owed        barrier.TaskSet // tasks of then that no checkpoint has covered or handed over since
	ending      bool
	displacedBy ids.InstanceID // a later instance of the same name, if one ended this one
	endBy       time.Time      // when waiting for aborts is given up
	result      error
}

// Bounds on one fetch answer: what is decoded costs several times its bytes, and
// larger answers do not make fetching faster.
const (
	fetchAnswer    = 1 << 20
	fetchPartition = 256 << 10
)

// now is the monotonic clock of the machines, in milliseconds.
func (i *instance) now() int64 { return time.Since(i.started).Milliseconds() }

// mono is the same clock for the transaction pool.
func (i *instance) mono() time.Duration { return time.Since(i.started) }

// background runs f on a goroutine that the instance waits for at its end.
func (i *instance) background(f func(ctx context.Context)) {
	i.wg.Add(1)
	go func() {
		defer i.wg.Done()
		f(i.ctx)
	}()
}

// step gives the machine an event and performs what it asks for.
func (i *instance) step(ev barrier.Event) {
	if i.ending {
		return
	}
	effects := append([]barrier.Effect(nil), i.machine.Step(i.now(), ev)...)
	for _, e := range effects {
		i.perform(e)
		if i.ending {
			return
		}
	}
	end := i.machine.LogEnd()
	for _, w := range i.workers {
		w.SetLog(end)
	}
	i.showRestoring()
}

// showRestoring lists the tasks that are being restored, if those changed.
func (i *instance) showRestoring() {
	now := i.machine.Restoring()
	if now.Equal(i.restoring) {
		return
	}
	i.restoring = now
	i.status.update(func(h *Health) { h.Restoring = taskNames(now) })
}

// post lets the machine see an event from any goroutine.
func (i *instance) post(ev barrier.Event) { i.loop.post(func() { i.step(ev) }) }

// end begins the end of the instance: tasks stop, transactions that no ack
// listed are aborted at once, so that consumers do not wait for their timeout,
// and the loop goes on until that is done. The first reason counts.
func (i *instance) end(err error) {
	if i.ending {
		return
	}
	i.ending, i.result = true, err
	i.endBy = time.Now().Add(endFor)
	i.dropRuns()
	i.txns.step(transactions.Shutdown{})
	if i.group != nil {
		i.group.leave() // the others need not wait for the session timeout
	}
}

// endFor bounds how long an ending instance waits for its aborts.
const endFor = 3 * time.Second

// ended reports whether the loop may stop.
func (i *instance) ended() bool {
	return i.ending && (i.txns == nil || i.txns.pool.Idle() || time.Now().After(i.endBy))
}

// runInstance runs one instance to its end: nil after a clean stop,
// errBecomeNew when the application should go on as another instance.
func (d *deployment) runInstance(ctx context.Context) error {
	i := &instance{
		deployment: d, self: d.newInstanceID(), loop: newLoop(), started: time.Now(),
		checkpoints: map[ids.CheckpointID]*running{},
	}
	i.log = d.cfg.Logger.With("instance", i.self.String())
	i.ctx, i.cancel = context.WithCancel(context.Background())
	defer i.cancel()
	d.status.update(func(h *Health) { h.Instance, h.Tasks, h.Restoring = i.self.String(), nil, nil })
	if err := i.open(ctx); err != nil {
		i.close()
		return err
	}
	d.globals.attach(func(err error) { i.loop.post(func() { i.end(err) }) })
	defer d.globals.attach(nil)
	if n := d.cfg.RestoreFrom; n != nil {
		i.post(barrier.EvRestore{N: ids.CheckpointID(*n), AllowDuplicates: d.cfg.AllowDuplicates, Nonce: restoreNonce})
	}
	stop := context.AfterFunc(ctx, func() {
		i.loop.post(func() {
			if d.cfg.StaticMembership {
				i.pause()
				return
			}
			i.log.Info("stopping: a last checkpoint is taken", "deadline", d.cfg.ShutdownDeadline)
			i.stopping, i.owed = true, i.tasks
			i.step(barrier.EvShutdown{})
		})
	})
	defer stop()
	i.loop.run(tickEvery, func() {
		i.control.tick()
		i.step(barrier.EvTick{})
	}, i.ended)
	i.close()
	if !i.displacedBy.IsZero() {
		return fmt.Errorf("%w: %w", errBecomeNew, &displacedError{i.self, i.displacedBy})
	}
	return i.result
}

// restoreNonce is the same for all instances and starts, so that a restart with
// the option still in place does not go back again.
const restoreNonce = "option"

// open makes the parts of the instance; close undoes it in any state.
func (i *instance) open(ctx context.Context) error {
	machine, err := barrier.NewMachine(i.machineConfig())
	if err != nil {
		return err
	}
	i.machine = machine
	i.fetcher = i.client.NewFetcher(kafka.FetcherConfig{
		MaxBytes: fetchAnswer, PartitionMaxBytes: fetchPartition, TopicIDs: i.topicIDs, OnState: i.brokerState("fetch"),
	})
	i.writer = i.client.NewWriter(kafka.WriterConfig{
		Compression: i.codec, MaxInFlightBytes: int(i.cfg.ProduceBytes), OnState: i.brokerState("produce"),
	})
	i.upload = checkpoint.NewUploader(i.cfg.Store, checkpoint.UploadOptions{})
	i.restore = checkpoint.NewRestorer(i.cfg.Store, checkpoint.RestoreOptions{})
	for range i.cfg.Workers {
		i.workers = append(i.workers, tasks.NewWorker(i.fetcher, i.congested))
	}
	i.prefetch = newPrefetcher(i)
	i.group = newGroupShell(i)
	i.control, err = openControl(ctx, i)
	if err != nil {
		return err
	}
	return nil
}

// handoverTimeout bounds the checkpoint of a handover, behind whose barrier tasks
// that move stand still (R25): by what it takes to notice that an instance is
// lost, since moving a task on purpose should not cost more. (The machine allows
// twice the time of the checkpoint before in any case.)
func (c Config) handoverTimeout() time.Duration {
	return min(c.CheckpointTimeout, max(c.SessionTimeout, leastHandover))
}

// readyTimeout is how long new owners that are late with their prefetches delay
// those that are not (R25): as long, but a third of the deadline of one that
// leaves, so that it need not wait until then.
func (c Config) readyTimeout() time.Duration {
	return min(c.ShutdownDeadline/3, max(c.SessionTimeout, leastHandover))
}

// leastHandover keeps short session timeouts from making handovers impossible on
// a busy machine.
const leastHandover = 5 * time.Second

func (i *instance) machineConfig() barrier.Config {
	c := i.cfg
	ms := func(d time.Duration) int64 { return d.Milliseconds() }
	aborts := c.ToleratedAborts
	if aborts == 0 {
		aborts = -1 // to the machine 0 is "not said"
	}
	graph := graphOf(i.plan, c.Guarantee)
	var forfeit []ids.CheckpointID
	for _, n := range c.AllowLostOf {
		forfeit = append(forfeit, ids.CheckpointID(n))
	}
	return barrier.Config{
		App: c.ApplicationID, Self: i.self, NewLife: ids.Life(randomID()), Fingerprint: i.fingerprint,
		Tasks: barrier.NewTaskSet(i.plan.Tasks()...), Graph: graph, TxnIDs: c.ToleratedAborts + 2 + 2*transacting(graph),
		Interval: ms(c.CheckpointInterval), CheckpointTimeout: ms(c.CheckpointTimeout),
		ToleratedAborts: aborts, TransactionTimeout: ms(c.TransactionTimeout),
		SessionTimeout: ms(c.SessionTimeout), ExpectedRestart: ms(c.ExpectedRestart),
		HandoverTimeout: ms(c.handoverTimeout()), ReadyTimeout: ms(c.readyTimeout()),
		ShutdownDeadline: ms(c.ShutdownDeadline), Settle: 200, LeaveGrace: 1000,
		AppendRetry: 2000, Retain: c.RetainCheckpoints, SnapshotRecords: int64(c.ControlLogRecords),
		ForfeitAll: c.AllowLost, Forfeit: forfeit, Rules: c.TestRules.Barrier,
	}
}

// close ends everything of the instance; nothing of it runs afterwards.
func (i *instance) close() {
	i.dropRuns()
	if i.prefetch != nil {
		i.prefetch.close()
	}
	i.cancel()
	i.txns.close()
	if i.group != nil {
		i.group.close()
	}
	if i.control != nil {
		i.control.close()
	}
	for _, w := range i.workers {
		w.Stop()
	}
	if i.fetcher != nil {
		_ = i.fetcher.Close()
	}
	if i.writer != nil {
		_ = i.writer.Close()
	}
	i.wg.Wait()
}

func (i *instance) brokerState(what string) func(string, error) {
	return func(broker string, err error) {
		if err != nil {
			i.log.Warn("broker cannot be reached; retrying", "for", what, "broker", broker, "error", err)
		} else {
			i.log.Info("broker can be reached again", "for", what, "broker", broker)
		}
	}
}

// perform carries out one effect of the machine.
func (i *instance) perform(e barrier.Effect) {
	switch e := e.(type) {
	case barrier.DoAppend:
		if b, ok := e.Record.Body.(barrier.Forfeit); ok {
			i.log.Error("output of a completed checkpoint is lost and given up, as AllowLostOutput says", "checkpoint", int64(b.N), "transaction", b.Handle.String(), "owner", b.Owner.String())
		}
		i.control.append(e.Record)
	case barrier.DoJoinGroup:
		i.group.join(e.Leaving)
	case barrier.DoLeaveGroup:
		i.group.leave()
	case barrier.DoUseIDs:
		i.useIDs(e)
	case barrier.DoStartTasks:
		i.startTasks(e)
	case barrier.DoStopTasks:
		i.stopTasks(e)
	case barrier.DoPrefetch:
		i.prefetch.ask(e)
	case barrier.DoMoveTasks:
		i.moveTasks(e)
	case barrier.DoTrigger:
		i.trigger(e)
	case barrier.DoDecided:
		i.decided(e)
	case barrier.DoCommit:
		i.txns.commit(e)
	case barrier.DoRelease:
		i.txns.step(transactions.CommittedRead{N: e.N})
	case barrier.DoStoreManifest:
		i.storeManifest(e)
	case barrier.DoMark:
		i.mark(e)
	case barrier.DoFence:
		i.txns.fence(e)
	case barrier.DoCheckOffsets:
		i.checkOffsets(e)
	case barrier.DoWriteOffsets:
		i.writeOffsets(e)
	case barrier.DoLookForLoss:
		i.lookForLoss(e)
	case barrier.DoStoreZero:
		i.storeZero(e)
	case barrier.DoClean:
		i.clean(e)
	case barrier.DoPurge:
		i.purge(e)
	case barrier.DoTrim:
		i.trim(e)
	case barrier.DoBecomeNew:
		i.log.Warn("this instance was declared dead; going on as a new one", "reason", e.Reason, "displaced by", e.DisplacedBy.String())
		if !i.ending {
			i.displacedBy = e.DisplacedBy
		}
		i.end(errBecomeNew)
	case barrier.DoState:
		i.setState(e.State)
	case barrier.DoFatal:
		i.group.leave()
		i.end(i.withDifferences(e.Err))
	case barrier.DoExit:
		i.warnOfOwed()
		i.end(nil)
	default:
		i.end(fmt.Errorf("internal error: no reaction to effect %T", e))
	}
}

func (i *instance) setState(s barrier.State) {
	switch s {
	case barrier.StateJoining:
		i.status.set(Joining, nil)
	case barrier.StateRestoring:
		i.status.set(Restoring, nil)
	case barrier.StateRunning:
		i.status.set(Running, nil)
	case barrier.StateStopping:
		i.status.set(Stopping, nil)
	case barrier.StateStopped, barrier.StateFailed:
		// The application's end sets these, after everything is closed.
	}
}
