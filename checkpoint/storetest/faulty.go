package storetest

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
)

// Faults says how often what goes wrong. Rates are between 0 and 1.
type Faults struct {
	// Fail: the request is refused and nothing happens.
	Fail float64
	// Lost: the request is performed, but the caller sees a failure.
	Lost float64
	// Cut: a read breaks off in the middle of the body.
	Cut float64
	// Flip: a read has one wrong bit.
	Flip float64
	// Delay: every request takes between none and this much longer.
	Delay time.Duration
	// Down: every request fails, until Set changes it.
	Down bool
}

// Faulty wraps a Store and makes it fail as a network store does. What fails
// depends on the seed and the order of calls only.
type Faulty struct {
	inner checkpoint.Store

	mu     sync.Mutex
	rnd    *rand.Rand
	faults Faults
	counts Counts
}

// Counts are the faults made so far.
type Counts struct{ Calls, Failed, Lost, Cut, Flipped int }

// NewFaulty wraps inner.
func NewFaulty(inner checkpoint.Store, seed uint64, f Faults) *Faulty {
	return &Faulty{inner: inner, rnd: rand.New(rand.NewPCG(seed, 0x746964656761)), faults: f}
}

// Set changes the faults from now on.
func (s *Faulty) Set(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Counts returns what went wrong so far.
func (s *Faulty) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// errInjected is the cause of every error that Faulty makes.
var errInjected = errors.New("injected fault")

type draw struct {
	fail, lost, cut, flip bool
	at                    uint64
	delay                 time.Duration
}

func (s *Faulty) draw() draw {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.faults
	// Always the same number of draws, so that faults of one kind do not move
	// those of another.
	d := draw{
		fail: s.rnd.Float64() < f.Fail || f.Down,
		lost: s.rnd.Float64() < f.Lost,
		cut:  s.rnd.Float64() < f.Cut,
		flip: s.rnd.Float64() < f.Flip,
		at:   s.rnd.Uint64(),
	}
	d.delay = time.Duration(s.rnd.Float64() * float64(f.Delay))
	s.counts.Calls++
	if d.fail {
		s.counts.Failed++
	}
	return d
}

func (s *Faulty) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// call performs one request with its faults.
func (s *Faulty) call(ctx context.Context, op, key string, f func() error) error {
	d := s.draw()
	if err := s.before(ctx, d, op, key); err != nil {
		return err
	}
	err := f()
	if err == nil && d.lost {
		s.count(&s.counts.Lost)
		return s.unavailable(op, key)
	}
	return err
}

func (s *Faulty) before(ctx context.Context, d draw, op, key string) error {
	if d.delay > 0 {
		t := time.NewTimer(d.delay)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
	if d.fail {
		return s.unavailable(op, key)
	}
	return nil
}

func (s *Faulty) unavailable(op, key string) error {
	return &checkpoint.Error{Kind: checkpoint.KindUnavailable, Op: op, Store: s.String(), Key: key, Err: errInjected}
}

// String returns the inner store's name, marked.
func (s *Faulty) String() string { return "faulty(" + s.inner.String() + ")" }

// Check is the inner store's check, with the request's faults.
func (s *Faulty) Check(ctx context.Context) error {
	return s.call(ctx, "check", "", func() error { return s.inner.Check(ctx) })
}

// Put may fail, or be stored and fail.
func (s *Faulty) Put(ctx context.Context, key string, src checkpoint.Source) error {
	return s.call(ctx, "put", key, func() error { return s.inner.Put(ctx, key, src) })
}

// PutIfAbsent may fail, or be stored and fail.
func (s *Faulty) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.call(ctx, "put if absent", key, func() error { return s.inner.PutIfAbsent(ctx, key, data) })
}

// Delete may fail, or delete and fail.
func (s *Faulty) Delete(ctx context.Context, keys []string) error {
	return s.call(ctx, "delete", "", func() error { return s.inner.Delete(ctx, keys) })
}

// Open may fail, break off, or return wrong bytes.
func (s *Faulty) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	d := s.draw()
	if err := s.before(ctx, d, "get", key); err != nil {
		return nil, err
	}
	r, err := s.inner.Open(ctx, key, offset, length)
	if err != nil || !d.cut && !d.flip {
		return r, err
	}
	defer r.Close() //nolint:errcheck // the bytes were read
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	fb := &faultyBody{b: b}
	if at := int(d.at % uint64(len(b)+1)); d.cut {
		s.count(&s.counts.Cut)
		fb.b, fb.end = b[:at], errInjected
	} else if at < len(b) {
		s.count(&s.counts.Flipped)
		b[at] ^= 1 << (d.at >> 61)
	}
	return fb, nil
}

type faultyBody struct {
	b   []byte
	end error
}

func (f *faultyBody) Read(p []byte) (int, error) {
	if len(f.b) == 0 {
		if f.end != nil {
			return 0, f.end
		}
		return 0, io.EOF
	}
	n := copy(p, f.b)
	f.b = f.b[n:]
	return n, nil
}

func (f *faultyBody) Close() error { return nil }

// List may fail before its first entry.
func (s *Faulty) List(ctx context.Context, prefix string) iter.Seq2[checkpoint.Object, error] {
	return func(yield func(checkpoint.Object, error) bool) {
		if err := s.before(ctx, s.draw(), "list", prefix); err != nil {
			yield(checkpoint.Object{}, err)
			return
		}
		s.inner.List(ctx, prefix)(yield)
	}
}

// ListIncomplete is the inner store's, if it has one.
func (s *Faulty) ListIncomplete(ctx context.Context, prefix string) iter.Seq2[checkpoint.Upload, error] {
	return func(yield func(checkpoint.Upload, error) bool) {
		inc, ok := s.inner.(checkpoint.Incomplete)
		if !ok {
			return
		}
		if err := s.before(ctx, s.draw(), "list uploads", prefix); err != nil {
			yield(checkpoint.Upload{}, err)
			return
		}
		inc.ListIncomplete(ctx, prefix)(yield)
	}
}

// AbortIncomplete is the inner store's.
func (s *Faulty) AbortIncomplete(ctx context.Context, u checkpoint.Upload) error {
	return s.call(ctx, "abort upload", u.Key, func() error {
		return s.inner.(checkpoint.Incomplete).AbortIncomplete(ctx, u)
	})
}
