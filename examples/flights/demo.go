package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/embedded"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/internal/testkit"
)

const (
	flightPartitions  = 4
	airlinePartitions = 2
	instances         = 3
)

// demoConfig is how the demonstration runs.
type demoConfig struct {
	service serviceConfig // of the children, but for their names
	days    int
	pace    time.Duration
}

// demo is a run of the demonstration.
type demo struct {
	c        demoConfig
	out      printer
	client   *testkit.Client
	flights  []departure
	airlines map[string]string
	children []*child

	fed         atomic.Int64
	checkpoints atomic.Int64 // completed
	mu          sync.Mutex
	seen        map[int64]bool // checkpoints that were printed
}

// demonstrate runs the demonstration; it fails unless the result is right.
func demonstrate(ctx context.Context, c demoConfig, w io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.pace+3*time.Minute)
	defer cancel()
	d := &demo{c: c, out: printer{w: w, begun: time.Now()}, seen: map[int64]bool{}}
	if d.flights, err = loadFlights(c.days); err != nil {
		return err
	}
	if d.airlines, err = loadAirlines(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "flights-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	closeBroker, err := d.connect(dir)
	if err != nil {
		return err
	}
	defer closeBroker()
	if err := d.createTopics(ctx); err != nil {
		return err
	}
	if err := d.play(ctx, dir); err != nil {
		return err
	}
	return d.check(ctx)
}

// connect finds or hosts the broker.
func (d *demo) connect(dir string) (closeAll func(), err error) {
	s := &d.c.service
	var broker *embedded.Broker
	if s.brokers == "" {
		if broker, err = embedded.Start(embedded.Options{}); err != nil {
			return nil, err
		}
		s.brokers, s.session = broker.Addr(), 2*time.Second
		d.out.line("broker in this process on %s", s.brokers)
	} else {
		// Another run's topics and checkpoints are not ours.
		s.app = fmt.Sprintf("%s-demo-%08x", s.app, rand.Uint32())
		s.prefix = s.app + "-"
		d.out.line("broker %s; application id %s, its topics stay there", s.brokers, s.app)
	}
	if s.store == "" {
		s.store = "dir:" + filepath.Join(dir, "checkpoints")
	}
	d.out.line("checkpoints in %s", s.store)
	k, err := kafka.NewClient(kafka.Config{Brokers: strings.Split(s.brokers, ",")})
	if err != nil {
		return nil, errors.Join(err, closeBroker(broker))
	}
	d.client = &testkit.Client{K: k}
	return func() {
		d.client.Close()
		_ = closeBroker(broker)
	}, nil
}

func closeBroker(b *embedded.Broker) error {
	if b == nil {
		return nil
	}
	return b.Close()
}

func (d *demo) topic(name string) string { return d.c.service.prefix + name }

func (d *demo) createTopics(ctx context.Context) error {
	if err := d.client.CreateTopics(ctx, flightPartitions, d.topic("flights"), d.topic("route-days")); err != nil {
		return err
	}
	if err := d.client.CreateTopics(ctx, airlinePartitions, d.topic("airlines")); err != nil {
		return err
	}
	return feedAirlines(ctx, d.client, d.topic("airlines"), d.airlines)
}

