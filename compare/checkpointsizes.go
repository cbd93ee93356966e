package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/compare/check"
	"github.com/tidegate/tidegate/compare/load"
	"github.com/tidegate/tidegate/compare/report"
)

// checkpointSizes measures, of every system that reports them, checkpoints in a
// row of a large state of which a small part changes in between.
func (r *runner) checkpointSizes(ctx context.Context, p *report.Report, systems []*system) error {
	for _, s := range systems {
		if !s.checkpoints || r.checkpoints == 0 {
			continue
		}
		r.step++
		got, err := r.checkpointSize(ctx, s)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			got.Error = err.Error()
		}
		p.Rounds = append(p.Rounds, got)
		if err != nil {
			r.note("checkpoints of %s FAILED: %v", s.name, err)
			continue
		}
		mean, most := got.Uploads()
		r.note("checkpoints of %s with %d keys: %d in a row uploaded %.2f %% of their size on average, %.2f %% at most; %.2f %% of the keys changed between two",
			s.name, r.checkpointKeys, len(got.Checkpoints), mean, most, got.ChangedPercent)
	}
	return nil
}

// checkpointSize fills the state, then lets a share of the keys change within
// every interval: they come evenly, drawn at random, and no key twice before all
// came.
func (r *runner) checkpointSize(ctx context.Context, s *system) (out report.Round, err error) {
	keys := r.checkpointKeys
	out = report.Round{Workload: "bigstate " + short(keys) + " keys", System: s.name, Kind: "checkpoints", Number: 1, Keys: keys}
	perSecond := max(int64(float64(keys)*r.checkpointChange/r.checkpointInterval.Seconds()), 1)
	fill := load.Keys(fmt.Sprintf("cmp-%s-%s-sizes-input", r.run, s.name), keys)
	in := &input{records: keys, sources: []load.Source{fill}}
	in.topics.Input = fill.Topic
	if err := r.prepareInput(ctx, in, true); err != nil {
		return out, err
	}
	defer r.cluster.delete(fill.Topic)
	c := check.NewResume(check.NewCounts(int(keys), 1<<62, nil))
	j := r.newJob(s, "bigstate", "sizes", in)
	j.keys, j.interval = int(keys), r.checkpointInterval
	w, err := r.start(ctx, s, j, 1, c)
	if err != nil {
		return out, err
	}
	defer func() {
		out.Faults = c.Faults()
		err = errors.Join(err, w.stop(), out.Faults.Err())
	}()
	if err := w.wait(ctx, 2*time.Minute, func() bool { return c.Progress() >= keys }); err != nil {
		return out, fmt.Errorf("fill the state: %w", err)
	}
	begun, before := time.Now(), c.Progress()
	live := load.Uniform(fill.Topic, begun.UnixMilli(), perSecond, 1<<40, keys, r.seed)
	loading, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := load.OpenLoop(loading, r.cluster.client, live, time.UnixMilli)
		ended <- err
	}()
	need := r.checkpointWarm + r.checkpoints
	var all []report.Checkpoint
	// Reading the log costs something, and checkpoints come seldom.
	look := begun
	err = w.wait(ctx, time.Minute+4*r.checkpointInterval, func() bool {
		if time.Now().Before(look) {
			return false
		}
		look = time.Now().Add(r.checkpointInterval / 2)
		all = since(checkpointsOf(w.logs[0]), begun)
		return len(all) >= need
	})
	seconds, changed := time.Since(begun).Seconds(), c.Progress()-before
	cancel()
	if e := <-ended; !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	out.Offered, out.Records, out.RSSMB = perSecond, c.Progress(), w.usages[0].PeakMB()
	if len(all) > r.checkpointWarm {
		span := all[len(all)-1].When.Sub(all[0].When).Seconds() / float64(len(all)-1)
		out.ChangedPercent = 100 * float64(changed) / seconds * span / float64(keys)
		out.Checkpoints = all[r.checkpointWarm:min(need, len(all))]
	}
	return out, err
}

// since leaves out what was before a moment.
func since(all []report.Checkpoint, begun time.Time) []report.Checkpoint {
	for i, c := range all {
		if c.When.After(begun) {
			return all[i:]
		}
	}
	return nil
}
