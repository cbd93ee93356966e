package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Prefetched holds files of one task that were fetched before the task is
// owned (R25): for a handover, for a takeover, or to follow its state. A
// restore takes them instead of reading them from the store. It is safe for
// concurrent use.
type Prefetched struct {
	dir string

	mu    sync.Mutex // held while files are fetched or taken
	files []FileRef  // whole and verified
	taken bool
}

// NewPrefetched returns an empty one. Its files are below dir, which belongs to
// it alone.
func NewPrefetched(dir string) *Prefetched { return &Prefetched{dir: dir} }

// errTaken says that a restore took the files.
var errTaken = errors.New("the prefetched files are in use")

// Prefetch fetches what files hold and p does not, and removes what they no
// longer hold. What was fetched before an error stays: a later call goes on from
// there. A file that vanished is ErrNotFound at once; the newest checkpoint's
// are then asked for. A call that comes while another runs waits for it.
func (r *Restorer) Prefetch(ctx context.Context, p *Prefetched, files []FileRef) (Restored, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out Restored
	if p.taken {
		return out, errTaken
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return out, err
	}
	p.files = slices.DeleteFunc(p.files, func(f FileRef) bool {
		old := !slices.Contains(files, f)
		if old {
			_ = os.Remove(filepath.Join(p.dir, f.Name)) // else it is overwritten, or goes with the folder
		}
		return old
	})
	var missing []FileRef
	for _, f := range files {
		if !slices.Contains(p.files, f) {
			missing = append(missing, f)
		}
	}
	jobs, err := restoreJobs(missing)
	if err != nil {
		return out, err
	}
	var mu sync.Mutex
	err = r.slots.run(ctx, len(jobs), func(ctx context.Context, i int) error {
		if err := r.fetch(ctx, TaskRestore{}, jobs[i], p.dir); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		p.files = append(p.files, jobs[i]...)
		for _, f := range jobs[i] {
			out.Bytes += f.Size
		}
		out.Objects++
		return nil
	})
	return out, err
}

// Holds reports how many bytes of files p has, of how many.
func (p *Prefetched) Holds(files []FileRef) (have, all int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range files {
		all += f.Size
		if slices.Contains(p.files, f) {
			have += f.Size
		}
	}
	return have, all
}

// Remove deletes the files; no call may follow.
func (p *Prefetched) Remove() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken, p.files = true, nil
	_ = os.RemoveAll(p.dir) // what stays goes with the state folder's next start
}

// take moves what p has of files into dir and returns what it does not have.
// The rest of p is removed.
func (p *Prefetched) take(files []FileRef, dir string) (missing []FileRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range files {
		if !slices.Contains(p.files, f) || os.Rename(filepath.Join(p.dir, f.Name), filepath.Join(dir, f.Name)) != nil {
			missing = append(missing, f)
		}
	}
	p.taken, p.files = true, nil
	_ = os.RemoveAll(p.dir)
	return missing
}
