//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package state

import (
	"errors"
	"os"
)

// Without flock the lock is a second file that must not exist. It is left
// behind when the process is killed; whoever made sure that no process uses the
// folder may remove it.
func flock(f *os.File) error {
	held, err := os.OpenFile(f.Name()+".held", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return errHeld
	}
	if err != nil {
		return err
	}
	return held.Close()
}

func unflock(f *os.File) error { return os.Remove(f.Name() + ".held") }
