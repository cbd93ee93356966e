package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/tasks"
	"github.com/tidegate/tidegate/topology"
	"github.com/tidegate/tidegate/transactions"
)

// uploadTries is how often a task's files are uploaded before the checkpoint
// is declined.
const uploadTries = 3

// running is a checkpoint under way on this instance (R16): it is acked once
// when all tasks passed, their repartition records and barriers are
// acknowledged, files and part are stored and transactions are prepared.
//
//	passing ─► passed ─► produced ─┐
//	   │ uploads ──────────────────┼─► part stored ─► acked
//	   └ transactions prepared ────┘
type running struct {
	n     ids.CheckpointID
	tasks int // that take part
	// carried take none: they started since the checkpoint before, and are listed
	// as that lists them (R26).
	carried barrier.TaskSet
	begun   time.Time
	passed  int
	parts   []checkpoint.TaskPart
	// versions of the tasks' states that this checkpoint holds
	versions map[ids.TaskID]uint64
	oldest   ids.Incarnation
	stop     bool // of a clean stop of all
	stored   int  // uploads done
	pause    time.Duration
	bytes    int64
	held     int64
	ctx      context.Context
	cancel   context.CancelFunc
	dirs     []string
	given    bool // declined or acked
	txns     bool
	writing  int  // producers that have not acknowledged everything
	written  bool // they all did
	alone    bool // committed before the decision (TestRules.CommitEarly)
}

// trigger begins checkpoint n on the local tasks.
func (i *instance) trigger(e barrier.DoTrigger) {
	if len(i.tasks) == 0 {
		return
	}
	c := &running{
		n: e.N, tasks: len(i.tasks) - len(e.Carried), carried: e.Carried, begun: time.Now(), oldest: e.Incarnation, stop: e.Stop,
		versions: map[ids.TaskID]uint64{},
	}
	c.ctx, c.cancel = context.WithCancel(i.ctx)
	c.txns = i.cfg.Guarantee == AtLeastOnce // written output is all there is (R11)
	i.checkpoints[e.N] = c
	i.phase("aligning")
	if len(e.Halt) > 0 {
		i.phase("halting")
	}
	if len(e.Carried) > 0 && !c.txns {
		i.txns.step(transactions.Carried{N: e.N, Tasks: e.Carried})
	}
	for _, r := range i.runs {
		for _, w := range i.workers {
			if len(e.Halt) > 0 {
				w.Halt(r.inc, e.N, e.Halt)
			}
			w.Trigger(r.inc, e.N, e.Stop, e.Carried...)
		}
	}
}

// passed takes a task's snapshot over.
func (i *instance) passed(r *run, s *tasks.Snapshot) {
	c := i.checkpoints[s.N]
	if !r.has(s.Task) {
		_ = os.RemoveAll(s.State.Dir)
		return
	}
	if i.cfg.Guarantee == ExactlyOnce {
		i.txns.step(taskPassed(i.mono(), s))
	}
	if c == nil {
		_ = os.RemoveAll(s.State.Dir) // decided meanwhile
		return
	}
	c.passed++
	c.pause = max(c.pause, s.Pause)
	c.oldest = min(c.oldest, barrier.Oldest(s.Positions, c.oldest))
	if s.State.Dir != "" {
		c.dirs = append(c.dirs, s.State.Dir)
	}
	i.uploadTask(c, r, s)
	if c.passed == c.tasks {
		i.awaitWrites(c)
	}
	i.step(barrier.EvPassed{N: s.N, Tasks: barrier.NewTaskSet(s.Task)})
}

// awaitWrites waits until everything that the tasks wrote is acknowledged.
func (i *instance) awaitWrites(c *running) {
	written := func() {
		if c.writing--; c.writing == 0 {
			c.written = true
			i.maybeAck(c)
		}
	}
	c.writing = 1
	for _, r := range i.runs {
		if r.producer == nil || c.carried.ContainsAll(r.left) { // nil: a Start that gave this instance no task
			continue
		}
		c.writing++
		r.producer.Barrier(func(err error) {
			i.loop.post(func() {
				if err == nil { // a failed producer reports by itself
					written()
				}
			})
		})
	}
	written()
}

// taskPassed tells the pool where a task's inputs stand at the barrier.
func taskPassed(now time.Duration, s *tasks.Snapshot) transactions.TaskPassed {
	ev := transactions.TaskPassed{Now: now, Task: s.Task, N: s.N}
	for tp, next := range s.External {
		ev.Offsets = append(ev.Offsets, transactions.Offset{Partition: tp, Next: next, LeaderEpoch: -1})
	}
	slices.SortFunc(ev.Offsets, func(a, b transactions.Offset) int { return a.Partition.Compare(b.Partition) })
	return ev
}

