package tidegate_test

import (
	"fmt"
	"os"
	"testing"
)

// asTest runs what would be a test in a package of a user, for examples.
func asTest(test func(t testing.TB)) {
	t := &exampleT{}
	defer t.end()
	test(t)
}

// exampleT is a testing.TB that ends the example when it fails.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (t *exampleT) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }

func (t *exampleT) TempDir() string {
	dir, err := os.MkdirTemp("", "tidegate-example") //nolint:usetesting // an example has no testing.T
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (t *exampleT) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}
