package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/state/pebblestore"
	"github.com/tidegate/tidegate/topology"
)

// Runtime runs one application in this process.
type Runtime struct {
	cfg     Config
	topo    *topology.Topology
	status  *status
	started atomic.Bool
	// current is the deployment of the running Run, for health figures.
	current atomic.Pointer[deployment]
}

// New validates the configuration; it does no I/O.
func New(cfg Config, topo *topology.Topology) (*Runtime, error) {
	if topo == nil {
		return nil, errors.New("the topology is nil: pass what Builder.Build returned")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Runtime{cfg: cfg, topo: topo, status: newStatus(cfg.StateListener)}, nil
}

// Run runs the application until ctx ends, then stops cleanly and returns nil;
// or returns the error with which it failed. It may be called once.
func (r *Runtime) Run(ctx context.Context) error {
	if !r.started.CompareAndSwap(false, true) {
		return errors.New("Run was called before: make a new App for another run")
	}
	err := r.runAll(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // stopped before it had begun
	}
	if err != nil {
		err = withACLs(err, r.cfg.ApplicationID, r.topo)
		r.cfg.Logger.Error("application failed", "application", r.cfg.ApplicationID, "error", err)
		r.status.set(Failed, err)
		return err
	}
	r.status.set(Stopped, nil)
	return nil
}

func (r *Runtime) runAll(ctx context.Context) error {
	r.status.set(Joining, nil)
	d, err := deploy(ctx, r.cfg, r.topo, r.status)
	if err != nil {
		return err
	}
	defer d.close()
	if r.cfg.StateStore == Pebble {
		d.shared = pebblestore.NewShared(pebblestore.SharedOptions{BlockCache: r.cfg.BlockCacheBytes, Logger: quieter(r.cfg.Logger, slog.LevelWarn)})
	}
	r.current.Store(d)
	displaced := newDisplacement(r.cfg.TransactionTimeout)
	for {
		err := d.runInstance(ctx)
		if !errors.Is(err, errBecomeNew) {
			return err
		}
		if ctx.Err() != nil {
			return nil // stopping: what it had is taken over by others
		}
		if err := displaced.again(time.Now(), d.name, d.stateDir); err != nil {
			return err
		}
		r.status.set(Joining, nil)
	}
}

// Health returns a snapshot of the application's condition.
func (r *Runtime) Health() Health {
	h := r.status.get()
	if d := r.current.Load(); d != nil {
		h.Records, h.Skipped = d.counters.records.Load(), d.counters.skipped.Load()
		h.Late = d.counters.operators.LateDropped.Load()
	}
	return h
}

// State returns the application's state.
func (r *Runtime) State() State { return r.status.get().State }

// displacement notices that instances with one stable name displace each other
// (R26).
type displacement struct {
	window time.Duration
	times  []time.Time
}

func newDisplacement(window time.Duration) *displacement { return &displacement{window: window} }

// maxDisplaced is how often one process may become a new instance within a
// transaction timeout before it counts as a fight over its name.
const maxDisplaced = 20

func (d *displacement) again(now time.Time, name, dir string) error {
	keep := d.times[:0]
	for _, t := range d.times {
		if now.Sub(t) < d.window {
			keep = append(keep, t)
		}
	}
	d.times = append(keep, now)
	if len(d.times) > maxDisplaced {
		return fmt.Errorf("this process was declared dead %d times within %v: is another one running with instance name %q, or is it too slow for its session timeout? give each process its own WithInstanceName or WithStateDir (this one's: %s)", len(d.times), d.window, name, dir)
	}
	return nil
}
