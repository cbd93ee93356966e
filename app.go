package tidegate

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/checkpoint/dir"
	"github.com/tidegate/tidegate/runtime"
)

// State is where an App stands; see the constants (KafkaStreams.State).
type State = runtime.State

// The states of an App, in the order of a normal run.
const (
	Created   = runtime.Created
	Joining   = runtime.Joining
	Restoring = runtime.Restoring
	Running   = runtime.Running
	Stopping  = runtime.Stopping
	Stopped   = runtime.Stopped
	Failed    = runtime.Failed
)

// Health is a snapshot of an App's condition, for a readiness or liveness
// endpoint: ready when State is Running, alive unless State is Failed. Late,
// NullDropped, TimestampDropped and Skipped count the records that were dropped
// (Kafka Streams' dropped-records metric); package runtime lists all fields.
type Health = runtime.Health

// App is one instance of an application: it joins the application's consumer
// group, runs its share of the tasks, and takes part in checkpoints (Kafka
// Streams' KafkaStreams). Start more processes to scale.
type App struct {
	rt *runtime.Runtime
}

// New makes an App from a checked topology. It does no I/O; options that are
// missing or out of range are an error that names them. What must be compared
// with the brokers, as topics and the transaction timeout, is checked by Run.
func New(t *Topology, opts ...Option) (*App, error) {
	if t == nil {
		return nil, errors.New("tidegate.New: the topology is nil: pass what Builder.Build returned")
	}
	cfg := runtime.Config{ToleratedAborts: runtime.DefaultToleratedAborts}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("tidegate.New: option %d is nil: leave it out", i+1)
		}
		o(&cfg)
	}
	if err := cfg.Err; err != nil {
		return nil, err
	}
	rt, err := runtime.New(cfg, t.t)
	if err != nil {
		return nil, err
	}
	return &App{rt: rt}, nil
}

// Run runs the instance until ctx ends; it then takes a last checkpoint, leaves
// the group and returns nil. It returns an error when the application cannot go
// on; state and checkpoints stay as they are. It may be called once.
func (a *App) Run(ctx context.Context) error { return a.rt.Run(ctx) }

// State returns the present state.
func (a *App) State() State { return a.rt.State() }

// Health returns the present condition.
func (a *App) Health() Health { return a.rt.Health() }

// WithCheckpointDir keeps checkpoints in a directory, which all instances must
// share: a network file system, or the only machine's disk. Like every option of
// checkpoints it has no effect in changelog mode, whatever the path.
func WithCheckpointDir(path string) Option {
	return func(c *runtime.Config) {
		if s, err := dir.New(path); err != nil {
			c.Store, c.StoreErr = nil, fmt.Errorf("WithCheckpointDir(%q): %w", path, err)
		} else {
			c.Store, c.StoreErr = s, nil
		}
	}
}
