package servers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const scratchPrefix = "tidegate-servers-"

var open struct {
	sync.Mutex
	closers []io.Closer // in order of creation
}

// remember adds what CloseAll must close.
func remember(c io.Closer) {
	open.Lock()
	defer open.Unlock()
	open.closers = append(open.closers, c)
}

// forget takes out what has been closed by its owner.
func forget(c io.Closer) {
	open.Lock()
	defer open.Unlock()
	for i, o := range open.closers {
		if o == c {
			open.closers = append(open.closers[:i], open.closers[i+1:]...)
			return
		}
	}
}

// CloseAll stops every server and process that was started here, last first, and
// removes their data. Programs call it before they exit; tests through [Main].
func CloseAll() error {
	var errs []error
	for {
		open.Lock()
		n := len(open.closers)
		if n == 0 {
			open.Unlock()
			break
		}
		c := open.closers[n-1]
		open.closers = open.closers[:n-1]
		open.Unlock()
		errs = append(errs, c.Close())
	}
	errs = append(errs, os.RemoveAll(scratchRoot()))
	return errors.Join(errs...)
}

func scratchRoot() string {
	return filepath.Join(os.TempDir(), scratchPrefix+strconv.Itoa(os.Getpid()))
}

var sweepOnce sync.Once

// scratchDir makes a temporary folder for one server. The first call removes the folders
// of processes that are gone: who was killed could not do it.
func scratchDir(name string) (string, error) {
	sweepOnce.Do(sweepScratch)
	if err := os.MkdirAll(scratchRoot(), 0o755); err != nil {
		return "", fmt.Errorf("make temporary folder: %w", err)
	}
	dir, err := os.MkdirTemp(scratchRoot(), name+"-")
	if err != nil {
		return "", fmt.Errorf("make temporary folder: %w", err)
	}
	return dir, nil
}

func sweepScratch() {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	for _, dir := range found {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), scratchPrefix))
		if err == nil && processGone(pid) {
			_ = os.RemoveAll(dir)
		}
	}
}

// processGone reports whether no process has this id.
func processGone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// repository is the root of the source tree: the folder above that of this module.
var repository = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "integration", "servers", "kafka", "pom.xml")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no tidegate source tree above the working directory; run from inside it")
		}
		dir = parent
	}
})
