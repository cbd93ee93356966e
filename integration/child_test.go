package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/checkpoint/s3"
	"github.com/tidegate/tidegate/integration/servers"
)

// childVariable makes the test binary run one instance instead of tests; its
// value is the instance's settings.
const childVariable = "TIDEGATE_TEST_CHILD"

// childMain runs one instance until SIGTERM and returns the exit code. It
// reports on standard output: "phase …", "health …", "failed …".
func childMain(text string) int {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Println("failed", err)
		return 2
	}
	if err := childRun(s); err != nil {
		fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

func childRun(s settings) error {
	topo, err := topologies[s.Topology](s.Prefix)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var app *tidegate.App
	hook := armed(filepath.Join(filepath.Dir(s.StateDir), "arm-"+s.Name), func() int64 { return app.Health().Records })
	opts := append(s.options(), phaseHook(hook),
		tidegate.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))))
	if s.Mode == tidegate.Barrier {
		store, err := s3.New(ctx, s.S3)
		if err != nil {
			return err
		}
		opts = append(opts, tidegate.WithCheckpointStore(store))
	}
	if app, err = tidegate.New(topo, opts...); err != nil {
		return err
	}
	go reportHealth(app)
	return app.Run(ctx)
}

func reportHealth(app *tidegate.App) {
	var last []byte
	for range time.Tick(20 * time.Millisecond) {
		h := app.Health()
		b, _ := json.Marshal(childHealth{h.State.String(), h.Instance, h.Tasks, h.Restoring, h.LastCheckpoint, h.Records, h.DownloadedBytes})
		if !bytes.Equal(b, last) {
			fmt.Printf("health %s\n", b)
			last = b
		}
	}
}

// childHealth is what a child tells of itself.
type childHealth struct {
	State, Instance string
	Tasks           []string
	Restoring       []string
	Checkpoint      int64
	Records         int64
	Downloaded      int64
}

// armed returns a hook that acts when the instance reaches the phase that the
// file names, if at the beginning of that checkpoint it had processed as many
// records as the file says. In changelog mode a commit counts as a checkpoint.
func armed(path string, records func() int64) func(string) {
	var before atomic.Int64
	return func(phase string) {
		if phase == "aligning" || phase == "passing" {
			before.Store(records())
		}
		fmt.Println("phase", phase)
		b, err := os.ReadFile(path)
		if err != nil {
			return
		}
		var want, action string
		var least int64
		if n, _ := fmt.Sscan(string(b), &want, &least, &action); n != 3 || want != phase || before.Load() < least {
			return
		}
		_ = os.Remove(path)
		switch action {
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case "stop":
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
	}
}

// child is an instance in a process of its own.
type child struct {
	l    *lab
	name string
	p    *servers.Process

	mu     sync.Mutex
	rest   []byte
	phases []string
	health childHealth
	names  []string // of instances that it was
	failed string
}

// start runs an instance in a child process; it is killed with the test.
func (l *lab) start(name string) *child {
	l.Helper()
	s := l.base
	s.Name, s.StateDir = name, filepath.Join(l.dir, "state-"+name)
	text, err := json.Marshal(s)
	l.must(err)
	c := &child{l: l, name: name, health: childHealth{Checkpoint: -1}}
	c.p, err = servers.StartProcess(servers.Command{
		Path: os.Args[0], Env: append([]string{childVariable + "=" + string(text)}, l.env...), LogPath: c.logPath(), Stdout: c,
	})
	l.must(err)
	l.Cleanup(func() {
		_ = c.p.Resume()
		_ = c.p.Kill()
		if l.Failed() {
			b, _ := os.ReadFile(c.logPath())
			l.Logf("end of the log of %s:\n%s", name, b[max(0, len(b)-6000):])
		}
	})
	return c
}

func (c *child) logPath() string { return filepath.Join(c.l.dir, c.name+".log") }

// Write takes the child's standard output.
func (c *child) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, b...)
	lines := bufio.NewScanner(bytes.NewReader(c.rest))
	used := 0
	for lines.Scan() {
		line := lines.Text()
		if used += len(line) + 1; used > len(c.rest) {
			used -= len(line) + 1
			break
		}
		kind, text, _ := strings.Cut(line, " ")
		switch kind {
		case "phase":
			c.phases = append(c.phases, text)
		case "failed":
			c.failed = text
		case "health":
			_ = json.Unmarshal([]byte(text), &c.health)
			if n := len(c.names); n == 0 || c.names[n-1] != c.health.Instance {
				c.names = append(c.names, c.health.Instance)
			}
		}
	}
	c.rest = append([]byte(nil), c.rest[used:]...)
	return len(b), nil
}

// now returns what the child last said of itself.
func (c *child) now() childHealth {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}

// arm makes the child kill or stop itself in a phase of the first checkpoint
// that begins with at least that many records processed.
func (c *child) arm(phase string, records int64, action string) {
	c.l.Helper()
	path := filepath.Join(c.l.dir, "arm-"+c.name)
	c.l.must(os.WriteFile(path+".tmp", fmt.Appendf(nil, "%s %d %s\n", phase, records, action), 0o600))
	c.l.must(os.Rename(path+".tmp", path))
}

// awaitRunning waits until the child runs tasks, at least one if owning.
func (c *child) awaitRunning() {
	c.l.Helper()
	c.await(60*time.Second, "it runs tasks", func(h childHealth) bool { return h.State == "Running" && len(h.Tasks) > 0 && len(h.Restoring) == 0 })
}

func (c *child) await(limit time.Duration, what string, done func(childHealth) bool) {
	c.l.Helper()
	c.l.eventually(limit, c.name+": "+what, func() bool {
		if !c.p.Alive() {
			c.l.Fatalf("%s ended: %v %s", c.name, c.p.Err(), c.failure())
		}
		return done(c.now())
	})
}

func (c *child) failure() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// awaitKilled waits until the child killed itself.
func (c *child) awaitKilled(limit time.Duration) {
	c.l.Helper()
	c.l.eventually(limit, c.name+" kills itself", func() bool { return !c.p.Alive() })
	if err := c.p.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		c.l.Fatalf("%s ended, but not by kill -9: %v %s", c.name, err, c.failure())
	}
}

// awaitFailed waits until the child failed, and returns its error.
func (c *child) awaitFailed(limit time.Duration) error {
	c.l.Helper()
	c.l.eventually(limit, c.name+" fails", func() bool { return !c.p.Alive() })
	if c.failure() == "" {
		return nil
	}
	return errors.New(c.failure())
}

// close stops the child cleanly.
func (c *child) close() {
	c.l.Helper()
	c.l.must(c.p.Stop(40 * time.Second))
	if err := c.p.Err(); err != nil {
		c.l.Fatalf("%s did not stop cleanly: %v %s", c.name, err, c.failure())
	}
}

// logged reports whether the child's log holds a text.
func (c *child) logged(text string) bool {
	b, err := os.ReadFile(c.logPath())
	return err == nil && strings.Contains(string(b), text)
}
