package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidegate/tidegate/internal/ids"
)

// LocalFiles is a folder with copies of what checkpoints of one life hold, so
// that a restore downloads only what is missing. A copy is found by the name of
// its object, never by the name that it had in a state folder: an object's name
// is never given twice (R15), so a copy is either right or damaged, and size and
// checksum tell which.
//
//	DIR/LIFE/TASK/N-INCARNATION.ATTEMPT-d-FILE            of an object of its own
//	DIR/LIFE/TASK/N-INCARNATION.ATTEMPT-p-I-OFFSET        out of a pack
//
// Copies come from uploads (hard links to the snapshot's files), restores and
// prefetches. Which ones stay is said per task by sets, one for each checkpoint:
// those of the last completed one and of later ones that are undecided. What an
// earlier process left is a set of its own, below all checkpoints, until the
// task's first checkpoint of this process.
//
// Nothing is synced: a copy that a power failure tore fails its checksum. What
// this process wrote it does not check again.
//
// It may be used from several goroutines. Files of a task that is being restored
// must not be dropped meanwhile: REQUIRES Forget and Completed of that task come
// after its restore.
type LocalFiles struct {
	dir   string // with the life
	names Names

	mu    sync.Mutex
	tasks map[ids.TaskID]*localTask
}

// localTask is what is there of one task.
type localTask struct {
	mu    sync.Mutex
	dir   string
	files map[string]*localFile // by name in dir
	sets  map[ids.CheckpointID]map[string]bool
}

type localFile struct {
	n       ids.CheckpointID // that wrote it
	size    int64
	checked bool // against the object's checksum, by this process
}

// foundSet is the set of what an earlier process left.
const foundSet ids.CheckpointID = -1 << 62

// OpenLocalFiles takes over dir, which it makes when it is missing. What does
// not belong there, other lives' copies included, is deleted.
func OpenLocalFiles(dir string, names Names) (*LocalFiles, error) {
	l := &LocalFiles{dir: filepath.Join(dir, names.Life.String()), names: names, tasks: map[ids.TaskID]*localTask{}}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the copies of checkpoint files: %w", err)
	}
	if err := l.scan(dir); err != nil {
		return nil, fmt.Errorf("open the copies of checkpoint files: %w", err)
	}
	return l, nil
}

