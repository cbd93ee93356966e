package measure

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/integration/servers"
)

// Usage is what a contestant's process took.
type Usage struct {
	mu      sync.Mutex
	peakKB  int64 // most resident memory, as the kernel counted it
	nowKB   []int64
	seconds float64 // processor time
}

// watch samples a process until done is closed.
func (u *Usage) watch(pid int, done <-chan struct{}) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		u.sample(pid)
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

func (u *Usage) sample(pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			name, rest, _ := strings.Cut(s.Text(), ":")
			fields := strings.Fields(rest)
			if len(fields) == 0 {
				continue
			}
			kb, err := strconv.ParseInt(fields[0], 10, 64)
			switch {
			case err != nil:
			case name == "VmHWM":
				u.peakKB = max(u.peakKB, kb)
			case name == "VmRSS":
				u.nowKB = append(u.nowKB, kb)
				u.peakKB = max(u.peakKB, kb)
			}
		}
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		// The name in parentheses may hold anything; fields count from behind it.
		_, rest, _ := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 12 {
			user, _ := strconv.ParseFloat(fields[11], 64)
			system, _ := strconv.ParseFloat(fields[12], 64)
			const ticksPerSecond = 100
			u.seconds = (user + system) / ticksPerSecond
		}
	}
}

// PeakMB is the most resident memory in MiB.
func (u *Usage) PeakMB() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return (u.peakKB + 1023) / 1024
}

// CPU is the processor time in seconds.
func (u *Usage) CPU() float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seconds
}

// Start runs a contestant, its output appended to a log file.
func Start(path string, args, env []string, log string) (*servers.Process, *Usage, error) {
	p, err := servers.StartProcess(servers.Command{Path: path, Args: args, Env: env, LogPath: log})
	if err != nil {
		return nil, nil, err
	}
	u := &Usage{}
	go u.watch(p.Pid(), p.Done())
	return p, u, nil
}

// Tail returns the end of a log file for an error message.
func Tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	const most = 3000
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return strings.TrimSpace(string(b))
}
