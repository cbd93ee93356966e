// Package storetest tests implementations of checkpoint.Store, and has two to
// test with: Memory, and Faulty, which makes any store slow and unreliable.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
)

// Options adapt the suite to a store.
type Options struct {
	// Large is the size in bytes of the largest object; 0 means 1 MiB. A store
	// that stores large objects in another way sets it above that threshold.
	Large int
	// Timeout bounds each test; 0 means 60 s.
	Timeout time.Duration
}

// Run checks what checkpoint.Store promises. open returns an empty store each
// time it is called, with whatever clean-up it needs registered on t.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Store, o Options) {
	if o.Large == 0 {
		o.Large = 1 << 20
	}
	if o.Timeout == 0 {
		o.Timeout = 60 * time.Second
	}
	for _, c := range []struct {
		name string
		run  func(*suite)
	}{
		{"Check", (*suite).check},
		{"PutAndGet", (*suite).putAndGet},
		{"Large", (*suite).large},
		{"Ranges", (*suite).ranges},
		{"PutIfAbsent", (*suite).putIfAbsent},
		{"PutIfAbsentRace", (*suite).putIfAbsentRace},
		{"List", (*suite).list},
		{"ListMany", (*suite).listMany},
		{"Delete", (*suite).delete},
		{"NotFound", (*suite).notFound},
		{"BadKeys", (*suite).badKeys},
		{"Cancelled", (*suite).cancelled},
		{"PutAndDeleteSideBySide", (*suite).putAndDelete},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), o.Timeout)
			defer cancel()
			c.run(&suite{T: t, ctx: ctx, store: open(t), opts: o})
		})
	}
}

type suite struct {
	*testing.T
	ctx   context.Context
	store checkpoint.Store
	opts  Options
}

func (s *suite) check() {
	s.no(s.store.Check(s.ctx))
	s.no(s.store.Check(s.ctx)) // again, as every instance does
	if keys := s.keys(""); len(keys) > 0 {
		s.Errorf("Check left %v", keys)
	}
}

func (s *suite) putAndGet() {
	for _, size := range []int{0, 1, 100, 70_000} {
		key, b := fmt.Sprintf("a/b.c_d-e/%%2F=%d", size), random(size)
		s.put(key, b)
		s.same(key, b)
	}
	s.put("a/b.c_d-e/%2F=1", random(1)) // replacing is allowed
}

func (s *suite) large() {
	b := random(s.opts.Large + 17)
	s.put("large", b)
	s.same("large", b)
	path := s.TempDir() + "/large"
	ref := checkpoint.FileRef{Name: "large", Key: "large", Size: int64(len(b)), CRC: checkpoint.Checksum(b)}
	s.no(checkpoint.GetFile(s.ctx, s.store, ref, path))
	ref.Size--
	s.is(checkpoint.GetFile(s.ctx, s.store, ref, path), checkpoint.ErrCorrupted)
	ref.Size += 2
	s.is(checkpoint.GetFile(s.ctx, s.store, ref, path), checkpoint.ErrCorrupted)
}

func (s *suite) ranges() {
	b := random(1000)
	s.put("r", b)
	for _, r := range [][2]int64{{0, 1000}, {0, 0}, {10, 20}, {999, 1}, {500, 500}} {
		got, err := checkpoint.GetRange(s.ctx, s.store, "r", r[0], r[1])
		s.no(err)
		if !bytes.Equal(got, b[r[0]:r[0]+r[1]]) {
			s.Errorf("range %v has other bytes", r)
		}
	}
	for _, r := range [][2]int64{{990, 11}, {1000, 1}, {2000, 5}} {
		_, err := checkpoint.GetRange(s.ctx, s.store, "r", r[0], r[1])
		s.is(err, checkpoint.ErrCorrupted)
	}
}

func (s *suite) putIfAbsent() {
	s.no(s.store.PutIfAbsent(s.ctx, "once/1", []byte("first")))
	s.is(s.store.PutIfAbsent(s.ctx, "once/1", []byte("second")), checkpoint.ErrExists)
	s.is(s.store.PutIfAbsent(s.ctx, "once/1", []byte("first")), checkpoint.ErrExists)
	s.same("once/1", []byte("first"))
	s.no(s.store.Delete(s.ctx, []string{"once/1"}))
	s.no(s.store.PutIfAbsent(s.ctx, "once/1", []byte("third")))
	s.same("once/1", []byte("third"))
}

func (s *suite) putIfAbsentRace() {
	for round := range 5 {
		key := fmt.Sprintf("race/%d", round)
		var mu sync.Mutex
		var won [][]byte
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				b := []byte(fmt.Sprintf("writer %d", i))
				err := s.store.PutIfAbsent(s.ctx, key, b)
				for checkpoint.Retriable(err) {
					err = s.store.PutIfAbsent(s.ctx, key, b)
				}
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, b)
				} else if !errors.Is(err, checkpoint.ErrExists) {
					s.Error(err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			s.Fatalf("%d writers won", len(won))
		}
		s.same(key, won[0])
	}
}

