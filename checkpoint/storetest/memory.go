package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidegate/tidegate/checkpoint"
)

// Memory is a checkpoint.Store in memory, and remembers what was put.
type Memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	puts    []string
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{objects: map[string][]byte{}} }

// String returns "memory".
func (m *Memory) String() string { return "memory" }

// Check probes the store.
func (m *Memory) Check(ctx context.Context) error { return checkpoint.Probe(ctx, m) }

// Put stores a copy.
func (m *Memory) Put(ctx context.Context, key string, src checkpoint.Source) error {
	if err := errors.Join(checkpoint.ValidKey(key), ctx.Err()); err != nil {
		return err
	}
	b, err := io.ReadAll(io.NewSectionReader(src.Reader, 0, src.Size))
	if err != nil {
		return err
	}
	if int64(len(b)) != src.Size {
		return m.fail(checkpoint.KindInvalid, "put", key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[key] = b
	m.puts = append(m.puts, key)
	return nil
}

// PutIfAbsent stores a copy unless the key exists.
func (m *Memory) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if err := errors.Join(checkpoint.ValidKey(key), ctx.Err()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[key]; ok {
		return m.fail(checkpoint.KindExists, "put if absent", key)
	}
	m.objects[key] = bytes.Clone(data)
	m.puts = append(m.puts, key)
	return nil
}

// Open reads an object.
func (m *Memory) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := errors.Join(checkpoint.ValidKey(key), ctx.Err()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.objects[key]
	if !ok {
		return nil, m.fail(checkpoint.KindNotFound, "get", key)
	}
	b = b[min(offset, int64(len(b))):]
	if length >= 0 {
		b = b[:min(length, int64(len(b)))]
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// List yields objects in key order.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[checkpoint.Object, error] {
	return func(yield func(checkpoint.Object, error) bool) {
		if err := errors.Join(checkpoint.ValidPrefix(prefix), ctx.Err()); err != nil {
			yield(checkpoint.Object{}, err)
			return
		}
		for _, key := range m.Keys() {
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			m.mu.Lock()
			b, ok := m.objects[key]
			m.mu.Unlock()
			if ok && !yield(checkpoint.Object{Key: key, Size: int64(len(b))}, nil) {
				return
			}
		}
	}
}

// Delete removes objects.
func (m *Memory) Delete(ctx context.Context, keys []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if err := errors.Join(checkpoint.ValidKey(key), ctx.Err()); err != nil {
			return err
		}
		delete(m.objects, key)
	}
	return nil
}

// Keys returns all keys, sorted.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.objects))
}

// Puts returns the keys that were put so far, in order, deleted ones too.
func (m *Memory) Puts() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.puts)
}

// Damage flips one bit of an object; false when there is no such byte.
func (m *Memory) Damage(key string, at int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := bytes.Clone(m.objects[key])
	if at < 0 || at >= len(b) {
		return false
	}
	b[at] ^= 1
	m.objects[key] = b
	return true
}

func (m *Memory) fail(kind checkpoint.Kind, op, key string) error {
	return &checkpoint.Error{Kind: kind, Op: op, Store: m.String(), Key: key}
}
