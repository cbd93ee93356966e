package checkpoint

import (
	"context"
	"sync"
)

// slots bounds what several calls do in parallel, all together.
type slots chan struct{}

func newSlots(n int) slots {
	if n <= 0 {
		n = 4
	}
	return make(slots, n)
}

// run calls f(0) … f(n-1), each in a slot, and waits for all that began. The
// first error cancels the rest and is returned.
func (s slots) run(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range n {
		if !s.take(inner) {
			break
		}
		wg.Go(func() {
			defer func() { <-s }()
			if err := f(inner, i); err != nil {
				cancel(err) // only the first cause stays
			}
		})
	}
	wg.Wait()
	return context.Cause(inner)
}

// take waits for a slot; false when the context ended.
func (s slots) take(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
