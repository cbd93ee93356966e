package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
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
	if err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
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
	if err := d.openGlobals(ctx); err != nil {
		return err
	}
	if r.cfg.Mode == Changelog {
		return d.follow(ctx, r.topo, d.runChangelog)
	}
	return d.follow(ctx, r.topo, d.runInstances)
}

// runInstances runs one instance of barrier mode after another: one that was
// declared dead is followed by a new one.
func (d *deployment) runInstances(ctx context.Context) error {
	displaced := newDisplacement(d.cfg.TransactionTimeout)
	for {
		err := d.runInstance(ctx)
		if !errors.Is(err, errBecomeNew) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err() // stopping: what it had is taken over by others
		}
		if err := displaced.again(time.Now(), d.stateDir, err); err != nil {
			return err
		}
		d.status.set(Joining, nil)
	}
}

// Health returns a snapshot of the application's condition.
func (r *Runtime) Health() Health {
	h := r.status.get()
	if d := r.current.Load(); d != nil {
		h.Records, h.Skipped = d.counters.records.Load(), d.counters.skipped.Load()
		h.Late, h.NullDropped = d.counters.operators.LateDropped.Load(), d.counters.operators.NullDropped.Load()
		h.TimestampDropped = d.counters.operators.TimestampDropped.Load()
	}
	return h
}

// State returns the application's state.
func (r *Runtime) State() State { return r.status.get().State }

// displacement notices that instances with one stable name displace each other
// (R26), and a process that is declared dead again and again.
type displacement struct {
	window        time.Duration
	dead, byOwner []time.Time
}

func newDisplacement(window time.Duration) *displacement { return &displacement{window: window} }

// Within a transaction timeout, a process becomes a new instance at most so
// often: after silence, and because another one reports its name. Two that
// share a name displace each other in turn, so the second time is proof.
const (
	maxDeclaredDead = 20
	maxDisplaced    = 1
)

// displacedError says who took over whose name.
type displacedError struct{ self, by ids.InstanceID }

func (e *displacedError) Error() string {
	return fmt.Sprintf("instance %s was displaced by %s", e.self, e.by)
}

// again counts the end of an instance; it returns an error when another one
// would not end better.
func (d *displacement) again(now time.Time, dir string, cause error) error {
	recent := func(times []time.Time) []time.Time {
		keep := slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) >= d.window })
		return append(keep, now)
	}
	if by := (*displacedError)(nil); errors.As(cause, &by) {
		if d.byOwner = recent(d.byOwner); len(d.byOwner) > maxDisplaced {
			return fmt.Errorf("two processes share one instance name: %w, for the second time within %v: give each its own WithInstanceName or WithStateDir (this one's: %s)", by, d.window, dir)
		}
		return nil
	}
	if d.dead = recent(d.dead); len(d.dead) > maxDeclaredDead {
		return fmt.Errorf("this process was declared dead %d times within %v: it is too slow for its session timeout, or paused too often: raise WithSessionTimeout or give it more processor", len(d.dead), d.window)
	}
	return nil
}