func (l *LocalFiles) scan(dir string) error {
	lives, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range lives {
		if path := filepath.Join(dir, e.Name()); path != l.dir {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	folders, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, e := range folders {
		task, err := ids.ParseTaskID(e.Name())
		if err != nil || task.String() != e.Name() || !e.IsDir() {
			if err := os.RemoveAll(filepath.Join(l.dir, e.Name())); err != nil {
				return err
			}
			continue
		}
		if err := l.task(task).scan(); err != nil {
			return err
		}
	}
	return nil
}

func (t *localTask) scan() error {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, e := range entries {
		info, err := e.Info()
		n, ok := writtenFor(e.Name())
		if err != nil || !ok || !info.Mode().IsRegular() {
			if err := os.RemoveAll(filepath.Join(t.dir, e.Name())); err != nil {
				return err
			}
			continue
		}
		t.files[e.Name()] = &localFile{n: n, size: info.Size()}
		found[e.Name()] = true
	}
	if len(found) > 0 {
		t.sets[foundSet] = found
	}
	return nil
}

func (l *LocalFiles) task(t ids.TaskID) *localTask {
	l.mu.Lock()
	defer l.mu.Unlock()
	lt := l.tasks[t]
	if lt == nil {
		lt = &localTask{dir: filepath.Join(l.dir, t.String()), files: map[string]*localFile{}, sets: map[ids.CheckpointID]map[string]bool{}}
		l.tasks[t] = lt
	}
	return lt
}

// localName is the name of a file's copy; false for objects of another life or
// application, which are not kept.
func (l *LocalFiles) localName(t ids.TaskID, f FileRef) (string, bool) {
	n, err := ParseName(f.Key)
	if err != nil || !l.names.Owns(f.Key) || n.Task != t {
		return "", false
	}
	name := fmt.Sprintf("%d-%d.%d-", n.Checkpoint, n.Incarnation, n.Attempt)
	if n.Kind == NamePack {
		return name + "p-" + n.File + "-" + strconv.FormatInt(f.Offset, 10), true
	}
	return name + "d-" + n.File, true
}

// writtenFor reads the checkpoint out of the name of a copy.
func writtenFor(name string) (ids.CheckpointID, bool) {
	parts := strings.SplitN(name, "-", 3)
	if len(parts) < 3 || len(parts[2]) < 3 || parts[2][:2] != "d-" && parts[2][:2] != "p-" {
		return 0, false
	}
	n, err := strconv.ParseInt(parts[0], 10, 64)
	return ids.CheckpointID(n), err == nil && n >= 0 && strconv.FormatInt(n, 10) == parts[0]
}

// LocalState is what is there of one task's state.
type LocalState struct {
	Task ids.TaskID
	// Newest is the newest checkpoint that wrote to it.
	Newest ids.CheckpointID
	Bytes  int64
}

// Held lists what is there, sorted by task: of the last completed checkpoint, or
// what an earlier process left.
func (l *LocalFiles) Held() []LocalState {
	l.mu.Lock()
	tasks := make(map[ids.TaskID]*localTask, len(l.tasks))
	for t, lt := range l.tasks {
		tasks[t] = lt
	}
	l.mu.Unlock()
	var out []LocalState
	for t, lt := range tasks {
		if s, some := lt.held(); some {
			s.Task = t
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b LocalState) int { return a.Task.Compare(b.Task) })
	return out
}

// held looks at the oldest set: later ones are undecided.
func (t *localTask) held() (s LocalState, some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := ids.CheckpointID(1<<63 - 1)
	for n := range t.sets {
		oldest = min(oldest, n)
	}
	for name := range t.sets[oldest] {
		if f := t.files[name]; f != nil {
			s.Newest, s.Bytes, some = max(s.Newest, f.n), s.Bytes+f.size, true
		}
	}
	return s, some
}

// Keep makes the files of checkpoint n, just uploaded from a snapshot, a set of
// the task; paths says where the snapshot's files lie, by name, on the same file
// system. What cannot be kept is missing then, which costs a download at most.
func (l *LocalFiles) Keep(task ids.TaskID, n ids.CheckpointID, files []FileRef, paths map[string]string) error {
	return l.add(task, n, files, paths, true)
}

// add notes a set and takes what is not there yet from paths; fixed says that
// nobody changes those files any more, mutable ones included.
func (l *LocalFiles) add(task ids.TaskID, n ids.CheckpointID, files []FileRef, paths map[string]string, fixed bool) (err error) {
	if l == nil {
		return nil
	}
	t := l.task(task)
	t.mu.Lock()
	defer t.mu.Unlock()
	set := make(map[string]bool, len(files))
	made := false
	for _, f := range files {
		name, ours := l.localName(task, f)
		if !ours {
			continue
		}
		set[name] = true
		if have := t.files[name]; have != nil && have.size == f.Size {
			continue
		}
		path, known := paths[f.Name]
		if !known {
			continue
		}
		if !made {
			if e := os.MkdirAll(t.dir, 0o700); e != nil {
				return fmt.Errorf("keep a copy of checkpoint files: %w", e)
			}
			made = true
		}
		take := copyFile
		if fixed || f.Immutable {
			take = linkNew
		}
		if e := take(path, filepath.Join(t.dir, name)); e != nil {
			err = errors.Join(err, e)
			continue
		}
		object, _ := ParseName(f.Key)
		t.files[name] = &localFile{n: object.Checkpoint, size: f.Size, checked: true}
	}
	t.sets[n] = set
	if err != nil {
		return fmt.Errorf("keep a copy of checkpoint files: %w", err)
	}
	return nil
}

// linkNew makes to the same file as from, also when there is a damaged one.
func linkNew(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, fs.ErrExist) {
		if err = os.Remove(to); err == nil {
			err = os.Link(from, to)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return copyFile(from, to) // the file system has no hard links
	}
	return err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read only
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(to)
	}
	return err
}

// Completed notes that checkpoint n of a task completed: what only earlier ones
// held is deleted.
func (l *LocalFiles) Completed(task ids.TaskID, n ids.CheckpointID) {
	if l == nil {
		return
	}
	t := l.task(task)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sets[n] == nil {
		return // not a checkpoint that this instance took for the task
	}
	for id := range t.sets {
		if id < n {
			delete(t.sets, id)
		}
	}
	t.sweep()
}

// Aborted forgets checkpoint n of a task.
func (l *LocalFiles) Aborted(task ids.TaskID, n ids.CheckpointID) {
	if l == nil {
		return
	}
	t := l.task(task)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sets[n] != nil {
		delete(t.sets, n)
		t.sweep()
	}
}

// Forget deletes what is there of all tasks but those that are wanted.
func (l *LocalFiles) Forget(wanted func(ids.TaskID) bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	var gone []*localTask
	for t, lt := range l.tasks {
		if !wanted(t) {
			gone = append(gone, lt)
		}
	}
	l.mu.Unlock()
	for _, t := range gone {
		t.mu.Lock()
		if len(t.files)+len(t.sets) > 0 {
			clear(t.sets)
			t.sweep()
			_ = os.Remove(t.dir)
		}
		t.mu.Unlock()
	}
}

// sweep deletes files of no set. REQUIRES: t.mu is held.
func (t *localTask) sweep() {
	for name := range t.files {
		held := false
		for _, set := range t.sets {
			held = held || set[name]
		}
		if !held {
			_ = os.Remove(filepath.Join(t.dir, name)) // at the next start otherwise
			delete(t.files, name)
		}
	}
}

// provide puts a file into a state folder, if there is a good copy; damaged says
// that there was a bad one, which is deleted.
func (l *LocalFiles) provide(ctx context.Context, task ids.TaskID, f FileRef, to string) (ok, damaged bool, err error) {
	path, ok, damaged, err := l.find(ctx, task, f)
	if !ok || err != nil {
		return false, damaged, err
	}
	if f.Immutable {
		err = os.Link(path, to)
	}
	if !f.Immutable || err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = copyFile(path, to)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil // dropped just now
	}
	return err == nil, false, err
}

// find returns the path of a good copy.
func (l *LocalFiles) find(ctx context.Context, task ids.TaskID, f FileRef) (path string, ok, damaged bool, err error) {
	if l == nil {
		return "", false, false, nil
	}
	name, ours := l.localName(task, f)
	if !ours {
		return "", false, false, nil
	}
	t := l.task(task)
	t.mu.Lock()
	have := t.files[name]
	good := have != nil && have.size == f.Size
	checked := good && have.checked
	t.mu.Unlock()
	if have == nil {
		return "", false, false, nil
	}
	path = filepath.Join(t.dir, name)
	if good && !checked {
		if good, err = sameSum(ctx, path, f); err != nil {
			return "", false, false, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !good {
		_ = os.Remove(path)
		delete(t.files, name)
		return "", false, true, nil
	}
	have.checked = true
	return path, true, false, nil
}

// sameSum reads a copy that this process did not write. Only the context's end is
// an error: what cannot be read is as good as damaged.
func sameSum(ctx context.Context, path string, f FileRef) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, nil //nolint:nilerr // it is fetched instead
	}
	defer file.Close() //nolint:errcheck // read only
	sum, err := checksumFile(ctx, file, f.Size)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return err == nil && sum == f.CRC, nil
}
