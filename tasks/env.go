package tasks

import (
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// EnvConfig is what a task's operators get from the instance.
type EnvConfig struct {
	Topology *topology.Resolved
	// CacheBytes is the write-back cache of the task's stores.
	CacheBytes int64
	// MaySkip says whether the failure handler may answer "skip".
	MaySkip bool
	Metrics *operators.Metrics
	// Globals are the stores of global tables, which all tasks share.
	Globals map[string]operators.GlobalStore
	// Partitions resolves a topic that a record names itself (To with a topic
	// per record); it may ask the cluster and so blocks the worker, once a topic.
	Partitions func(topic string) (int32, error)
	// Limit returns what a sink topic takes at once; nil for no limits.
	Limit func(topic string) Limit
}

// taskEnv implements operators.Env.
type taskEnv struct {
	t   *Task
	cfg EnvConfig
}

func (e *taskEnv) Task() ids.TaskID { return e.t.spec.ID }

func (e *taskEnv) Store(name string) (state.KV, error) {
	if e.t.restored.Engine == nil {
		return nil, fmt.Errorf("task %s has no state engine for store %q", e.t.spec.ID, name)
	}
	return e.t.restored.Engine.Store(name)
}

func (e *taskEnv) CacheBytes() int64 { return e.cfg.CacheBytes }

func (e *taskEnv) Output(topic string, internal bool) (operators.Output, error) {
	if o, ok := e.t.outputs[topic]; ok {
		return o, nil
	}
	n := e.cfg.Topology.Partitions(topic)
	if n == 0 {
		var err error
		if n, err = e.cfg.Partitions(topic); err != nil {
			return nil, fmt.Errorf("%w: topic %q: %w", operators.ErrRefused, topic, err)
		}
	}
	spec := OutputSpec{Topic: topic, Internal: internal, Partitions: n}
	if !internal && e.cfg.Limit != nil {
		spec.Limit = e.cfg.Limit(topic)
	}
	return e.t.addOutput(spec), nil
}

func (e *taskEnv) Fail(err *operators.RecordError) error {
	// The task stopped: its end is not the record's fault, and nobody wants the
	// rest.
	stopped := e.t.ctx.Ctx.Err() != nil
	if !err.Fatal && !stopped && e.t.protocol.Skipped(e.t, err) {
		return nil
	}
	return err
}

func (e *taskEnv) MaySkip() bool { return e.cfg.MaySkip }

func (e *taskEnv) Metrics() *operators.Metrics { return e.cfg.Metrics }

// Global returns the store of a global table.
func (e *taskEnv) Global(name string) operators.GlobalStore { return e.cfg.Globals[name] }