// uploadTask stores a task's files in the background.
func (i *instance) uploadTask(c *running, r *run, s *tasks.Snapshot) {
	part, err := i.encodePart(s)
	if err != nil {
		i.end(err)
		return
	}
	// Not s.State.Unchanged: the snapshot before may belong to an aborted
	// checkpoint, which holds changes that the base does not.
	base := r.base(s.Task)
	c.versions[s.Task] = s.State.Version
	up := checkpoint.TaskUpload{
		Names: i.names, Table: r.tables[s.Task], Base: base.n,
		Unchanged: s.State.Dir != "" && base.known && base.version == s.State.Version,
	}
	for _, f := range s.State.Files {
		up.Files = append(up.Files, checkpoint.LocalFile{Name: f.Name, Path: f.Path, Size: f.Size, Immutable: f.Immutable})
	}
	first := i.uploads
	i.uploads += uploadTries
	i.phase("uploading")
	i.background(func(context.Context) {
		var done checkpoint.Uploaded
		var err error
		for try := range int64(uploadTries) {
			up.Writer = checkpoint.Writer{Checkpoint: s.N, Task: s.Task, Incarnation: s.Incarnation, Attempt: first + try}
			if s.State.Dir == "" {
				break
			}
			if done, err = i.upload.Upload(c.ctx, up); err == nil || c.ctx.Err() != nil {
				break
			}
			i.log.Warn("upload failed", "checkpoint", int64(s.N), "task", s.Task.String(), "try", try+1, "error", err)
		}
		part.Base, part.Files = done.Base, done.Files
		if err == nil && s.State.Dir != "" {
			i.keepFiles(s, done.Files)
		}
		i.loop.post(func() {
			if i.checkpoints[s.N] != c {
				return
			}
			if err != nil {
				i.decline(c, barrier.DeclineUpload, err)
				return
			}
			c.parts = append(c.parts, part)
			c.stored++
			c.bytes += done.Bytes
			c.held += done.Referenced
			i.maybeAck(c)
		})
	})
}

// taskBase is the last completed checkpoint that a task took part in. The last of
// all lists the same files, if the task was carried over since (R26).
type taskBase struct {
	n       ids.CheckpointID
	version uint64 // of the state, as of n
	known   bool   // version is: n completed in this run
}

// base returns a task's base: at first the checkpoint that it started from.
func (r *run) base(t ids.TaskID) taskBase {
	if b, ok := r.bases[t]; ok {
		return b
	}
	return taskBase{n: r.from.N}
}

// settle tells the tables of those tasks that took part how a checkpoint ended.
func (r *run) settle(c *running, completed bool) {
	for t, table := range r.tables {
		switch {
		case c.carried.Contains(t):
		case !completed:
			table.Aborted(c.n)
		default:
			table.Completed(c.n, c.n)
			v, known := c.versions[t]
			r.bases[t] = taskBase{c.n, v, known}
		}
	}
}

func (i *instance) encodePart(s *tasks.Snapshot) (checkpoint.TaskPart, error) {
	p := checkpoint.TaskPart{
		Task: s.Task, Incarnation: s.Incarnation, Base: ids.NoCheckpoint,
		StreamTime: s.Times.Stream, Timers: s.Timers, Stores: storeInfos(i.plan.Subtopologies()[s.Task.Sub].Stores),
	}
	var err error
	if p.Times, err = json.Marshal(s.Times); err == nil {
		p.Positions, err = json.Marshal(s.Positions)
	}
	if err != nil {
		return p, fmt.Errorf("encode the snapshot of task %s: %w", s.Task, err)
	}
	for tp, next := range s.External {
		if i.cfg.TestRules.OffsetsAhead {
			next += 100
		}
		p.External = append(p.External, checkpoint.ExternalOffset{TopicPartition: tp, Offset: next})
	}
	return p, nil
}

// decodePart is the inverse of encodePart but for the files.
func decodePart(p *checkpoint.TaskPart, out tasks.Restored) (tasks.Restored, error) {
	var times barrier.TimesState
	if err := json.Unmarshal(p.Times, &times); err != nil {
		return out, fmt.Errorf("times of task %s: %w", p.Task, err)
	}
	if err := json.Unmarshal(p.Positions, &out.Positions); err != nil {
		return out, fmt.Errorf("positions of task %s: %w", p.Task, err)
	}
	out.Times, out.Timers = &times, p.Timers
	for _, e := range p.External {
		out.External[e.TopicPartition] = e.Offset
	}
	return out, nil
}

func storeInfos(stores []*topology.Store) []checkpoint.StoreInfo {
	var out []checkpoint.StoreInfo
	for _, s := range stores {
		out = append(out, checkpoint.StoreInfo{Name: s.Name, Operator: s.Name, Kind: s.Format, Key: s.Key.Fingerprint, Value: s.Value.Fingerprint})
	}
	return out
}

