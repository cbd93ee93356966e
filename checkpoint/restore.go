package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

// RestoreMarkerName is the file, in a restored state folder, that says from
// which checkpoint it was filled. It is written last.
const RestoreMarkerName = "tidegate-restored.json"

// RestoreMarker says what a state folder was filled from.
type RestoreMarker struct {
	App        string           `json:"app"`
	Life       ids.Life         `json:"life"`
	Checkpoint ids.CheckpointID `json:"checkpoint"`
	Task       ids.TaskID       `json:"task"`
}

// TaskRestore asks for one task's state folder.
type TaskRestore struct {
	Marker RestoreMarker
	// Dir is made by the restore; it must not exist or be empty.
	Dir   string
	Files []FileRef
	// Copies, if not nil, has files from before: only what it lacks is downloaded,
	// and kept there as well.
	Copies *LocalFiles
	// Vanished is for how long a missing object is asked for again before it
	// is an error: the checkpoint timeout in a restore, 0 in a prefetch (which
	// goes on with the newest checkpoint instead; R25).
	Vanished time.Duration
}

// Restored is what a TaskRestore came to.
type Restored struct {
	// Bytes of all files, and those of them that were downloaded; the others were
	// on this machine.
	Bytes, Downloaded int64
	Objects           int // downloaded
	// Damaged are copies on this machine that had another size or checksum.
	Damaged int
}

// RestoreOptions configure a Restorer. The zero value is the default.
type RestoreOptions struct {
	// Parallel is how many objects are in transfer at once; 0 means 4.
	Parallel int
	// BytesPerSecond bounds each Copy; 0 does not. A restore is not bounded.
	BytesPerSecond int64
	Retry          Retry
}

// Restorer fills state folders from checkpoints. One serves all tasks of an
// instance and bounds their transfers together.
type Restorer struct {
	store Store
	opts  RestoreOptions
	slots slots
}

// NewRestorer returns a Restorer from s.
func NewRestorer(s Store, o RestoreOptions) *Restorer {
	return &Restorer{store: s, opts: o, slots: newSlots(o.Parallel)}
}

// corruptTries is how often an object is read again after a wrong checksum:
// the network may have damaged it, not the disk.
const corruptTries = 2

// Restore puts the files next to Dir, downloads those that Copies lacks, checks every checksum, writes the
// marker and only then renames the folder into place: Dir exists whole or not
// at all. Nothing is synced: the folder is a copy, and after a power failure
// it is filled again.
//
// Errors: ErrCorrupted names the damaged object and the way out; ErrNotFound
// after Vanished; ErrUnavailable after the retries.
func (r *Restorer) Restore(ctx context.Context, t TaskRestore) (Restored, error) {
	out, err := r.restore(ctx, t)
	if err != nil {
		return Restored{}, fmt.Errorf("restore task %s from checkpoint %d: %w", t.Marker.Task, t.Marker.Checkpoint, err)
	}
	return out, nil
}

func (r *Restorer) restore(ctx context.Context, t TaskRestore) (out Restored, err error) {
	if err := refuseFull(t.Dir); err != nil {
		return out, err
	}
	partial := t.Dir + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o755)); err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(partial) // the first error counts
		}
	}()
	if _, err := restoreJobs(t.Files); err != nil { // checks all before anything is read
		return out, err
	}
	missing, err := r.reuse(ctx, t, partial, &out)
	if err != nil {
		return out, err
	}
	if err := r.download(ctx, t, missing, partial, &out); err != nil {
		return out, err
	}
	_ = t.Copies.add(t.Marker.Task, t.Marker.Checkpoint, t.Files, pathsIn(partial, missing), false) // costs a download at most
	if err := writeRestoreMarker(partial, t.Marker); err != nil {
		return out, err
	}
	if err := os.Remove(t.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	return out, os.Rename(partial, t.Dir)
}

// reuse takes what is on this machine, and returns the rest.
func (r *Restorer) reuse(ctx context.Context, t TaskRestore, dir string, out *Restored) ([]FileRef, error) {
	if t.Copies == nil {
		return t.Files, nil
	}
	have := make([]bool, len(t.Files))
	var mu sync.Mutex
	err := r.slots.run(ctx, len(t.Files), func(ctx context.Context, i int) error {
		ok, damaged, err := t.Copies.provide(ctx, t.Marker.Task, t.Files[i], filepath.Join(dir, t.Files[i].Name))
		mu.Lock()
		defer mu.Unlock()
		have[i] = ok && err == nil
		if damaged {
			out.Damaged++
		}
		return err
	})
	var missing []FileRef
	for i, f := range t.Files {
		if have[i] {
			out.Bytes += f.Size
		} else {
			missing = append(missing, f)
		}
	}
	return missing, err
}

