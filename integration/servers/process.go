package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a child in a process group of its own, with its output in a file.
// It ends at the latest with this process, however this process ends.
type Process struct {
	// LogPath is the file that holds its standard output and error.
	LogPath string

	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; valid after done is closed
	end  func()
}

// Command says what to start.
type Command struct {
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	Dir string
	// LogPath gets standard output and error, appended. Empty discards them.
	LogPath string
	// Stdout receives standard output instead of the file when set.
	Stdout io.Writer
}

// StartProcess starts a child.
func StartProcess(c Command) (*Process, error) {
	cmd := exec.Command(c.Path, c.Args...) //nolint:noctx // it lives until it is stopped, not as long as one call
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Dir = c.Dir
	cmd.SysProcAttr = childAttributes()
	if c.LogPath != "" {
		log, err := os.OpenFile(c.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open log of %s: %w", c.Path, err)
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if err := startOnThread(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	p := &Process{LogPath: c.LogPath, cmd: cmd, done: make(chan struct{})}
	p.end = endWithParent(p.Pid())
	go func() {
		p.err = cmd.Wait()
		p.end()
		forget(p)
		close(p.done)
	}()
	remember(p)
	return p, nil
}

// Pid is the process id, which is also the id of its group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive reports whether the process has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err is how the process ended: nil for exit code 0. Only valid after Done.
func (p *Process) Err() error { return p.err }

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) error {
	// A pid that was waited for may belong to somebody else.
	if !p.Alive() {
		return os.ErrProcessDone
	}
	return p.cmd.Process.Signal(s)
}

// Kill is kill -9 of the whole group, and returns when the process is gone.
func (p *Process) Kill() error {
	if !p.Alive() {
		return nil
	}
	err := syscall.Kill(-p.Pid(), syscall.SIGKILL)
	<-p.done
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// Pause stops the process in its tracks (SIGSTOP): sockets stay open, nothing answers. It
// returns when the process stands still: the signal itself only asks for that, and a thread
// may still answer a request meanwhile.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); !standsStill(p.Pid()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d goes on 5 s after SIGSTOP", p.Pid())
		}
	}
	return nil
}

// Resume lets a paused process go on (SIGCONT).
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Stop asks the process to end (SIGTERM) and kills it after grace.
func (p *Process) Stop(grace time.Duration) error {
	if !p.Alive() {
		return nil
	}
	_ = p.Resume() // a stopped process takes no SIGTERM
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return p.Kill()
	}
}

// Wait returns how the process ended, or the context's error.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close kills the process.
func (p *Process) Close() error { return p.Kill() }

type startRequest struct {
	cmd    *exec.Cmd
	answer chan error
}

// starter runs on one thread for ever. The parent-death signal of Linux is sent when
// the thread that started the child ends, not the process; a goroutine's thread may end.
var starter = sync.OnceValue(func() chan<- startRequest {
	requests := make(chan startRequest)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			r.answer <- r.cmd.Start()
		}
	}()
	return requests
})

func startOnThread(cmd *exec.Cmd) error {
	answer := make(chan error, 1)
	starter() <- startRequest{cmd, answer}
	return <-answer
}

// watchdog runs a shell that executes script with $0 = argument as soon as this process
// is gone, however it went: the pipe's only writing end is held here. The function it
// returns calls it off.
func watchdog(script, argument string) func() {
	cmd := exec.Command("/bin/sh", "-c", "cat >/dev/null; "+script, argument) //nolint:noctx // it must outlive every context
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return func() {}
	}
	if err := cmd.Start(); err != nil {
		return func() {}
	}
	return sync.OnceFunc(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = pipe.Close()
		_ = cmd.Wait()
	})
}
