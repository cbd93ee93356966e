package state

import (
	"errors"
	"sync"
)

// Viewer is an Engine whose state can be read beside the task: the basis of
// queries from outside.
type Viewer interface {
	// View fixes the present state of all stores for readers. Like all methods of
	// an engine it is called by the task's goroutine, and typed stores must be
	// flushed before; it copies nothing. A view keeps memory, or files, that the
	// engine would otherwise free: it should not live longer than a query.
	View() (View, error)
}

// View is the state of an engine's stores at one moment. Any number of goroutines
// may read it at the same time, while the task goes on, until View.Close or
// Engine.Close; what they would read behind that is [ErrViewClosed].
type View interface {
	// Store returns the store of that name for reading; ok is false when there was
	// none. Keys and values have the format of the store, see
	// docs/format/stores.md.
	Store(name string) (kv ReadKV, ok bool)
	// Close frees what only the view keeps, at the latest when the last open
	// iterator is closed. Closing twice is no error.
	Close() error
}

// ReadKV is the reading side of a KV in a [View].
type ReadKV interface {
	// Get returns the value of key. It belongs to the caller.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan is that of KV. An iterator belongs to one goroutine, and holds up
	// Engine.Close until it is closed.
	Scan(from, to []byte, reverse bool) Iterator
}

// ErrViewClosed is the error of reading a view that was closed, or whose engine
// was.
var ErrViewClosed = errors.New("the view of the state is closed: take a new one from the task that owns it now")

// Views are the open views of an engine. The zero value has none.
type Views struct {
	mu     sync.Mutex
	all    map[*Lease]struct{}
	closed bool
}

// Open adds a view; free is called once, when nobody reads it any more.
func (vs *Views) Open(free func() error) (*Lease, error) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.closed {
		return nil, ErrViewClosed
	}
	l := &Lease{owner: vs, free: free, done: make(chan struct{})}
	if vs.all == nil {
		vs.all = make(map[*Lease]struct{})
	}
	vs.all[l] = struct{}{}
	return l, nil
}

// Close closes every view and waits until the last one is free.
func (vs *Views) Close() error {
	vs.mu.Lock()
	vs.closed = true
	open := make([]*Lease, 0, len(vs.all))
	for l := range vs.all {
		open = append(open, l)
	}
	vs.mu.Unlock()
	var errs []error
	for _, l := range open {
		_ = l.Close() // its error is l.err
		<-l.done
		errs = append(errs, l.err)
	}
	return errors.Join(errs...)
}

// Lease counts the readers of a view.
type Lease struct {
	owner *Views
	free  func() error

	mu      sync.Mutex
	readers int
	closed  bool
	err     error         // of free, once done is closed
	done    chan struct{} // closed when free was called
}

// Enter begins a read, which Leave ends. It fails when the view is closed.
func (l *Lease) Enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrViewClosed
	}
	l.readers++
	return nil
}

// Leave ends a read.
func (l *Lease) Leave() {
	l.mu.Lock()
	l.readers--
	last := l.closed && l.readers == 0
	l.mu.Unlock()
	if last {
		_ = l.release() // Views.Close reports it
	}
}

// Close lets nobody in any more. It frees the view when nobody is in, and leaves
// that to the last reader else.
func (l *Lease) Close() error {
	l.mu.Lock()
	last := !l.closed && l.readers == 0
	l.closed = true
	l.mu.Unlock()
	if !last {
		return nil
	}
	return l.release()
}

func (l *Lease) release() error {
	l.err = l.free()
	l.owner.mu.Lock()
	delete(l.owner.all, l)
	l.owner.mu.Unlock()
	close(l.done)
	return l.err
}

// Leased is an iterator that keeps its view open.
type Leased struct {
	Iterator
	Lease *Lease
	once  sync.Once
}

// Close frees the iterator, and the view if it was the last to read it.
func (i *Leased) Close() (err error) {
	i.once.Do(func() {
		err = i.Iterator.Close()
		i.Lease.Leave()
	})
	return err
}

// FailedIterator returns an iterator without entries that ended with an error.
func FailedIterator(err error) Iterator { return failed{err} }

type failed struct{ err error }

func (failed) Next() bool    { return false }
func (failed) Key() []byte   { return nil }
func (failed) Value() []byte { return nil }
func (f failed) Err() error  { return f.err }
func (failed) Close() error  { return nil }