// download gets files from the store into dir.
func (r *Restorer) download(ctx context.Context, t TaskRestore, files []FileRef, dir string, out *Restored) error {
	jobs, err := restoreJobs(files)
	if err != nil {
		return err
	}
	err = r.slots.run(ctx, len(jobs), func(ctx context.Context, i int) error {
		return r.fetch(ctx, t, jobs[i], dir)
	})
	for _, f := range files {
		out.Bytes += f.Size
		out.Downloaded += f.Size
	}
	out.Objects += len(jobs)
	return err
}

func pathsIn(dir string, files []FileRef) map[string]string {
	paths := make(map[string]string, len(files))
	for _, f := range files {
		paths[f.Name] = filepath.Join(dir, f.Name)
	}
	return paths
}

// ReadRestoreMarker tells what dir was filled from; fs.ErrNotExist when it was
// not filled by a restore, or not completely.
func ReadRestoreMarker(dir string) (RestoreMarker, error) {
	b, err := os.ReadFile(filepath.Join(dir, RestoreMarkerName))
	if err != nil {
		return RestoreMarker{}, err
	}
	var m RestoreMarker
	if err := json.Unmarshal(b, &m); err != nil {
		return RestoreMarker{}, fmt.Errorf("read %s: %w", filepath.Join(dir, RestoreMarkerName), err)
	}
	return m, nil
}

func writeRestoreMarker(dir string, m RestoreMarker) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, RestoreMarkerName), b, 0o644)
}

func refuseFull(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("the folder %s is not empty: remove it before the restore", dir)
	}
	return nil
}

// restoreJobs groups files by object: a pack is read once, however many files
// it holds.
func restoreJobs(files []FileRef) ([][]FileRef, error) {
	var jobs [][]FileRef
	packs := map[string]int{}
	names := map[string]bool{RestoreMarkerName: true}
	for _, f := range files {
		if err := f.validate(); err != nil {
			return nil, fmt.Errorf("file %q: %w", f.Name, err)
		}
		if names[f.Name] {
			return nil, fmt.Errorf("file %q is listed twice", f.Name)
		}
		names[f.Name] = true
		if i, ok := packs[f.Key]; ok && f.Packed > 0 {
			jobs[i] = append(jobs[i], f)
			continue
		}
		if f.Packed > 0 {
			packs[f.Key] = len(jobs)
		}
		jobs = append(jobs, []FileRef{f})
	}
	return jobs, nil
}

// fetch gets one object, with the repetitions that its errors deserve.
func (r *Restorer) fetch(ctx context.Context, t TaskRestore, files []FileRef, dir string) error {
	deadline := time.Now().Add(t.Vanished)
	damaged := 0
	vanished := Retry{Attempts: 1 << 30, Base: 100 * time.Millisecond, Max: 2 * time.Second}
	err := vanished.do(ctx, func(err error) bool {
		if errors.Is(err, ErrCorrupted) {
			damaged++
			return damaged <= corruptTries
		}
		return errors.Is(err, ErrNotFound) && time.Now().Before(deadline)
	}, func() error {
		return r.opts.Retry.do(ctx, Retriable, func() error { return r.fetchOnce(ctx, files, dir) })
	})
	if e := (*Error)(nil); errors.As(err, &e) && e.Kind == KindNotFound {
		lost := *e
		lost.Hint = "an object of this checkpoint was deleted: restore the newest checkpoint; if this is the newest, fall back to an older one with RestoreFrom(n, AllowDuplicates)"
		return &lost
	}
	return err
}

func (r *Restorer) fetchOnce(ctx context.Context, files []FileRef, dir string) error {
	if files[0].Packed == 0 {
		return GetFile(ctx, r.store, files[0], filepath.Join(dir, files[0].Name))
	}
	from, to := files[0].Offset, files[0].Offset+files[0].Size
	for _, f := range files {
		from, to = min(from, f.Offset), max(to, f.Offset+f.Size)
	}
	b, err := GetRange(ctx, r.store, files[0].Key, from, to-from)
	if err != nil {
		return err
	}
	for _, f := range files {
		part := b[f.Offset-from:][:f.Size]
		if err := f.verify(r.store, f.Size, Checksum(part)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name), part, 0o644); err != nil {
			return fmt.Errorf("download %s: %w", f.Key, err)
		}
	}
	return nil
}
