package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/compare/check"
	"github.com/tidegate/tidegate/compare/load"
	"github.com/tidegate/tidegate/compare/report"
)

const (
	// restoreRate is the load while an instance restores, in records per second
	// and partition.
	restoreRate = 10
	// restorePatience is how long a restore may take.
	restorePatience = 5 * time.Minute
)

// filled is a system whose state is large, stopped between the rounds.
type filled struct {
	system *system
	w      *running
	check  *check.Resume
	unfit  bool // it could not be filled: its topics and folders wait for their removal
}

// restores measures how long an instance needs that lost its local state. Every
// system is filled once from the same topic; then they take turns: the folder of
// local state is removed, the instance started, and stopped again.
func (r *runner) restores(ctx context.Context, p *report.Report, systems []*system) error {
	for _, keys := range r.restoreKeys {
		if err := r.restoresOf(ctx, p, systems, keys); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) restoresOf(ctx context.Context, p *report.Report, systems []*system, keys int64) error {
	topic := fmt.Sprintf("cmp-%s-restore-%d-input", r.run, keys)
	in := &input{records: keys, sources: []load.Source{load.Keys(topic, keys)}}
	in.topics.Input = topic
	if err := r.prepareInput(ctx, in, true); err != nil {
		return err
	}
	defer r.cluster.delete(topic)
	var all []*filled
	defer func() {
		for _, f := range all {
			if err := f.w.stop(); err != nil {
				r.note("end of %s: %v", f.system.name, err)
			}
		}
	}()
	failed := func(s *system, round int, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.note("restore of %s with %d keys FAILED: %v", s.name, keys, err)
		p.Rounds = append(p.Rounds, report.Round{Workload: "bigstate " + short(keys) + " keys", System: s.name, Kind: "restore", Number: round, Keys: keys, Error: err.Error()})
		return nil
	}
	for _, s := range systems {
		if !s.recovers {
			continue
		}
		f, err := r.fill(ctx, s, in, keys)
		if f != nil {
			f.unfit = err != nil
			all = append(all, f)
		}
		if err != nil {
			if err := failed(s, 0, fmt.Errorf("fill the state: %w", err)); err != nil {
				return err
			}
			r.step += r.restoreRounds
		}
	}
	for round := 1; round <= r.restoreRounds; round++ {
		for _, f := range all {
			if f.unfit {
				continue
			}
			r.step++
			got, err := r.restore(ctx, f, keys, round)
			if err != nil {
				if err := failed(f.system, round, err); err != nil {
					return err
				}
				continue
			}
			p.Rounds = append(p.Rounds, got)
			r.note("restore of %s with %d keys, round %d: tasks ready %.2f s after the start, first output %.2f s, output of all partitions %.2f s; %.0f MB read, %.0f MB/s",
				f.system.name, keys, round, got.ReadyAfter, got.FirstAfter, got.FullAfter, got.StateMB, got.ReadMBPerSecond)
		}
	}
	return nil
}

// fill lets a system read the input once and stops it. It returns nil where there
// is nothing to remove, as the system did not start.
func (r *runner) fill(ctx context.Context, s *system, in *input, keys int64) (*filled, error) {
	begun := time.Now()
	// Records come until the rounds end, so nothing is ever complete.
	c := check.NewResume(check.NewCounts(int(keys), 1<<62, nil))
	j := r.newJob(s, "bigstate", "f"+strconv.FormatInt(keys, 10), in)
	j.keys = int(keys)
	w, err := r.start(ctx, s, j, 1, c)
	if err != nil {
		return nil, err
	}
	f := &filled{system: s, w: w, check: c}
	if err := w.wait(ctx, 2*time.Minute, func() bool { return c.Progress() >= keys }); err != nil {
		return f, err
	}
	r.note("%s: state of %d keys filled in %s", s.name, keys, time.Since(begun).Round(time.Second/10))
	return f, w.halt()
}

// restore starts an instance without its local state. While it restores, every
// partition gets records, so that it shows when each task works.
func (r *runner) restore(ctx context.Context, f *filled, keys int64, round int) (out report.Round, err error) {
	out = report.Round{Workload: "bigstate " + short(keys) + " keys", System: f.system.name, Kind: "restore", Number: round, Keys: keys}
	if err := os.RemoveAll(filepath.Join(r.dir, f.w.job.name+"-state-0")); err != nil {
		return out, err
	}
	begun := time.Now()
	if err := f.w.startInstance(ctx, f.system, 0); err != nil {
		return out, err
	}
	topic := f.w.job.topics.Input
	stop := r.everywhere(ctx, topic, keys)
	var first, full time.Duration
	deadline := begun.Add(restorePatience)
	err = f.w.wait(ctx, restorePatience, func() bool {
		var ok bool
		first, full, ok = f.check.Awake(begun, r.partitions)
		return ok || time.Now().After(deadline)
	})
	if err = errors.Join(err, stop()); err == nil && full == 0 {
		err = fmt.Errorf("not every partition had output %s after the start", restorePatience)
	}
	if err == nil { // what came for the others, too, or the next round would begin with it
		var written int64
		if written, err = r.cluster.records(topic); err == nil {
			err = f.w.wait(ctx, time.Minute, func() bool { return f.check.Progress() >= written })
		}
	}
	out.Faults = f.check.Faults()
	log := restoredIn(f.w.logs[0], begun)
	err = errors.Join(err, f.w.halt(), out.Faults.Err())
	out.Records, out.FirstAfter, out.FullAfter = f.check.Progress(), first.Seconds(), full.Seconds()
	out.ReadyAfter, out.StateMB, out.ReadMBPerSecond = log.ready.Seconds(), float64(log.bytes)/1e6, log.perSecond()/1e6
	return out, err
}

// restoreLog is what the log of a process says of its start.
type restoreLog struct {
	ready time.Duration // until the last task was restored
	bytes int64         // read for it
	took  time.Duration // from the first byte to the last
}

func (l restoreLog) perSecond() float64 {
	if l.took <= 0 {
		return 0
	}
	return float64(l.bytes) / l.took.Seconds()
}

// restoredIn reads a log. tidegate writes a line per restored task, with its
// bytes; Kafka Streams says when all its tasks run and not what it read.
func restoredIn(log string, begun time.Time) (out restoreLog) {
	f, err := os.Open(log)
	if err != nil {
		return out
	}
	defer f.Close()
	var from, to time.Time
	for s := linesOf(f); s.Scan(); {
		if ms, ok := strings.CutPrefix(s.Text(), "state RUNNING "); ok {
			at, err := strconv.ParseInt(ms, 10, 64)
			if since := time.UnixMilli(at).Sub(begun); err == nil && since > 0 && out.ready == 0 {
				out.ready = since
			}
			continue
		}
		if !strings.Contains(s.Text(), "msg=restored ") {
			continue
		}
		fields := wordsOf(s.Text())
		at, err := time.Parse(time.RFC3339Nano, fields["time"])
		took, err2 := time.ParseDuration(fields["took"])
		bytes, err3 := strconv.ParseInt(fields["bytes"], 10, 64)
		if err != nil || err2 != nil || err3 != nil || at.Before(begun) { // an earlier start has the same log
			continue
		}
		out.bytes += bytes
		if start := at.Add(-took); from.IsZero() || start.Before(from) {
			from = start
		}
		to = at
	}
	if !to.IsZero() {
		out.ready, out.took = to.Sub(begun), to.Sub(from)
	}
	return out
}

// everywhere begins a load that reaches every partition; stop ends it.
func (r *runner) everywhere(ctx context.Context, topic string, keys int64) (stop func() error) {
	loading, cancel := context.WithCancel(ctx)
	src := load.Everywhere(topic, time.Now().UnixMilli(), restoreRate, 1<<40, keys, r.partitions)
	ended := make(chan error, 1)
	go func() {
		_, err := load.OpenLoop(loading, r.cluster.client, src, time.UnixMilli)
		ended <- err
	}()
	return func() error {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}
