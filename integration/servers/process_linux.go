package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// childAttributes puts the child into a group of its own, so that a signal to the
// terminal's group does not reach it, and ties its life to ours.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// endWithParent has nothing to do: the parent-death signal does it.
func endWithParent(int) func() { return func() {} }

// supportsXattr reports whether files in dir can have user attributes (older tmpfs cannot).
func supportsXattr(dir string) bool {
	return syscall.Setxattr(dir, "user.tidegate", []byte("1"), 0) == nil
}

// standsStill reports whether every thread of a process is stopped.
func standsStill(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, path := range threads {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		// The name in parentheses may hold anything; the state follows it.
		_, state, ok := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
		if !ok || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}
