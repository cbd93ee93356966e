package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// instance is one slot for a child process: killed and started again, each time
// under another number.
type instance struct {
	h    *harness
	name string

	mu    sync.Mutex
	cmd   *exec.Cmd
	in    io.WriteCloser
	done  chan struct{}
	phase string // last one reported
	armed string
	lead  bool // it made a manifest in this life
}

// start runs a new process in the slot.
func (i *instance) start() error {
	h := i.h
	args := []string{
		"child", "-brokers", strings.Join(h.kafka.Brokers(), ","), "-name", i.name,
		"-state", filepath.Join(h.dir, "state-"+i.name), "-break", h.opts.breaking, "-mode", h.opts.mode,
		"-standbys", strconv.Itoa(h.opts.standbys), "-guarantee", h.opts.guarantee,
	}
	env := os.Environ()
	if h.s3 != nil {
		args = append(args, "-s3", h.s3.Endpoint, "-bucket", h.bucket)
		env = append(env, h.s3.Env()...)
	}
	log, err := os.OpenFile(filepath.Join(h.dir, i.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(os.Args[0], args...) //nolint:noctx // it lives until it is killed, not as long as one call
	cmd.Env = env
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start instance %s: %w", i.name, err)
	}
	done := make(chan struct{})
	i.mu.Lock()
	i.cmd, i.in, i.done, i.phase, i.armed, i.lead = cmd, in, done, "", "", false
	i.mu.Unlock()
	go i.watch(cmd, out, done)
	return nil
}

// watch follows a process to its end.
func (i *instance) watch(cmd *exec.Cmd, out io.Reader, done chan struct{}) {
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		phase, ok := strings.CutPrefix(scan.Text(), "phase ")
		if !ok {
			continue
		}
		i.mu.Lock()
		if i.cmd == cmd {
			i.phase = phase
			i.lead = i.lead || phase == "manifest"
		}
		i.mu.Unlock()
	}
	err := cmd.Wait()
	i.h.ended(i, cmd, err)
	close(done)
}

func (i *instance) alive() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.aliveLocked()
}

func (i *instance) aliveLocked() bool {
	if i.cmd == nil {
		return false
	}
	select {
	case <-i.done:
		return false
	default:
		return true
	}
}

func (i *instance) leads() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.lead && i.aliveLocked()
}

func (i *instance) signal(s syscall.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.aliveLocked() {
		_ = i.cmd.Process.Signal(s)
	}
}

// arm makes the process kill itself when it reaches a phase.
func (i *instance) arm(phase string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.aliveLocked() {
		i.armed = phase
		_, _ = io.WriteString(i.in, phase+"\n")
	}
}

// wait waits until the process ended.
func (i *instance) wait() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.done
}
