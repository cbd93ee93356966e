package runtime

import (
	"path/filepath"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/rebalance"
	"github.com/tidegate/tidegate/tasks"
)

// openFiles takes over the copies of checkpoint files that this folder has from
// before, once for a life. Without them everything is downloaded.
func (i *instance) openFiles() {
	if i.files != nil && i.filesOf == i.life {
		return
	}
	files, err := checkpoint.OpenLocalFiles(filepath.Join(i.stateDir, "files"), i.names)
	if err != nil {
		i.log.Warn("copies of checkpoint files cannot be used; what is needed is downloaded", "error", err)
		return
	}
	i.files, i.filesOf = files, i.life
}

// restoredFrom notes what a task was restored from: copies of other checkpoints
// are not needed any more.
func (i *instance) restoredFrom(t ids.TaskID, n ids.CheckpointID, done checkpoint.Restored) {
	i.files.Completed(t, n)
	i.status.update(func(h *Health) { h.DownloadedBytes += done.Downloaded })
	if done.Damaged > 0 {
		i.log.Warn("local copies of checkpoint files were damaged; they were downloaded again", "task", t.String(), "files", done.Damaged)
	}
}

// keepFiles keeps the files of a snapshot that was uploaded, so that a restart
// need not download them.
func (i *instance) keepFiles(s *tasks.Snapshot, files []checkpoint.FileRef) {
	paths := make(map[string]string, len(s.State.Files))
	for _, f := range s.State.Files {
		paths[f.Name] = f.Path
	}
	if err := i.files.Keep(s.Task, s.N, files, paths); err != nil {
		i.log.Debug("cannot keep copies of checkpoint files", "task", s.Task.String(), "error", err)
	}
}

// settleFiles deletes copies that a decided checkpoint made useless.
func (i *instance) settleFiles(parts []checkpoint.TaskPart, n ids.CheckpointID, completed bool) {
	for _, p := range parts {
		if completed {
			i.files.Completed(p.Task, n)
		} else {
			i.files.Aborted(p.Task, n)
		}
	}
}

// held is what this instance says of the state on its disk.
func (i *instance) held() []rebalance.Held {
	if i.files == nil {
		return nil
	}
	var out []rebalance.Held
	for _, s := range i.files.Held() {
		out = append(out, rebalance.Held{Task: s.Task, Position: int64(s.Newest), Size: s.Bytes})
	}
	return out
}
