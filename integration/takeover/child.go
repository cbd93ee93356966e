package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/serde"
)

const (
	childVariable = "TIDEGATE_TAKEOVER_CHILD"
	app           = "takeover"
	input, output = app + "-in", app + "-out"
	// A value that begins so comes out; the time in nanoseconds follows.
	mark = "probe..."
)

// childSettings are what an instance is told.
type childSettings struct {
	Brokers  []string
	Dir      string
	Name     string
	Standbys int
	Interval time.Duration
	Session  time.Duration
}

// childMain runs one instance until SIGTERM.
func childMain(text string) int {
	var s childSettings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := childRun(s); err != nil {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

func childRun(s childSettings) error {
	b := tidegate.NewBuilder()
	b.Stream(input, serde.Bytes(), serde.Bytes()).GroupByKey("by-key").
		Reduce("last", func(_, v []byte) []byte { return v }).ToStream().
		Filter(func(_, v []byte) bool { return bytes.HasPrefix(v, []byte(mark)) }).To(output)
	topo, err := b.Build()
	if err != nil {
		return err
	}
	a, err := tidegate.New(topo,
		tidegate.WithApplicationID(app), tidegate.WithBrokers(s.Brokers...), tidegate.WithStateDir(filepath.Join(s.Dir, s.Name)),
		tidegate.WithCheckpointDir(filepath.Join(s.Dir, "store")), tidegate.WithCheckpointInterval(s.Interval),
		tidegate.WithSessionTimeout(s.Session), tidegate.WithStandbys(s.Standbys), tidegate.WithStandbyRate(1<<30),
		tidegate.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))),
	)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			h := a.Health()
			text, _ := json.Marshal(condition{h.State.String(), h.Tasks, h.LastCheckpoint, h.Records, h.DownloadedBytes})
			fmt.Printf("%s\n", text)
		}
	}()
	return a.Run(ctx)
}

// condition is what an instance says of itself.
type condition struct {
	State      string
	Tasks      []string
	Checkpoint int64
	Records    int64
	Downloaded int64
}

// child is an instance in a process of its own.
type child struct {
	name string
	p    *servers.Process

	mu   sync.Mutex
	rest []byte
	now  condition
}

// Write takes what it says.
func (c *child) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, b...)
	for {
		line, rest, whole := bytes.Cut(c.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		var now condition
		if json.Unmarshal(line, &now) == nil {
			c.now = now
		}
		c.rest = rest
	}
}

func (c *child) condition() condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// probe is a value with the time in it.
func probe(now time.Time, size int) []byte {
	b := binary.BigEndian.AppendUint64([]byte(mark), uint64(now.UnixNano()))
	return append(b, make([]byte, size-len(b))...)
}

func probeTime(value []byte) time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64(value[len(mark):])))
}
