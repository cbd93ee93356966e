package runtime

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/rebalance"
)

// logStandby follows the changelogs of a task that runs elsewhere, in the folder
// from which a start on this instance goes on.
type logStandby struct {
	cancel context.CancelFunc
	done   chan struct{}
	behind atomic.Int64 // records of the changelogs; -1: not known
	// keep says that the task starts here: its engine is left open, once done is
	// closed.
	keep   atomic.Bool
	engine *changelog.Engine
}

// placeStandbys starts and ends standbys by who is in the group and which tasks
// are here. It runs on the loop, after each step that changes one of these.
func (i *logInstance) placeStandbys() {
	if i.exiting {
		return
	}
	here := map[ids.TaskID]bool{}
	for _, r := range i.runs {
		here[r.id.Task] = true
	}
	for _, t := range i.plan.Tasks() {
		wanted := !here[t] && len(i.plan.Subtopologies()[t.Sub].Stores) > 0 &&
			(i.warmups.has(t) || slices.Contains(rebalance.Followers(i.members, t, i.cfg.Standbys), i.self))
		switch s := i.standbys[t]; {
		case wanted && s == nil:
			i.startStandby(t)
		case !wanted && s != nil:
			i.endStandby(t)
		}
	}
}

func (i *logInstance) startStandby(t ids.TaskID) {
	ctx, cancel := context.WithCancel(i.ctx)
	s := &logStandby{cancel: cancel, done: make(chan struct{})}
	s.behind.Store(-1)
	i.standbys[t] = s
	before := i.leaving[t]
	i.leaving[t] = s.done
	i.background(func(context.Context) {
		defer close(s.done)
		if before != nil {
			<-before
		}
		for ctx.Err() == nil {
			err := i.follow(ctx, t, s)
			s.behind.Store(-1)
			if err != nil && ctx.Err() == nil {
				i.distrust(err)
				i.log.Warn("a standby cannot follow its changelogs; retrying", "task", t.String(), "error", err)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
	})
}

// endStandby ends the standby of a task; leaving has the channel that is closed
// when its folder is free.
func (i *logInstance) endStandby(t ids.TaskID) {
	if s := i.standbys[t]; s != nil {
		s.cancel()
		delete(i.standbys, t)
	}
}

// followInputs is how often a standby looks how far its task came in inputs that
// serve as changelogs.
const followInputs = 10 * time.Second

// follow follows a task's changelogs until ctx ends. Inputs that serve as
// changelogs are read now and then, as far as the task's committed offsets: a
// store that is ahead of its task would be of no use. They do not count in what is
// reported, as they are read before.
func (i *logInstance) follow(ctx context.Context, t ids.TaskID, s *logStandby) (err error) {
	specs := i.storeSpecs(t)
	var inputs []ids.TopicPartition
	for _, spec := range specs {
		if spec.FromSource != nil && !spec.Unlogged {
			inputs = append(inputs, spec.Changelog)
		}
	}
	committed, err := i.committedOf(ctx, inputs)
	if err != nil {
		return err
	}
	e, bounds, err := i.openTask(ctx, t, nil, committed, changelog.Log{})
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil && s.keep.Load() && (err == nil || errors.Is(err, context.Canceled)) {
			s.engine = e
			return
		}
		if cerr := e.Close(); err == nil {
			err = cerr
		}
	}()
	if len(inputs) == 0 {
		return e.Follow(ctx, i.restorer, bounds, s.behind.Store)
	}
	for {
		if err := e.RestoreSources(ctx, i.restorer, bounds); err != nil {
			return err
		}
		some, cancel := context.WithTimeout(ctx, followInputs)
		err := e.Follow(some, i.restorer, bounds, s.behind.Store)
		cancel()
		if err != nil || ctx.Err() != nil {
			return err
		}
		if committed, err = i.committedOf(ctx, inputs); err == nil {
			bounds, err = i.boundsOf(ctx, e, specs, committed)
		}
		if err != nil {
			return err
		}
	}
}

// committedOf are the committed offsets of a standby's inputs.
func (i *logInstance) committedOf(ctx context.Context, inputs []ids.TopicPartition) (map[ids.TopicPartition]int64, error) {
	if len(inputs) == 0 {
		return nil, nil
	}
	found, err := i.admin.FetchOffsets(ctx, i.cfg.ApplicationID, inputs...)
	out := map[ids.TopicPartition]int64{}
	for tp, o := range found {
		out[tp] = o.Offset
	}
	return out, err
}
