package state

import (
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrCorrupted says that the content of a local folder cannot be trusted:
	// wipe it and restore the task from its checkpoint.
	ErrCorrupted = errors.New("local state is corrupted")
	// ErrUnsealed says that a folder holds files but was not written to its end,
	// or was in use when its process died: wipe it and restore.
	ErrUnsealed = errors.New("local state folder is incomplete")
	// ErrDiskFull says that the file system of a folder has no room left.
	ErrDiskFull = errors.New("no space left for local state")
	// ErrLocked says that another process uses the state folder.
	ErrLocked = errors.New("state folder is in use")
	// ErrForeign says that the state folder belongs to another application.
	ErrForeign = errors.New("state folder belongs to another application")
	// ErrOtherEngine says that a folder holds the files of another engine.
	ErrOtherEngine = errors.New("state was written by another engine")
	// ErrNoOldValues says that a store was not opened with [WithOldValues].
	ErrNoOldValues = errors.New("store keeps no old values: open it with state.WithOldValues")
)

// FolderError is an error about a local folder: which one, and what helps. It
// wraps one of the Err values of this package, and the cause.
type FolderError struct {
	Kind   error // ErrCorrupted, ErrUnsealed, ErrDiskFull, ErrLocked, ErrForeign or ErrOtherEngine
	Dir    string
	Help   string // what to do
	Detail error  // the cause, may be nil
}

func (e *FolderError) Error() string {
	s := fmt.Sprintf("%v: folder %s", e.Kind, e.Dir)
	if e.Detail != nil {
		s += ": " + e.Detail.Error()
	}
	if e.Help != "" {
		s += " (" + e.Help + ")"
	}
	return s
}

// Unwrap gives the kind and the cause to errors.Is and errors.As.
func (e *FolderError) Unwrap() []error {
	if e.Detail == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Detail}
}

// Corrupted wraps cause as [ErrCorrupted] of dir.
func Corrupted(dir string, cause error) error {
	return &FolderError{Kind: ErrCorrupted, Dir: dir, Detail: cause,
		Help: "remove the folder; the task is restored from its last checkpoint"}
}

// Unsealed wraps cause as [ErrUnsealed] of dir.
func Unsealed(dir string, cause error) error {
	return &FolderError{Kind: ErrUnsealed, Dir: dir, Detail: cause,
		Help: "remove the folder; the task is restored from its last checkpoint"}
}

// OtherEngine says that dir, which engine was to open, holds another one's files.
func OtherEngine(dir, engine string) error {
	return &FolderError{Kind: ErrOtherEngine, Dir: dir, Detail: fmt.Errorf("it holds no files of the %s engine", engine),
		Help: "a checkpoint is restored by the engine that wrote it: start with the former WithStateStore, the same on all instances"}
}

// Wrap makes a [FolderError] of err where it is the operating system's "no
// space left" (or quota) and returns other errors as they are.
func Wrap(dir string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrDiskFull) {
		return err
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &FolderError{Kind: ErrDiskFull, Dir: dir, Detail: err,
			Help: "free space on that file system or move the state folder; nothing of the last completed checkpoint is lost"}
	}
	return err
}
