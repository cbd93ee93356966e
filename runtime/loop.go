package runtime

import (
	"sync"
	"time"
)

// loop is the goroutine of one instance's protocol: everything that touches the
// state machines is a function that it runs. Nothing on it blocks.
type loop struct {
	mu    sync.Mutex
	queue []func()
	spare []func()
	wake  chan struct{}
	done  chan struct{}
	ended bool
}

func newLoop() *loop {
	return &loop{wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// post hands f to the loop, in order; after the loop ended it is dropped.
func (l *loop) post(f func()) {
	l.mu.Lock()
	if !l.ended {
		l.queue = append(l.queue, f)
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run carries out posted functions, and tick at least every interval, until
// finished says so.
func (l *loop) run(interval time.Duration, tick func(), finished func() bool) {
	defer close(l.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for !finished() {
		l.mu.Lock()
		batch := l.queue
		l.queue = l.spare[:0]
		l.mu.Unlock()
		for _, f := range batch {
			if finished() {
				break
			}
			f()
		}
		clear(batch)
		l.spare = batch
		if len(batch) > 0 {
			select {
			case <-ticker.C:
				tick()
			default:
			}
			continue
		}
		select {
		case <-l.wake:
		case <-ticker.C:
			tick()
		}
	}
	l.mu.Lock()
	l.ended, l.queue = true, nil
	l.mu.Unlock()
}