// prepared hears that all transactions for n are prepared.
func (i *instance) prepared(n ids.CheckpointID) {
	c := i.checkpoints[n]
	if c == nil {
		return
	}
	c.txns = true
	if i.cfg.TestRules.CommitEarly && !c.alone {
		c.alone = true
		for _, t := range i.txns.pool.Ack(n, i.mono()) {
			i.background(func(ctx context.Context) { _ = i.client.Transactions().End(ctx, t.Handle, true) })
		}
	}
	i.maybeAck(c)
}

// maybeAck stores the part and acks when everything is there.
func (i *instance) maybeAck(c *running) {
	if c.given || !c.txns || !c.written || c.stored < c.tasks {
		return
	}
	c.given = true
	part := checkpoint.Part{ // its own list: PutPart sorts it beside the loop
		App: i.cfg.ApplicationID, Life: i.life, Checkpoint: c.n, Instance: i.self, Tasks: slices.Clone(c.parts),
	}
	i.uploads++
	attempt := i.uploads
	i.background(func(context.Context) {
		key, err := i.upload.PutPart(c.ctx, i.names, attempt, part)
		i.loop.post(func() {
			if i.checkpoints[c.n] != c {
				return
			}
			if err != nil {
				c.given = false
				i.decline(c, barrier.DeclineUpload, err)
				return
			}
			i.partCache = cachedPart{key, part}
			i.phase("prepared")
			i.step(barrier.EvPrepared{N: c.n, Part: key, Oldest: c.oldest, Txns: i.listed(c.n)})
		})
	})
}

// listed is what an ack lists: prepared transactions that no completed
// checkpoint lists, with their ages as of now.
func (i *instance) listed(n ids.CheckpointID) []barrier.Txn {
	if i.cfg.Guarantee == AtLeastOnce {
		return nil
	}
	var out []barrier.Txn
	for _, t := range i.txns.pool.Ack(n, i.mono()) {
		out = append(out, barrier.Txn{Handle: t.Handle, Age: t.Age.Milliseconds(), Topics: t.Topics})
	}
	return out
}

func (i *instance) decline(c *running, reason barrier.DeclineReason, err error) {
	if c.given {
		return
	}
	c.given = true
	i.log.Warn("cannot take part in the checkpoint", "checkpoint", int64(c.n), "error", err)
	if errors.Is(err, checkpoint.ErrDenied) {
		i.end(fmt.Errorf("checkpoint %d: %w", c.n, err))
		return
	}
	i.step(barrier.EvDeclined{N: c.n, Reason: reason, Detail: err.Error()})
}

// phase tells a test where the instance stands in a checkpoint.
func (i *instance) phase(name string) {
	if f := i.cfg.TestRules.Phase; f != nil {
		f(name)
	}
}

// decided tells everybody how n ended.
func (i *instance) decided(e barrier.DoDecided) {
	for _, w := range i.workers {
		w.Decided(e.N, e.Completed)
		if len(e.Stay) > 0 {
			w.GoOn(e.N, e.Stay)
		}
	}
	c := i.checkpoints[e.N]
	delete(i.checkpoints, e.N)
	if e.Completed {
		i.phase("decided")
		if c != nil && c.stop {
			i.owed = nil
		}
		i.setbacks.progress()
		i.status.update(func(h *Health) { h.LastCheckpoint, h.LastCheckpointAt = int64(e.N), time.Now() })
	} else {
		i.txns.step(transactions.Aborted{N: e.N})
		attrs := []any{"checkpoint", int64(e.N), "reason", e.Reason.String()}
		if e.Detail != "" {
			attrs = append(attrs, "detail", e.Detail)
		}
		i.log.Warn("checkpoint aborted", attrs...)
	}
	if c == nil {
		return
	}
	for _, r := range i.runs {
		r.settle(c, e.Completed)
	}
	if e.Completed && i.cfg.Guarantee == AtLeastOnce {
		i.mirrorOffsets(c)
	}
	c.cancel()
	dirs := c.dirs
	parts := c.parts
	i.background(func(context.Context) {
		i.settleFiles(parts, e.N, e.Completed)
		if e.Completed {
			i.files.Forget(i.group.wanted()) // as of now, not as of the decision
		}
		for _, d := range dirs {
			_ = os.RemoveAll(d)
		}
	})
	if e.Completed {
		i.log.Info("checkpoint completed", "checkpoint", int64(e.N), "took", time.Since(c.begun).Round(time.Millisecond),
			"pause", c.pause.Round(time.Microsecond), "uploaded", c.bytes, "referenced", c.held, "tasks", c.tasks)
	}
}
