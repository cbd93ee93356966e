package servers

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestProcessStopsAfterGrace(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := StartProcess(Command{
		Path:    "/bin/sh",
		Args:    []string{"-c", `trap "" TERM; echo "$WORD"; while :; do sleep 0.05; done`},
		Env:     []string{"WORD=ready"},
		LogPath: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if tail(log, 100) != "ready\n" {
			return errors.New("not ready")
		}
		return nil
	})
	if err := p.Stop(50 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if p.Alive() || p.Err() == nil {
		t.Fatalf("alive %v, error %v: want killed", p.Alive(), p.Err())
	}
	if err := errors.Join(p.Kill(), p.Stop(0)); err != nil {
		t.Fatalf("ending it again: %v", err)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signal after the end: %v", err)
	}
}

func TestPausedProcessCanBeStopped(t *testing.T) {
	p, err := StartProcess(Command{Path: "sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(10 * time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestProcessWaitEndsWithContext(t *testing.T) {
	p, err := StartProcess(Command{Path: "sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

// TestNothingOutlivesTheParent starts this test binary as a child that starts a process
// and a watchdog, and then panics or is killed.
func TestNothingOutlivesTheParent(t *testing.T) {
	for _, how := range []string{"panic", "kill"} {
		t.Run(how, func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), "watchdog-ran")
			parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestParentHelper$")
			parent.Env = append(os.Environ(), "TIDEGATE_PARENT="+how, "TIDEGATE_MARK="+mark)
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			pid := childPid(t, bufio.NewScanner(out))
			if how == "kill" {
				if err := parent.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			_ = parent.Wait()
			eventually(t, func() error {
				if !processGone(pid) {
					return errors.New("the child of the dead process lives")
				}
				_, err := os.Stat(mark)
				return err
			})
		})
	}
}

func childPid(t *testing.T, lines *bufio.Scanner) int {
	t.Helper()
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "pid "); found {
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the parent printed no pid")
	return 0
}

func TestParentHelper(*testing.T) {
	how := os.Getenv("TIDEGATE_PARENT")
	if how == "" {
		return // only a helper of the test above
	}
	p, err := StartProcess(Command{Path: "sleep", Args: []string{"600"}})
	if err != nil {
		panic(err)
	}
	_ = watchdog(`touch "$0"`, os.Getenv("TIDEGATE_MARK"))
	_, _ = os.Stdout.WriteString("pid " + strconv.Itoa(p.Pid()) + "\n")
	if how == "panic" {
		panic("as asked")
	}
	<-p.Done()
}

func eventually(t *testing.T, ready func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := poll(ctx, 10*time.Millisecond, func(context.Context) error { return ready() }); err != nil {
		t.Fatal(err)
	}
}
