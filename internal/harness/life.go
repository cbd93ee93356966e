package harness

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/tasks"
)

// life is the life of every driver's control log.
const life ids.Life = 1

// Start makes the tasks, from checkpoint 0. Piping calls it when needed.
func (d *Driver) Start() error {
	d.worker = tasks.NewManual(seam{d}, func() time.Time { return d.now })
	for _, id := range d.sortedTasks() {
		for _, in := range tasks.InputsOf(d.res, id) {
			d.parts[in.TP] = &partition{tp: in.TP, arena: &d.arena}
		}
	}
	return d.begin(0, nil)
}

// begin starts an incarnation of all tasks from checkpoint n: snaps are its
// snapshots, nil for checkpoint 0.
func (d *Driver) begin(n ids.CheckpointID, snaps map[ids.TaskID]*tasks.Snapshot) error {
	all := d.sortedTasks()
	d.inc = ids.Incarnation(d.log)
	d.log++
	d.lineages = d.lineages.Restart(barrier.NewTaskSet(all...), n, d.inc)
	d.order = nil
	clear(d.tasks)
	for _, id := range all {
		t := &task{id: id, dir: filepath.Join(d.dir, fmt.Sprintf("%d-%s", d.inc, id)), dirty: true}
		d.tasks[id] = t
		if err := d.open(t, n, snaps[id]); err != nil {
			return err
		}
		d.order = append(d.order, t)
	}
	return d.Run()
}

// open restores a task and hands it to the worker.
func (d *Driver) open(t *task, n ids.CheckpointID, s *tasks.Snapshot) (err error) {
	restored := tasks.Restored{LastBarrier: n, External: map[ids.TopicPartition]int64{}}
	spec := d.spec(t.id)
	if s == nil {
		for _, in := range spec.Inputs {
			if in.Internal {
				restored.Positions = append(restored.Positions, barrier.FirstPosition(in.TP, 0))
			} else {
				restored.External[in.TP] = 0
			}
		}
	} else {
		restored.Positions, restored.External = s.Positions, s.External
		restored.Times, restored.Timers = &s.Times, s.Timers
		if s.State.Dir != "" {
			// The snapshot is nobody else's, so its folder becomes the engine's:
			// state.FillFolder would link and copy all files for nothing.
			t.dir = s.State.Dir
			if err := state.WriteSeal(t.dir, fmt.Sprintf("checkpoint %d", n)); err != nil {
				return err
			}
		}
	}
	if len(spec.Sub.Stores) > 0 {
		if t.engine, err = d.Open(t.dir); err != nil {
			return err
		}
		restored.Engine = t.engine
	}
	if t.run, err = tasks.New(spec, seam{d}, restored, d.env()); err != nil {
		if t.engine != nil {
			err = errors.Join(err, t.engine.Close())
		}
		return err
	}
	d.worker.Adopt(t.run)
	return d.failure
}

func (d *Driver) spec(id ids.TaskID) tasks.Spec {
	return tasks.Spec{
		ID: id, Incarnation: d.inc, Life: life, Sub: d.res.Subtopologies()[id.Sub],
		Inputs: tasks.InputsOf(d.res, id), Outputs: tasks.OutputsOf(d.res, id),
		Lineages: d.lineages, LogEnd: d.log, HoldLimit: math.MaxInt64, MaxSeen: d.MaxSeen,
		SnapshotDir: func(n ids.CheckpointID) string { return d.snapshotDir(n, id) },
		Clock:       func() time.Time { return d.now },
	}
}

func (d *Driver) snapshotDir(n ids.CheckpointID, id ids.TaskID) string {
	return filepath.Join(d.dir, fmt.Sprintf("snapshot-%d-%s", n, id))
}

func (d *Driver) env() tasks.EnvConfig {
	return tasks.EnvConfig{
		Topology: d.res, CacheBytes: d.CacheBytes, MaySkip: d.Skip != nil, Metrics: &d.Metrics,
		Partitions: d.topicPartitions, Globals: d.globals,
	}
}

// Restart takes a checkpoint of all tasks, closes them, and makes all of them
// anew from it. What is queued and not run yet is behind the barrier.
func (d *Driver) Restart() error {
	n := ids.CheckpointID(d.log)
	d.log++
	d.snaps = map[ids.TaskID]*tasks.Snapshot{}
	d.worker.Trigger(d.inc, n, true)
	for _, t := range d.order {
		t.dirty = true
	}
	if d.failure == nil {
		_ = d.Run()
	}
	if d.failure != nil {
		return d.failure
	}
	for _, t := range d.order {
		if d.snaps[t.id] == nil {
			return fmt.Errorf("task %s did not get barrier %d from all its channels", t.id, n)
		}
	}
	d.worker.Decided(n, true)
	old, snaps := d.order, d.snaps
	d.worker.Close()
	if len(d.closing) > 0 {
		return errors.Join(d.closing...)
	}
	if err := d.begin(n, snaps); err != nil {
		return err
	}
	for _, t := range old { // nothing of them is used any more
		if t.engine == nil {
			continue
		}
		if err := os.RemoveAll(t.dir); err != nil {
			return fmt.Errorf("remove the state of task %s: %w", t.id, err)
		}
	}
	return nil
}
