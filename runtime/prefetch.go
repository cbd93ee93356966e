package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
)

// prefetcher keeps files of tasks that others run, as of the last completed
// checkpoint, so that a handover or a takeover downloads little (R25). They go
// among the copies of checkpoint files, where a restore looks. Its fields belong to
// the loop; one goroutine fetches at a time, and what is only followed, for a
// takeover, at a bounded rate.
type prefetcher struct {
	i       *instance
	follow  *checkpoint.Restorer
	want    barrier.DoPrefetch
	entries map[ids.TaskID]*prefetchEntry
	busy    bool
}

// prefetchEntry is what is here of one task.
type prefetchEntry struct {
	ctx    context.Context
	cancel context.CancelFunc
	at     ids.CheckpointID // whole as of this checkpoint; NoCheckpoint: not yet
}

// followParallel is how many objects are in transfer at once for what is only
// followed.
const followParallel = 2

func newPrefetcher(i *instance) *prefetcher {
	return &prefetcher{
		i: i, entries: map[ids.TaskID]*prefetchEntry{},
		follow: checkpoint.NewRestorer(i.cfg.Store, checkpoint.RestoreOptions{Parallel: followParallel, BytesPerSecond: i.cfg.StandbyRate}),
	}
}

// ask changes what is wanted. A fetch under way goes on: with short intervals
// and large states it would else never end. What vanishes under it is looked for
// in the newest checkpoint.
func (p *prefetcher) ask(e barrier.DoPrefetch) {
	p.want = e
	dropped := false
	for _, t := range p.kept() {
		if !e.Tasks.Contains(t) {
			p.claim(t)
			dropped = true
		}
	}
	for _, t := range e.Tasks {
		if p.entries[t] == nil {
			n := &prefetchEntry{at: ids.NoCheckpoint}
			n.ctx, n.cancel = context.WithCancel(p.i.ctx)
			p.entries[t] = n
		}
	}
	if files := p.i.files; dropped {
		p.i.background(func(context.Context) { files.Forget(p.i.group.wanted()) })
	}
	p.next()
}

// kept returns the tasks of which there are files, in order.
func (p *prefetcher) kept() []ids.TaskID {
	out := make([]ids.TaskID, 0, len(p.entries))
	for t := range p.entries {
		out = append(out, t)
	}
	slices.SortFunc(out, ids.TaskID.Compare)
	return out
}

// claim ends the prefetch of a task: it starts here, and takes what is there, or is
// not wanted any more.
func (p *prefetcher) claim(t ids.TaskID) {
	if n := p.entries[t]; n != nil {
		delete(p.entries, t)
		n.cancel()
	}
}

// next fetches for the wanted checkpoint if anything is missing.
func (p *prefetcher) next() {
	if p.busy || len(p.want.Tasks) == 0 {
		return
	}
	job := p.want
	var list []ids.TaskID
	var entries []*prefetchEntry
	for _, t := range job.Tasks {
		if n := p.entries[t]; n != nil && n.at != job.From.N {
			list, entries = append(list, t), append(entries, n)
		}
	}
	if len(list) == 0 {
		return
	}
	p.busy = true
	p.i.background(func(ctx context.Context) {
		wait := time.Duration(0)
		if err := p.fetch(ctx, job, list, entries); err != nil && ctx.Err() == nil {
			p.i.log.Warn("prefetching state failed; trying again", "checkpoint", int64(job.From.N), "error", err)
			wait = time.Second
		}
		time.AfterFunc(wait, func() {
			p.i.loop.post(func() {
				p.busy = false
				if !p.i.ending {
					p.next()
				}
			})
		})
	})
}

// fetch gets the files of tasks and reports each as it is whole. What cannot be
// had of one keeps nobody from the others, unless the store does not answer.
func (p *prefetcher) fetch(ctx context.Context, job barrier.DoPrefetch, list []ids.TaskID, entries []*prefetchEntry) error {
	i := p.i
	done := func(t ids.TaskID, n *prefetchEntry) {
		i.loop.post(func() {
			n.at = job.From.N
			i.step(barrier.EvPrefetched{N: job.From.N, Tasks: barrier.TaskSet{t}})
		})
	}
	files, from := i.files, i.group.fetches(i.restore, p.follow)
	src, err := i.loadSource(ctx, job.From)
	if err != nil {
		return err
	}
	var failed []error
	for k, t := range list {
		n := entries[k]
		part, err := src.task(t)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		if part != nil && len(part.Files) > 0 && files != nil {
			begun := time.Now()
			got, err := from(t).Copy(n.ctx, checkpoint.TaskCopy{Task: t, Checkpoint: job.From.N, Files: part.Files, Copies: files})
			switch {
			case n.ctx.Err() != nil:
				continue // claimed, or not wanted any more
			case errors.Is(err, checkpoint.ErrNotFound): // of the others, too
				return errors.Join(append(failed, fmt.Errorf("%w (the newest checkpoint is tried)", err))...)
			case checkpoint.Retriable(err):
				return errors.Join(append(failed, err)...)
			case err != nil:
				failed = append(failed, err)
				continue
			}
			i.log.Debug("prefetched", "task", t.String(), "checkpoint", int64(job.From.N), "bytes", got.Bytes, "downloaded", got.Downloaded, "took", time.Since(begun).Round(time.Millisecond))
		}
		done(t, n)
	}
	return errors.Join(failed...)
}

// close forgets everything; on the loop, before the instance waits for its
// background work.
func (p *prefetcher) close() {
	for _, t := range p.kept() {
		p.claim(t)
	}
}
