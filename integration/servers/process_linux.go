package servers

import "syscall"

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