func (s *suite) list() {
	want := []string{"a-b/1", "a/1", "a/10/x", "a/2", "a0/1", "b/1"}
	for _, key := range []string{"b/1", "a/2", "a/10/x", "a-b/1", "a0/1", "a/1"} {
		s.put(key, []byte(key))
	}
	for prefix, want := range map[string][]string{
		"": want, "a/": want[1:4], "a/1": {"a/1", "a/10/x"}, "a": want[:5], "b/1": {"b/1"}, "c/": nil, "a/1/": nil,
	} {
		if got := s.keys(prefix); !slices.Equal(got, want) {
			s.Errorf("list %q: %v, want %v", prefix, got, want)
		}
	}
	for o, err := range s.store.List(s.ctx, "") {
		s.no(err)
		if o.Size != int64(len(o.Key)) {
			s.Errorf("%s: size %d", o.Key, o.Size)
		}
		break // ending early is allowed
	}
}

func (s *suite) listMany() {
	const n = 1100 // more than one page of S3
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				s.put(fmt.Sprintf("many/%05d", i), nil)
			}
		})
	}
	wg.Wait()
	keys := s.keys("many/")
	if len(keys) != n || !slices.IsSorted(keys) {
		s.Fatalf("%d keys, sorted %v", len(keys), slices.IsSorted(keys))
	}
	for batch := range slices.Chunk(keys, 1000) {
		s.no(s.store.Delete(s.ctx, batch))
	}
	if keys := s.keys(""); len(keys) != 0 {
		s.Fatalf("%d keys after deletion", len(keys))
	}
}

func (s *suite) delete() {
	s.put("d/1", []byte("1"))
	s.put("d/2", []byte("2"))
	s.no(s.store.Delete(s.ctx, []string{"d/1", "d/none", "none/none"}))
	s.no(s.store.Delete(s.ctx, []string{"d/1"}))
	s.no(s.store.Delete(s.ctx, nil))
	if got := s.keys(""); !slices.Equal(got, []string{"d/2"}) {
		s.Errorf("left: %v", got)
	}
}

func (s *suite) notFound() {
	s.put("n/1/x", nil)
	for _, key := range []string{"none", "n/2", "n/1", "n/1/x/y"} {
		_, err := checkpoint.Get(s.ctx, s.store, key)
		s.is(err, checkpoint.ErrNotFound)
		var e *checkpoint.Error
		if errors.As(err, &e) && e.Key != key {
			s.Errorf("the error names %q, want %q", e.Key, key)
		}
	}
}

func (s *suite) badKeys() {
	for _, key := range []string{"", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/..", ".tmp-x", "a b", "a\x00b", `a\b`, "ä"} {
		s.is(s.store.Put(s.ctx, key, checkpoint.BytesSource(nil)), checkpoint.ErrInvalid)
		s.is(s.store.PutIfAbsent(s.ctx, key, nil), checkpoint.ErrInvalid)
		_, err := checkpoint.Get(s.ctx, s.store, key)
		s.is(err, checkpoint.ErrInvalid)
		s.is(s.store.Delete(s.ctx, []string{key}), checkpoint.ErrInvalid)
	}
	for _, err := range s.store.List(s.ctx, "../") {
		s.is(err, checkpoint.ErrInvalid)
	}
}

func (s *suite) cancelled() {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	s.is(s.store.Put(ctx, "c/1", checkpoint.BytesSource(random(10))), context.Canceled)
	s.is(s.store.PutIfAbsent(ctx, "c/2", nil), context.Canceled)
	_, err := checkpoint.Get(ctx, s.store, "c/1")
	s.is(err, context.Canceled)
	if checkpoint.Retriable(err) {
		s.Error("a cancelled call counts as retriable")
	}
}

// putAndDelete: deleting the last object under a prefix must not disturb a put
// of another one there.
func (s *suite) putAndDelete() {
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 30 {
				key := fmt.Sprintf("side/by/%d-%d", w, i)
				err := s.store.Put(s.ctx, key, checkpoint.BytesSource([]byte(key)))
				for checkpoint.Retriable(err) {
					err = s.store.Put(s.ctx, key, checkpoint.BytesSource([]byte(key)))
				}
				if err == nil {
					err = s.store.Delete(s.ctx, []string{key})
				}
				if err != nil {
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func (s *suite) put(key string, b []byte) {
	s.Helper()
	if err := s.store.Put(s.ctx, key, checkpoint.BytesSource(b)); err != nil {
		s.Error(err)
	}
}

func (s *suite) same(key string, want []byte) {
	s.Helper()
	got, err := checkpoint.Get(s.ctx, s.store, key)
	s.no(err)
	if !bytes.Equal(got, want) {
		s.Errorf("%s: other bytes than were put (%d, want %d)", key, len(got), len(want))
	}
}

func (s *suite) keys(prefix string) (keys []string) {
	s.Helper()
	for o, err := range s.store.List(s.ctx, prefix) {
		s.no(err)
		keys = append(keys, o.Key)
	}
	return keys
}

func (s *suite) no(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) is(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("error %v, want %v", err, want)
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b) // never fails
	return b
}
