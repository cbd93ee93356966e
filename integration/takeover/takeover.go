package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// outcome is what a takeover took, from the moment at which the group missed the
// dead instance.
type outcome struct {
	missed      time.Duration // after the kill
	first, all  time.Duration // new output of one, of all of its tasks
	downloaded  int64
	downloading time.Duration
	steps       []string
}

func (o outcome) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	text := fmt.Sprintf("missed %v after the kill; first new output %v later, of all its tasks %v later; downloaded %.1f MB", ms(o.missed), ms(o.first), ms(o.all), float64(o.downloaded)/1e6)
	if o.downloaded > 0 && o.downloading > 0 {
		text += fmt.Sprintf(" in %v, %.0f MB/s", ms(o.downloading), float64(o.downloaded)/1e6/o.downloading.Seconds())
	}
	return text + "\n  " + strings.Join(o.steps, "\n  ")
}

// takeover kills first under load and watches other take its tasks.
func (w *world) takeover(ctx context.Context, first, other *child, synced bool) (o outcome, err error) {
	if err := w.load(); err != nil {
		return o, err
	}
	before := other.condition()
	if err := w.until(ctx, "checkpoints under load", func() (bool, error) {
		return other.condition().Checkpoint > before.Checkpoint && w.fresh(), nil
	}, first, other); err != nil {
		return o, err
	}
	select { // some checkpoints more
	case <-ctx.Done():
		return o, ctx.Err()
	case <-time.After(4 * w.interval):
	}
	killed := time.Now()
	if err := first.p.Kill(); err != nil {
		return o, err
	}
	w.mu.Lock()
	w.since, w.newly = time.Now(), map[int32]time.Time{}
	w.mu.Unlock()
	missed, err := w.missed(ctx)
	if err != nil {
		return o, err
	}
	if err := w.until(ctx, "new output of all tasks", func() (bool, error) {
		first, all := w.came()
		if all.IsZero() {
			return false, nil
		}
		o.first, o.all = first.Sub(missed), all.Sub(missed)
		return true, nil
	}, other); err != nil {
		return o, err
	}
	if err := w.endLoad(); err != nil {
		return o, err
	}
	o.missed = missed.Sub(killed)
	if err := o.read(other.p.LogPath, killed, missed); err != nil {
		return o, err
	}
	if synced && o.downloaded > 1<<20 {
		return o, fmt.Errorf("a takeover with a standby downloaded %d bytes", o.downloaded)
	}
	return o, nil
}

// fresh reports whether records of the last seconds came out of every partition.
func (w *world) fresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.probes {
		if time.Since(w.seen[p]) > 2*w.interval {
			return false
		}
	}
	return true
}

// came says when the first record behind the kill came out of one, and of all of
// the dead instance's partitions.
func (w *world) came() (first, all time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var times []time.Time
	for _, t := range w.heavy {
		_, part, _ := strings.Cut(t, "_")
		p, err := strconv.Atoi(part)
		at, known := w.newly[int32(p)]
		if err != nil || !known {
			return time.Time{}, time.Time{}
		}
		times = append(times, at)
	}
	return slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)
}

var (
	logLine  = regexp.MustCompile(`^time=(\S+) level=(\S+) msg=("[^"]*"|\S+) (.*)$`)
	logTook  = regexp.MustCompile(`downloaded=(\d+).* took=(\S+)`)
	logNoise = regexp.MustCompile(`(instance|manifest|parts?)=\S+ ?`)
)

// read takes from the log of the instance that takes over what it downloaded since
// the kill, and what it did up to its second checkpoint.
func (o *outcome) read(path string, killed, missed time.Time) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	checkpoints := 0
	for s := bufio.NewScanner(f); s.Scan() && checkpoints < 2; {
		m := logLine.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		at, err := time.Parse("2006-01-02T15:04:05.999Z07:00", m[1])
		if err != nil || at.Before(killed) {
			continue
		}
		fetched := logTook.FindStringSubmatch(m[4])
		if fetched != nil && fetched[1] != "0" {
			n, _ := strconv.ParseInt(fetched[1], 10, 64)
			took, _ := time.ParseDuration(fetched[2])
			o.downloaded, o.downloading = o.downloaded+n, o.downloading+took
		}
		if strings.Contains(m[3], "checkpoint completed") && at.After(missed) {
			checkpoints++
		}
		if m[2] != "DEBUG" || fetched != nil {
			o.steps = append(o.steps, fmt.Sprintf("%6d ms  %s %s", at.Sub(missed).Milliseconds(), strings.Trim(m[3], `"`), logNoise.ReplaceAllString(m[4], "")))
		}
	}
	return nil
}
