package optest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/state"
)

// Start makes the tasks. Pipe calls it when needed.
func (d *Driver) Start() error {
	for _, id := range d.res.Tasks() {
		t := &task{d: d, id: id, dir: d.folder(id), inputs: d.inputs(id)}
		if err := t.open(nil, nil); err != nil {
			return err
		}
		d.tasks[id] = t
	}
	d.lives++
	return nil
}

// Restart takes a snapshot of every task and makes all of them anew from it, as
// a checkpoint and a restore do.
func (d *Driver) Restart() error {
	for _, id := range d.res.Tasks() {
		if err := d.tasks[id].restart(d.folder(id)); err != nil {
			return err
		}
	}
	d.lives++
	return nil
}

// folder is where a task's state lies in the life that begins.
func (d *Driver) folder(id ids.TaskID) string {
	return filepath.Join(d.dir, fmt.Sprintf("%d-%s", d.lives, id))
}

// open makes the running form of a task over the state in its folder. Whatever
// fails, nothing stays open.
func (t *task) open(timers []byte, times *barrier.TimesState) (err error) {
	if t.engine, err = t.d.Open(t.dir); err != nil {
		return err
	}
	t.times = barrier.NewTimes(t.inputs, times, 0, t.d.now)
	t.told = announced{time: barrier.NoTime}
	for i, in := range t.inputs {
		t.times.CaughtUp(i, in.Source, t.d.now)
	}
	t.ctx = operators.Context{StreamTime: streamTime(t.times.StreamTime())}
	t.ctx.Ctx = context.Background()
	if t.graph, err = operators.Instantiate(t.d.res.Subtopologies()[t.id.Sub], env{t}); err != nil {
		return errors.Join(err, t.close())
	}
	if err = t.graph.RestoreTimers(timers); err != nil {
		return errors.Join(err, t.close())
	}
	return nil
}

func (t *task) restart(dir string) error {
	if err := t.flush(); err != nil {
		return err
	}
	timers, times := t.graph.SnapshotTimers(), t.times.State()
	snap, err := t.engine.Snapshot(dir + "-snapshot")
	if err != nil {
		return err
	}
	if err := t.close(); err != nil {
		return err
	}
	if err := state.FillFolder(dir, "restart", snap.Files); err != nil {
		return err
	}
	t.dir = dir
	return t.open(timers, &times)
}

// close may be called again: a restart that fails leaves a closed task.
func (t *task) close() error {
	var errs []error
	if t.graph != nil {
		errs = append(errs, t.graph.Close())
	}
	if t.engine != nil {
		errs = append(errs, t.engine.Close())
	}
	t.graph, t.engine = nil, nil
	return errors.Join(errs...)
}

// flush writes the caches. As in a task, a panic here is never skipped.
func (t *task) flush() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = t.graph.RecoverError(p)
		}
	}()
	return t.graph.Flush(&t.ctx)
}
