package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

// TaskCopy asks for a task's files of a completed checkpoint to be put among the
// local copies, so that a takeover downloads nothing.
type TaskCopy struct {
	Task       ids.TaskID
	Checkpoint ids.CheckpointID
	Files      []FileRef
	Copies     *LocalFiles
}

// Copy downloads what is missing, and then drops what only earlier
// checkpoints of the task held. Nothing of a state folder is touched.
//
// Errors: ErrNotFound when an object is gone because the checkpoint was retired:
// go on with the newest one (R25). What was downloaded stays.
func (r *Restorer) Copy(ctx context.Context, p TaskCopy) (Restored, error) {
	out, err := r.copy(ctx, p)
	if err != nil {
		return out, fmt.Errorf("copy state of task %s of checkpoint %d: %w", p.Task, p.Checkpoint, err)
	}
	return out, nil
}

func (r *Restorer) copy(ctx context.Context, p TaskCopy) (out Restored, err error) {
	if _, err := restoreJobs(p.Files); err != nil {
		return out, err
	}
	var missing []FileRef
	for _, f := range p.Files {
		_, ok, damaged, err := p.Copies.find(ctx, p.Task, f)
		if err != nil {
			return out, err
		}
		if damaged {
			out.Damaged++
		}
		if ok {
			out.Bytes += f.Size
		} else {
			missing = append(missing, f)
		}
	}
	if len(missing) == 0 {
		err := p.Copies.add(p.Task, p.Checkpoint, p.Files, nil, true)
		p.Copies.Completed(p.Task, p.Checkpoint)
		return out, err
	}
	dir, err := p.Copies.scratch()
	if err != nil {
		return out, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // at the next start otherwise
	t := TaskRestore{Marker: RestoreMarker{Task: p.Task, Checkpoint: p.Checkpoint}}
	begun := time.Now()
	got := map[string]string{}
	for len(missing) > 0 {
		n := r.step(missing)
		if err := r.download(ctx, t, missing[:n], dir, &out); err != nil {
			return out, err
		}
		maps.Copy(got, pathsIn(dir, missing[:n]))
		missing = missing[n:]
		if err := p.Copies.add(p.Task, p.Checkpoint, p.Files, got, true); err != nil {
			return out, err
		}
		if err := r.throttle(ctx, begun, out.Downloaded); err != nil {
			return out, err
		}
	}
	p.Copies.Completed(p.Task, p.Checkpoint)
	return out, nil
}

// copyStep is how many bytes are fetched before they are kept: a Copy that is
// cancelled, because the task starts here, loses no more than that.
const copyStep = 32 << 20

// step is how many files are fetched before they are kept and the rate is looked
// at: beyond the first no more than copyStep and a second's worth.
func (r *Restorer) step(files []FileRef) int {
	limit := int64(copyStep)
	if r.opts.BytesPerSecond > 0 {
		limit = min(limit, r.opts.BytesPerSecond)
	}
	var size int64
	for n, f := range files {
		if size += f.Size; size > limit && n > 0 {
			return n
		}
	}
	return len(files)
}

// throttle waits until what was downloaded is within the rate.
func (r *Restorer) throttle(ctx context.Context, begun time.Time, bytes int64) error {
	if r.opts.BytesPerSecond <= 0 {
		return nil
	}
	due := time.Duration(float64(bytes) / float64(r.opts.BytesPerSecond) * float64(time.Second))
	wait := due - time.Since(begun)
	if wait <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// scratch makes a folder for downloads, which a scan deletes.
func (l *LocalFiles) scratch() (string, error) {
	if l == nil {
		return "", errors.New("no folder for copies")
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil { // somebody removed it
		return "", err
	}
	dir, err := os.MkdirTemp(l.dir, "partial-")
	if err != nil {
		return "", err
	}
	return filepath.Clean(dir), nil
}
