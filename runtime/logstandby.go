package runtime

import (
	"context"
	"slices"
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
}

// placeStandbys starts and ends standbys by who is in the group and which tasks
// are here. It runs on the loop, after each step that changes one of these.
func (i *logInstance) placeStandbys() {
	if i.cfg.Standbys == 0 || i.exiting {
		return
	}
	here := map[ids.TaskID]bool{}
	for _, r := range i.runs {
		here[r.id.Task] = true
	}
	for _, t := range i.plan.Tasks() {
		wanted := !here[t] && len(i.plan.Subtopologies()[t.Sub].Stores) > 0 &&
			slices.Contains(rebalance.Followers(i.members, t, i.cfg.Standbys), i.self)
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
	i.standbys[t] = s
	before := i.leaving[t]
	i.leaving[t] = s.done
	i.background(func(context.Context) {
		defer close(s.done)
		if before != nil {
			<-before
		}
		for ctx.Err() == nil {
			if err := i.follow(ctx, t); err != nil && ctx.Err() == nil {
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

// follow follows a task's changelogs until ctx ends.
func (i *logInstance) follow(ctx context.Context, t ids.TaskID) (err error) {
	e, bounds, err := i.openTask(ctx, t, changelog.Log{})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := e.Close(); err == nil {
			err = cerr
		}
	}()
	return e.Follow(ctx, i.restorer, bounds)
}
