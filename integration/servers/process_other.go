//go:build !linux

package servers

import (
	"strconv"
	"syscall"
)

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func endWithParent(pid int) func() {
	return watchdog(`kill -9 -"$0" 2>/dev/null`, strconv.Itoa(pid))
}

func supportsXattr(string) bool { return true }

// standsStill cannot be told here; the signal takes effect at once in practice.
func standsStill(int) bool { return true }
