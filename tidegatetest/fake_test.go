package tidegatetest_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// fakeT is a test of its own: it keeps what fails it, and its temporary folders
// and cleanups.
type fakeT struct {
	testing.TB
	failed   string
	cleanups []func()
}

func (f *fakeT) Helper()          {}
func (f *fakeT) Failed() bool     { return f.failed != "" }
func (f *fakeT) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *fakeT) Errorf(format string, args ...any) {
	f.failed += fmt.Sprintf(format, args...)
}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *fakeT) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

func (f *fakeT) TempDir() string {
	dir, err := os.MkdirTemp("", "tidegatetest") //nolint:usetesting // there is no testing.T in an example
	if err != nil {
		panic(err)
	}
	f.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// run runs a test and returns what failed it.
func run(test func(t testing.TB)) string {
	f := &fakeT{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(f.cleanups) - 1; i >= 0; i-- {
				f.cleanups[i]()
			}
		}()
		test(f)
	}()
	<-done
	return f.failed
}
