package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	lockName  = "LOCK"
	ownerName = "OWNER"

	ownerVersion = 1
	maxOwner     = 1 << 16
)

// DirLock is the exclusive use of a state folder by this process.
type DirLock struct {
	dir  string
	file *os.File
}

// owner is the content of the OWNER file: whose folder this is.
type owner struct {
	Version     int    `json:"version"`
	Application string `json:"application"`
}

// LockDir takes a state folder, which it makes when it is missing, for an
// application. The lock is an flock on a file with this process' id: it goes
// with the process, however that ends. Errors: [ErrLocked] when another process
// has it, [ErrForeign] when the folder is another application's, or holds files
// but is nobody's.
func LockDir(dir, application string) (*DirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, Wrap(dir, fmt.Errorf("make state folder: %w", err))
	}
	if err := checkOwner(dir, application); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, Wrap(dir, fmt.Errorf("lock state folder: %w", err))
	}
	if err := flock(f); err != nil {
		holder, _ := readBounded(path, maxOwner)
		_ = f.Close()
		if !errors.Is(err, errHeld) {
			return nil, fmt.Errorf("lock state folder %s: %w", dir, err)
		}
		detail := errors.New("another process holds " + path)
		if pid := strings.TrimSpace(string(holder)); pid != "" {
			detail = fmt.Errorf("process %s holds %s", pid, path)
		}
		return nil, &FolderError{Kind: ErrLocked, Dir: dir, Detail: detail,
			Help: "give every instance on a machine its own state folder, or stop the other one"}
	}
	l := &DirLock{dir: dir, file: f}
	if err := l.claim(application); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// claim writes who has the folder, once the lock is held.
func (l *DirLock) claim(application string) error {
	if err := checkOwner(l.dir, application); err != nil {
		return err // somebody was faster
	}
	b, err := json.Marshal(owner{Version: ownerVersion, Application: application})
	if err == nil {
		tmp := filepath.Join(l.dir, ownerName+".tmp")
		if err = os.WriteFile(tmp, b, 0o600); err == nil {
			err = os.Rename(tmp, filepath.Join(l.dir, ownerName))
		}
	}
	if err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return Wrap(l.dir, fmt.Errorf("claim state folder: %w", err))
	}
	return nil
}

// Dir returns the locked folder.
func (l *DirLock) Dir() string { return l.dir }

// Close gives the folder free. The files stay.
func (l *DirLock) Close() error {
	if err := unflock(l.file); err != nil {
		_ = l.file.Close()
		return fmt.Errorf("unlock state folder: %w", err)
	}
	return l.file.Close()
}

// checkOwner refuses a folder of another application, and one with files of
// somebody else altogether: what is in a state folder may be wiped.
func checkOwner(dir, application string) error {
	b, err := readBounded(filepath.Join(dir, ownerName), maxOwner)
	if errors.Is(err, os.ErrNotExist) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("look into state folder: %w", err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), lockName) && e.Name() != ownerName+".tmp" {
				return &FolderError{Kind: ErrForeign, Dir: dir,
					Detail: fmt.Errorf("it holds %s but no %s file", e.Name(), ownerName),
					Help:   "give the application an empty folder"}
			}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into state folder: %w", err)
	}
	o, err := decodeOwner(b)
	if err != nil {
		return Corrupted(dir, err)
	}
	if o.Application != application {
		return &FolderError{Kind: ErrForeign, Dir: dir,
			Detail: fmt.Errorf("it belongs to application %q, this one is %q", o.Application, application),
			Help:   "give every application its own state folder"}
	}
	return nil
}

func decodeOwner(b []byte) (owner, error) {
	var o owner
	if err := json.Unmarshal(b, &o); err != nil {
		return owner{}, fmt.Errorf("decode %s: %w", ownerName, err)
	}
	if o.Version != ownerVersion {
		return owner{}, fmt.Errorf("%s file of version %d, this program reads version %d", ownerName, o.Version, ownerVersion)
	}
	return o, nil
}

var errHeld = errors.New("lock is held")
