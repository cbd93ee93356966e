package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/state/memory"
	"github.com/tidegate/tidegate/state/pebblestore"
	"github.com/tidegate/tidegate/tasks"
	"github.com/tidegate/tidegate/topology"
)

// start makes a task from its committed offsets and its changelogs; in the
// background.
func (r *logRun) start() (task *tasks.Task, err error) {
	i := r.i
	restored, known, err := r.fetchOffsets()
	if err != nil {
		return nil, err
	}
	// Behind the offsets: see changelog.Bounds.
	if err := r.restore(known); err != nil {
		return nil, err
	}
	if r.engine != nil {
		restored.Engine = r.engine
	}
	task, err = tasks.New(r.spec(), r, restored, i.envConfig(len(i.plan.Tasks())))
	if err != nil {
		if r.engine != nil {
			_ = r.engine.Close()
		}
		return nil, err
	}
	return task, nil
}

// fetchOffsets finds where the task's inputs go on: what is committed, once no
// former owner's transaction is open; else the reset policy. known says that
// anything was committed.
func (r *logRun) fetchOffsets() (out tasks.Restored, known bool, err error) {
	i := r.i
	external, internal := i.plan.TaskInputs(r.id.Task)
	tps := append(append([]ids.TopicPartition(nil), external...), internal...)
	var found map[ids.TopicPartition]kafka.Offset
	err = i.retry(r.ctx, "fetch the group's offsets", func(ctx context.Context) (err error) {
		found, err = i.admin.FetchOffsets(ctx, i.cfg.ApplicationID, tps...)
		return err
	})
	if err != nil {
		return out, false, err
	}
	starts, err := r.resetOffsets(external, internal, found)
	if err != nil {
		return out, false, err
	}
	out.External = map[ids.TopicPartition]int64{}
	r.committed, r.stored = map[ids.TopicPartition]int64{}, map[ids.TopicPartition]string{}
	r.topics, r.stores = i.kept(r.id.Task)
	r.renew = true
	times := barrier.TimesState{Stream: barrier.NoTime}
	for k, tp := range tps {
		next := starts[tp]
		if o, have := found[tp]; have {
			next, known = o.Offset, true
			r.committed[tp], r.stored[tp] = next, o.Metadata
			m, ours, err := changelog.DecodeMeta(o.Metadata)
			if err != nil {
				return out, known, final(fmt.Errorf("offset of %s in group %s: %w", tp, i.cfg.ApplicationID, err))
			}
			if ours {
				if err := i.checkKept(m, i.topicIDs); err != nil {
					return out, known, final(err)
				}
				if m.First && slices.Equal(m.Topics, r.topics) && slices.Equal(m.Stores, r.stores) {
					r.renew = false
				}
				times.Inputs = append(times.Inputs, barrier.InputTime{Partition: tp, Time: m.Time, Channels: m.Channels})
				if m.First {
					times.Stream, out.Timers = max(times.Stream, m.Stream), m.Timers
				}
			}
		}
		if k < len(external) {
			out.External[tp] = next
		} else {
			out.Positions = append(out.Positions, barrier.FirstPosition(tp, next))
		}
	}
	out.Times = &times
	return out, known, nil
}

