package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/compare/check"
	"github.com/tidegate/tidegate/compare/load"
	"github.com/tidegate/tidegate/compare/report"
)

const (
	recoveryInstances  = 3
	recoveryPartitions = 6
	// recoveryRate is the load while an instance is killed, in records per
	// second: little enough that nobody is busy with it.
	recoveryRate = 3000
	// recoverySettle is how long the load runs before the kill.
	recoverySettle = 10 * time.Second
	// A partition that says nothing for that long was the killed instance's.
	leastSilence = 4 * time.Second
)

// recoveries kills one of three instances of every system and measures how
// long its output stays away, in turns.
func (r *runner) recoveries(ctx context.Context, p *report.Report, systems []*system) error {
	before := r.cluster.partitions
	r.cluster.partitions = recoveryPartitions
	defer func() { r.cluster.partitions = before }()
	for _, keys := range r.recoveryKeys {
		for round := 1; round <= r.recoveryRounds; round++ {
			for _, s := range systems {
				if !s.recovers {
					continue
				}
				r.step++
				got := r.recovery(ctx, s, keys, round)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				p.Rounds = append(p.Rounds, got)
				if got.Error != "" {
					r.note("recovery of %s with %d keys FAILED: %s", s.name, keys, got.Error)
					continue
				}
				r.note("recovery of %s with %d keys: first output %.1f s after the kill, full output %.1f s, %.0f MB held for it, %.0f MB read",
					s.name, keys, got.FirstAfter, got.FullAfter, got.StateMB, got.ReadMB)
			}
		}
	}
	return nil
}

// recovery fills the state with one record per key, lets a load run, kills an
// instance with SIGKILL and waits until its partitions are up to date again.
func (r *runner) recovery(ctx context.Context, s *system, keys int64, round int) report.Round {
	out := report.Round{Workload: fmt.Sprintf("bigstate %s keys", short(keys)), System: s.name, Kind: "recovery", Number: round, Keys: keys}
	fail := func(err error) report.Round {
		out.Error = err.Error()
		return out
	}
	kind := fmt.Sprintf("k%d-%d", keys, round)
	const loadTime = 3 * time.Minute // at most; it ends with the round
	fill := load.Keys("cmp-"+r.run+"-"+s.name+"-"+kind+"-input", keys)
	in := &input{records: keys, sources: []load.Source{fill}}
	in.topics.Input = fill.Topic
	if err := r.prepareInput(ctx, in, true); err != nil {
		return fail(err)
	}
	defer r.cluster.delete(fill.Topic)
	c := check.NewResume(check.NewCounts(int(keys), keys+int64(loadTime.Seconds())*recoveryRate, nil))
	j := r.newJob(s, "bigstate", kind, in)
	j.keys = int(keys)
	w, err := r.start(ctx, s, j, recoveryInstances, c)
	if err != nil {
		return fail(err)
	}
	silence, killErr := r.killOne(ctx, w, c, keys, fill.Topic)
	out.Faults = c.Faults()
	if mb, err := r.stateMB(ctx, j); err == nil {
		out.StateMB = mb
	}
	for i := range w.procs { // those that are left
		out.ReadMB += float64(restoredIn(w.logs[i], w.killed).bytes) / 1e6
	}
	// A killed process is no failure here.
	err = errors.Join(killErr, w.stop(), out.Faults.Err())
	out.Records, out.FirstAfter, out.FullAfter = c.Progress(), silence.First.Seconds(), silence.Full.Seconds()
	if err != nil {
		return fail(err)
	}
	return out
}

func (r *runner) killOne(ctx context.Context, w *running, c *check.Resume, keys int64, topic string) (check.Silence, error) {
	if err := w.wait(ctx, 2*time.Minute, func() bool { return c.Progress() >= keys }); err != nil {
		return check.Silence{}, fmt.Errorf("fill the state: %w", err)
	}
	loading, stop := context.WithCancel(ctx)
	loaded := make(chan error, 1)
	start := time.Now().Add(time.Second)
	live := load.Numbers(topic, start.UnixMilli(), recoveryRate, 1<<40, r.seed)
	go func() {
		_, err := load.OpenLoop(loading, r.cluster.client, live, time.UnixMilli)
		loaded <- err
	}()
	end := func(s check.Silence, err error) (check.Silence, error) {
		stop()
		if e := <-loaded; err == nil && e != nil && !errors.Is(e, context.Canceled) {
			err = e
		}
		return s, err
	}
	settled := start.Add(recoverySettle)
	if err := w.wait(ctx, time.Minute, func() bool { return time.Now().After(settled) }); err != nil {
		return end(check.Silence{}, err)
	}
	victim := w.procs[recoveryInstances-1]
	failure := time.Now()
	w.killed = failure
	if err := victim.Kill(); err != nil {
		return end(check.Silence{}, err)
	}
	w.procs = w.procs[:recoveryInstances-1]
	var found check.Silence
	young := 2*w.job.interval + time.Second
	deadline := failure.Add(2 * time.Minute)
	err := w.wait(ctx, 2*time.Minute, func() bool {
		// The silence must have had the time to show in every partition.
		if time.Since(failure) < leastSilence+4*time.Second {
			return false
		}
		s, ok := c.After(failure, leastSilence, young)
		found = s
		return ok || time.Now().After(deadline)
	})
	switch {
	case err != nil:
	case found.Partitions == 0:
		err = errors.New("the killed instance had no part of the state: nothing was silent")
	case time.Now().After(deadline):
		err = fmt.Errorf("the output was not up to date again two minutes after the kill, %d partitions", found.Partitions)
	}
	return end(found, err)
}

// stateMB is what a recovery may have to read: changelog topics, or the
// checkpoint folder.
func (r *runner) stateMB(ctx context.Context, j job) (float64, error) {
	bytes, err := r.cluster.size(ctx, func(topic string) bool {
		return strings.HasPrefix(topic, j.name) && strings.HasSuffix(topic, "-changelog")
	})
	if err != nil {
		return 0, err
	}
	_ = filepath.WalkDir(filepath.Join(r.dir, j.name+"-store"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil // files come and go while we look
	})
	return float64(bytes) / 1e6, nil
}

// short writes a power of ten as such.
func short(n int64) string {
	for exp, v := 0, int64(1); exp <= 12; exp, v = exp+1, v*10 {
		if v == n {
			return fmt.Sprintf("10^%d", exp)
		}
	}
	return strconv.FormatInt(n, 10)
}
