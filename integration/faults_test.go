package integration

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate"
	"github.com/tidegate/tidegate/runtime"
)

// What docs/failures.md promises, one test a row: those that began with the
// table are called TestFault…. The long ones run with `make faults`.

// makeFaults is set by `make faults`.
const makeFaults = "TIDEGATE_FAULTS"

// onlyMakeFaults skips a test that takes too long for every run.
func onlyMakeFaults(t *testing.T) {
	t.Helper()
	if os.Getenv(makeFaults) == "" {
		t.Skip("takes a minute or more: `make faults` runs it")
	}
}

// extend gives the test more time than labs have.
func (l *lab) extend(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	l.Cleanup(cancel)
	l.ctx = ctx
}

// feeder writes words without end and watches when output comes.
type feeder struct {
	l     *lab
	total int
	seen  func() int
	stop  chan struct{}
	done  chan struct{}

	mu      sync.Mutex
	gap     time.Duration // the longest time without new output since the last look
	arrived time.Time
}

// feed writes n records every so often; seen counts the output that is visible.
func (l *lab) feed(n, distinct int, every time.Duration, seen func() int) *feeder {
	l.Helper()
	f := &feeder{l: l, seen: seen, stop: make(chan struct{}), done: make(chan struct{}), arrived: time.Now()}
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-f.stop:
				return
			case <-tick.C:
			}
			if err := l.client.Produce(l.ctx, l.topic("in"), l.words(f.total, n, distinct)); err != nil {
				l.Errorf("feed: %v", err)
				return
			}
			f.total += n
		}
	})
	wg.Go(func() {
		last := 0
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-f.stop:
				tick.Stop()
				return
			case now := <-tick.C:
				n := seen()
				f.mu.Lock()
				f.gap = max(f.gap, now.Sub(f.arrived))
				if n > last {
					last, f.arrived = n, now
				}
				f.mu.Unlock()
			}
		}
	})
	go func() {
		wg.Wait()
		close(f.done)
	}()
	l.Cleanup(func() {
		select {
		case <-f.stop:
		default:
			close(f.stop)
		}
		<-f.done
	})
	return f
}

// progress waits until new output comes n times.
func (f *feeder) progress(limit time.Duration, n int) {
	f.l.Helper()
	for range n {
		before := f.seen()
		f.l.eventually(limit, "new output comes", func() bool { return f.seen() > before })
	}
}

// longest returns the longest time without new output since it was asked last.
func (f *feeder) longest() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.gap
	f.gap = 0
	return g.Round(10 * time.Millisecond)
}

// end stops the feeding and returns how many records were written.
func (f *feeder) end() int {
	close(f.stop)
	<-f.done
	return f.total
}

// logLines collects what an application logs.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

// option makes an application log here.
func (c *logLines) option() tidegate.Option {
	return tidegate.WithLogger(slog.New(logHook(func(msg string, attrs map[string]string) {
		var b strings.Builder
		b.WriteString(msg)
		for k, v := range attrs {
			b.WriteString(" " + k + "=" + v)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lines = append(c.lines, b.String())
	})))
}

// count returns how many lines hold a text.
func (c *logLines) count(text string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// settingsOf changes what has no option.
func settingsOf(f func(*runtime.Config)) tidegate.Option { return f }
