package registry

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// cache keeps what was fetched; of several goroutines that ask for one key, one
// fetches and the others wait.
type cache[K comparable, V any] struct {
	// keepUnknown: that something is not known is kept too, for unknownFor.
	keepUnknown bool

	mu sync.Mutex
	m  map[K]*entry[V]
}

type entry[V any] struct {
	done chan struct{} // closed when v or err is set
	v    V
	err  error
	at   time.Time // of err
	// cancelled: the context of the one that fetched ended, which says nothing
	// to the others.
	cancelled bool
}

// unknownFor is how long an answer "not found" is believed: a topic full of bad
// records must not ask for each of them.
const unknownFor = 10 * time.Second

func (c *cache[K, V]) get(ctx context.Context, k K, fetch func() (V, error)) (V, error) {
	for {
		e, mine := c.entry(k)
		if mine {
			c.fill(ctx, k, e, fetch)
			return e.v, e.err
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			var zero V
			return zero, unavailable(ctx.Err())
		}
		stale := e.err != nil && time.Since(e.at) >= unknownFor
		if !e.cancelled && !stale {
			return e.v, e.err
		}
		c.drop(k, e)
	}
}

// unknown reports whether the registry said that it knows no such thing.
func unknown(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

func (c *cache[K, V]) entry(k K) (e *entry[V], mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.m[k]; e != nil {
		return e, false
	}
	if c.m == nil {
		c.m = map[K]*entry[V]{}
	}
	e = &entry[V]{done: make(chan struct{})}
	c.m[k] = e
	return e, true
}

func (c *cache[K, V]) fill(ctx context.Context, k K, e *entry[V], fetch func() (V, error)) {
	e.err = errors.New("the fetch ended in a panic")
	defer func() {
		e.at, e.cancelled = time.Now(), e.err != nil && ctx.Err() != nil
		if e.err != nil && (!c.keepUnknown || !unknown(e.err)) {
			c.drop(k, e)
		}
		close(e.done)
	}()
	e.v, e.err = fetch()
}

func (c *cache[K, V]) drop(k K, e *entry[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m[k] == e {
		delete(c.m, k)
	}
}
