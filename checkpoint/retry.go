package checkpoint

import (
	"context"
	"math/rand/v2"
	"time"
)

// Retry says how the functions of this package repeat what a store refused as
// Unavailable. The context bounds it too: a checkpoint's upload runs under the
// checkpoint timeout.
type Retry struct {
	// Attempts is the number of tries in all; 0 means 6, 1 means no repetition.
	Attempts int
	// Base is the first pause, doubled each time up to Max; the real pause is
	// drawn between half of it and all of it. 0 means 50 ms and 3 s.
	Base, Max time.Duration
}

func (r Retry) withDefaults() Retry {
	if r.Attempts <= 0 {
		r.Attempts = 6
	}
	if r.Base <= 0 {
		r.Base = 50 * time.Millisecond
	}
	if r.Max <= 0 {
		r.Max = 3 * time.Second
	}
	return r
}

// do calls op until it succeeds, fails for good, or the attempts or the
// context end. again says which errors deserve another try.
func (r Retry) do(ctx context.Context, again func(error) bool, op func() error) error {
	r = r.withDefaults()
	pause := r.Base
	for attempt := 1; ; attempt++ {
		err := op()
		if err == nil || attempt >= r.Attempts || ctx.Err() != nil || !again(err) {
			return err
		}
		if sleep(ctx, pause/2+rand.N(pause/2+1)) != nil {
			// The store's error says more than "context canceled".
			return err
		}
		pause = min(2*pause, r.Max)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