// play feeds the flights through the instances, one of which is killed on the
// way, until all results are visible; then it stops them.
func (d *demo) play(ctx context.Context, dir string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer func() { // whatever happens, no child outlives the demonstration
		for _, c := range d.children {
			if !c.ended() {
				c.kill()
			}
		}
	}()
	for n := range instances {
		if err := d.startChild(string(rune('a'+n)), dir); err != nil {
			return err
		}
	}
	visible, err := d.client.Follow(d.topic("route-days"), flightPartitions, true, func(testkit.Message) {})
	if err != nil {
		return err
	}
	defer visible.Close()
	if err := d.until(ctx, func() bool { return d.checkpoints.Load() > 0 }); err != nil {
		return fmt.Errorf("wait for the first checkpoint: %w", err)
	}

	total := int64(len(d.flights))
	d.out.line("feeding %s flights", thousands(total))
	go func() {
		if err := feedFlights(ctx, d.client, d.topic("flights"), d.flights, d.c.pace, &d.fed); err != nil {
			cancel(err)
		}
	}()
	go d.progress(ctx, visible)

	// A checkpoint or two behind it, records on their way: now.
	before := d.checkpoints.Load()
	if err := d.until(ctx, func() bool { return d.fed.Load() >= total/2 && d.checkpoints.Load() > before+1 }); err != nil {
		return err
	}
	victim := d.children[1]
	victim.kill()
	d.out.line("%s: killed with SIGKILL, %s flights fed, %s results visible", victim.name, thousands(d.fed.Load()), thousands(visible.Count()))
	if err := d.until(ctx, func() bool { return d.fed.Load() >= total*3/4 }); err != nil {
		return err
	}
	d.out.line("%s: started again", victim.name)
	if err := victim.start(); err != nil {
		return err
	}
	if err := d.until(ctx, func() bool { return int64(visible.Count()) >= total }); err != nil {
		return fmt.Errorf("wait for the results, %d of %d visible: %w", visible.Count(), total, err)
	}
	d.out.line("all results visible; stopping the instances")
	return stopAll(d.children, time.Minute)
}

func (d *demo) startChild(name, dir string) error {
	s := d.c.service
	c := &child{name: name, hear: d.hear, args: []string{
		"-serve", "-attached", "-name", name, "-state", filepath.Join(dir, name),
		"-brokers", s.brokers, "-store", s.store, "-app", s.app, "-prefix", s.prefix,
		"-interval", s.interval.String(), "-session", s.session.String(),
	}}
	if err := c.start(); err != nil {
		return err
	}
	d.out.line("%s: started as process %d", name, c.cmd.Process.Pid)
	d.children = append(d.children, c)
	return nil
}

// until waits for a condition, or for a child that ends unasked.
func (d *demo) until(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	dead := map[*child]bool{} // the killed one
	for _, c := range d.children {
		dead[c] = c.ended()
	}
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		for _, c := range d.children {
			if c.ended() && !dead[c] {
				return c.failure()
			}
		}
	}
	return nil
}

func (d *demo) progress(ctx context.Context, visible *testkit.Reader) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for int64(visible.Count()) < int64(len(d.flights)) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.out.line("%s flights fed, %s results visible", thousands(d.fed.Load()), thousands(visible.Count()))
		}
	}
}

// hear prints what a child logs: a checkpoint once, by the first that tells.
func (d *demo) hear(c *child, e event) {
	switch {
	case e.Msg == "checkpoint completed":
		d.mu.Lock()
		known := d.seen[e.Checkpoint]
		d.seen[e.Checkpoint] = true
		d.mu.Unlock()
		if !known {
			d.checkpoints.Add(1)
			d.out.line("checkpoint %d completed: took %v, tasks stood still for %v, uploaded %.1f kB",
				e.Checkpoint, time.Duration(e.Took), time.Duration(e.Pause), float64(e.Uploaded)/1000)
		}
	case e.Msg == "starting tasks":
		d.out.line("%s: starts tasks %v from checkpoint %v", c.name, e.Tasks, e.From)
	case e.Level == "WARN" || e.Level == "ERROR":
		why := e.Reason + e.Error
		if why != "" {
			why = ": " + why
		}
		d.out.line("%s: %s%s", c.name, e.Msg, why)
	}
}

// check reads the result as a read_committed consumer does, from the beginning
// to the end, and compares it.
func (d *demo) check(ctx context.Context) error {
	records, err := d.client.ReadToEnd(ctx, d.topic("route-days"), flightPartitions, true)
	if err != nil {
		return fmt.Errorf("read the result: %w", err)
	}
	got, err := lastRows(records)
	if err != nil {
		return err
	}
	d.out.blank()
	printTable(d.out.w, got)
	d.out.blank()
	if err := compare(got, compute(d.flights, d.airlines)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(d.out.w, "result equals the direct computation: %d rows\n", len(got))
	return err
}

// printer prints lines with the time since the start.
type printer struct {
	mu    sync.Mutex
	w     io.Writer
	begun time.Time
}

func (p *printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.w, "%6.1fs  %s\n", time.Since(p.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (p *printer) blank() { _, _ = fmt.Fprintln(p.w) }
