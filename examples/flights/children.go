package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// event is a line that a child logs, as far as the demonstration shows it.
type event struct {
	Level      string `json:"level"`
	Msg        string `json:"msg"`
	Error      string `json:"error"`
	To         string `json:"to"`
	Checkpoint int64  `json:"checkpoint"`
	Reason     string `json:"reason"`
	Took       int64  `json:"took"`  // nanoseconds
	Pause      int64  `json:"pause"` // nanoseconds
	Uploaded   int64  `json:"uploaded"`
	Referenced int64  `json:"referenced"`
	From       any    `json:"from"`
	Tasks      any    `json:"tasks"`
}

// child is an instance of the service as a child process: this program, with
// -serve.
type child struct {
	name string
	args []string
	// hear gets every line it logs, on a goroutine of the child.
	hear func(c *child, e event)

	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{}
	err   error // of the process; valid when done is closed

	mu   sync.Mutex
	last []string // lines, for an error
}

// start starts the process, or starts it again.
func (c *child) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.cmd = exec.Command(self, c.args...) //nolint:noctx // ended by kill or stop
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	c.cmd.Stdout, c.cmd.Stderr = in, in
	err = c.cmd.Start()
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return fmt.Errorf("start instance %s: %w", c.name, err)
	}
	c.done = make(chan struct{})
	go c.follow(c.cmd, out, c.done)
	return nil
}

// follow reads what the process logs until it ends.
func (c *child) follow(cmd *exec.Cmd, out *os.File, done chan struct{}) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		c.mu.Lock()
		c.last = append(c.last[max(0, len(c.last)-9):], lines.Text())
		c.mu.Unlock()
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			c.hear(c, e)
		}
	}
	_ = out.Close()
	c.err = cmd.Wait()
	close(done)
}

// kill ends the process as kill -9 does, and waits for its end.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// ended reports whether the process is gone.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// failure describes an end that was not asked for.
func (c *child) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	why := "it stopped"
	if c.err != nil {
		why = c.err.Error()
	}
	return fmt.Errorf("instance %s ended: %s; its last lines:\n  %s", c.name, why, strings.Join(c.last, "\n  "))
}

// stopAll lets children stop as SIGTERM does: each takes part in a last
// checkpoint and leaves the group.
func stopAll(children []*child, within time.Duration) error {
	for _, c := range children {
		_ = c.stdin.Close()
	}
	late := time.After(within)
	var errs []error
	for _, c := range children {
		select {
		case <-c.done:
			if c.err != nil {
				errs = append(errs, c.failure())
			}
		case <-late:
			c.kill()
			errs = append(errs, fmt.Errorf("instance %s did not stop within %v", c.name, within))
		}
	}
	return errors.Join(errs...)
}