// resetOffsets resolves where inputs without a committed offset begin.
func (r *logRun) resetOffsets(external, internal []ids.TopicPartition, found map[ids.TopicPartition]kafka.Offset) (map[ids.TopicPartition]int64, error) {
	i := r.i
	ask := map[int64][]ids.TopicPartition{}
	for _, tp := range external {
		if _, ok := found[tp]; ok {
			continue
		}
		at := kafka.Earliest
		if reset := i.plan.Reset(tp.Topic); reset == topology.ResetLatest || reset == topology.ResetDefault && i.cfg.OffsetReset == Latest {
			at = kafka.LastStable
		}
		ask[at] = append(ask[at], tp)
	}
	for _, tp := range internal {
		if _, ok := found[tp]; !ok {
			ask[kafka.Earliest] = append(ask[kafka.Earliest], tp)
		}
	}
	out := map[ids.TopicPartition]int64{}
	for at, list := range ask {
		err := i.retry(r.ctx, "find where inputs begin", func(ctx context.Context) error {
			at, err := i.admin.ListOffsets(ctx, at, list...)
			for tp, o := range at {
				out[tp] = o
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// restore opens the task's engine and brings it up to its changelogs.
func (r *logRun) restore(known bool) (err error) {
	i, t := r.i, r.id.Task
	if len(i.plan.Subtopologies()[t.Sub].Stores) == 0 {
		return nil
	}
	e, bounds, err := i.openTask(r.ctx, t, r.takeFollowed(), r.committed, changelog.Log{
		NewBatch: i.writer.NewBatch, Now: time.Now,
		Send: func(b *kafka.Builder) { r.send(b, r.passedN+1) },
	})
	if err != nil {
		return err
	}
	done, err := e.Restore(r.ctx, i.restorer, bounds)
	if err == nil && !known && !done.Empty && i.cfg.Guarantee == ExactlyOnce {
		err = final(fmt.Errorf("the changelogs of task %s hold state, but consumer group %s has no offsets that belong to it: they have expired or were deleted, and reading from the reset policy would count records twice; %s", t, i.cfg.ApplicationID, resetAdvice(i.cfg, Changelog)))
	}
	if err != nil {
		if out := (*kafka.OffsetOutOfRangeError)(nil); errors.As(err, &out) {
			// Kafka removed old windows since the bounds were asked for; the next
			// start reads from where the changelog begins then.
			err = passing{err}
		}
		return errors.Join(err, e.Close())
	}
	r.engine, r.bounds = e, bounds
	i.log.Info("restored", "task", t.String(), "records", done.Records, "bytes", done.Bytes, "took", done.Took.Round(time.Millisecond))
	return nil
}

// takeFollowed waits until the task's standby on this instance let go of the
// folder, and returns its engine, if it left one open.
func (r *logRun) takeFollowed() (e *changelog.Engine) {
	if r.folder != nil {
		<-r.folder
	}
	if r.standby != nil {
		e, r.standby.engine = r.standby.engine, nil
	}
	return e
}

// closeFollowed closes the engine of a standby that the start did not come to.
func (r *logRun) closeFollowed() {
	if e := r.takeFollowed(); e != nil {
		if err := e.Close(); err != nil {
			r.i.log.Warn("closing what a standby had failed", "task", r.id.Task.String(), "error", err)
		}
	}
}

// openTask opens a task's engine, unless e is one that is open, with the bounds of
// its changelogs, emptied where it cannot be followed on. committed are the task's
// offsets.
func (i *logInstance) openTask(ctx context.Context, t ids.TaskID, e *changelog.Engine, committed map[ids.TopicPartition]int64, log changelog.Log) (_ *changelog.Engine, _ map[string]changelog.Bounds, err error) {
	specs := i.storeSpecs(t)
	if e != nil {
		e.Attach(log)
	} else if e, err = i.openEngineOf(t, specs, log, false); err != nil {
		return nil, nil, err
	}
	bounds, err := i.boundsOf(ctx, e, specs, committed)
	if err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	why := unusable(e, specs, bounds)
	if why == "" {
		return e, bounds, nil
	}
	i.log.Info("local state is not reused; restoring from the changelogs' start", "task", t.String(), "reason", why)
	if err := e.Close(); err != nil {
		return nil, nil, err
	}
	e, err = i.openEngineOf(t, specs, log, true)
	return e, bounds, err
}

// storeSpecs are the stores of a task.
func (i *logInstance) storeSpecs(t ids.TaskID) (out []changelog.StoreSpec) {
	for _, s := range i.plan.Subtopologies()[t.Sub].Stores {
		tp := changelog.Partition(i.cfg.ApplicationID, s.Name, t)
		unlogged := slices.Contains(i.cfg.Unlogged, s.Name)
		if s.FromSource != nil {
			tp.Topic = s.SourceTopic
			// A task beyond the topic's partitions has no rows.
			unlogged = unlogged || tp.Partition >= i.plan.Partitions(s.SourceTopic)
		}
		out = append(out, changelog.StoreSpec{
			Name: s.Name, Changelog: tp, Topic: i.topicIDs[tp.Topic], Expires: changelog.DropsByTime(s), Unlogged: unlogged, FromSource: s.FromSource,
		})
	}
	return out
}

// openEngineOf opens a task's folder, emptied first where it cannot be trusted.
func (i *logInstance) openEngineOf(t ids.TaskID, specs []changelog.StoreSpec, log changelog.Log, wipe bool) (*changelog.Engine, error) {
	below, err := i.openKept(filepath.Join(i.stateDir, "changelog", t.String()), wipe)
	if err != nil {
		return nil, err
	}
	e, err := changelog.NewEngine(below, specs)
	if err != nil {
		return nil, errors.Join(err, below.Close())
	}
	e.Attach(log)
	return e, nil
}

// bootName is the file beside a kept engine that says in which run of the
// machine it was written: nothing is synced to disk.
const bootName = "BOOT"

// openKept opens an engine as its last user left it, or empty.
func (d *deployment) openKept(dir string, wipe bool) (state.Engine, error) {
	boot := state.BootID()
	if had, err := os.ReadFile(filepath.Join(dir, bootName)); d.cfg.StateStore == Memory || boot == "" || err != nil || string(had) != boot {
		wipe = true
	}
	data := filepath.Join(dir, "data")
	open := func() (state.Engine, error) {
		if wipe {
			if err := os.RemoveAll(dir); err != nil {
				return nil, fmt.Errorf("wipe local state: %w", err)
			}
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, state.Wrap(dir, err)
		}
		if err := os.WriteFile(filepath.Join(dir, bootName), []byte(boot), 0o600); err != nil {
			return nil, state.Wrap(dir, err)
		}
		if d.cfg.StateStore == Memory {
			return memory.Open(data)
		}
		return pebblestore.Open(d.shared, data, pebblestore.Options{Kept: true, Memtable: d.memtableBytes()})
	}
	e, err := open()
	if err != nil && !wipe && !outOfResources(err) {
		d.cfg.Logger.Warn("local state is damaged; it is restored from the changelogs", "folder", dir, "error", err)
		wipe = true
		e, err = open()
	}
	if wrap := d.cfg.TestRules.Engine; wrap != nil && err == nil {
		e = wrap(e)
	}
	return e, err
}

// outOfResources tells errors that say nothing about what a folder holds.
func outOfResources(err error) bool {
	for _, e := range []error{state.ErrDiskFull, state.ErrLocked, os.ErrPermission, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// distrust lets the next user of a folder that turned out to be damaged empty it:
// to open it again may not show that.
func (i *logInstance) distrust(err error) {
	var damaged *state.FolderError
	if errors.As(err, &damaged) && errors.Is(damaged.Kind, state.ErrCorrupted) {
		i.log.Warn("local state is damaged; it is restored from the changelogs", "folder", damaged.Dir, "error", err)
		_ = os.Remove(filepath.Join(filepath.Dir(damaged.Dir), bootName))
	}
}

// boundsOf asks for the ends of an engine's changelogs. That of an input is where
// the task goes on in it.
func (i *logInstance) boundsOf(ctx context.Context, e *changelog.Engine, specs []changelog.StoreSpec, committed map[ids.TopicPartition]int64) (map[string]changelog.Bounds, error) {
	logs := e.Changelogs()
	var tps []ids.TopicPartition
	for _, tp := range logs {
		tps = append(tps, tp)
	}
	if len(tps) == 0 {
		return nil, nil
	}
	var topics []string
	for _, tp := range tps {
		topics = append(topics, tp.Topic)
	}
	var starts, ends map[ids.TopicPartition]int64
	var missing time.Time // since when a topic is
	err := i.retry(ctx, "find the bounds of the changelogs", func(ctx context.Context) (err error) {
		err = i.sameChangelogs(ctx, topics)
		var gone *topicMissingError
		switch {
		case !errors.As(err, &gone):
			missing = time.Time{}
		case missing.IsZero():
			missing = time.Now()
		case time.Since(missing) >= missingFor:
			err = final(i.deleted(gone.topic))
		}
		if err != nil {
			return err
		}
		if starts, err = i.admin.ListOffsets(ctx, kafka.Earliest, tps...); err == nil {
			ends, err = i.admin.ListOffsets(ctx, kafka.Latest, tps...)
		}
		return err
	})
	out := map[string]changelog.Bounds{}
	for store, tp := range logs {
		out[store] = changelog.Bounds{Start: starts[tp], End: ends[tp]}
	}
	for _, s := range specs {
		if s.FromSource == nil || s.Unlogged {
			continue
		}
		b := out[s.Name]
		if next, ok := committed[s.Changelog]; ok {
			b.End = max(min(next, b.End), b.Start)
		} else {
			b.End = b.Start // nothing was read
		}
		out[s.Name] = b
	}
	return out, err
}

// unusable says why the engine's state cannot be followed on; "" if it can.
func unusable(e *changelog.Engine, specs []changelog.StoreSpec, bounds map[string]changelog.Bounds) string {
	for _, s := range specs {
		p, ok, err := e.Position(s.Name)
		switch {
		case err != nil:
			return err.Error()
		case !ok:
			continue
		}
		b := bounds[s.Name]
		if why := p.Reusable(s.Topic, b.Start, b.End, time.Now()); why != "" {
			return fmt.Sprintf("store %q: %s", s.Name, why)
		}
	}
	return ""
}
