package changelog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/state"
)

// Bounds are a changelog partition's ends when its restore begins: the first
// offset and the one behind the last, whether committed or not.
//
// The restore reads committed records up to End. Where a transaction is open
// below it, that waits for its end: the offsets of that transaction may be
// visible before its marker lies in this partition, so a bound at the last
// stable offset would lose its records. Nobody but a task's owner writes to its
// partition, and what a displaced owner still writes can never be committed, so
// nothing behind End is missed.
type Bounds struct{ Start, End int64 }

// Restored says what a restore did.
type Restored struct {
	Records, Bytes int64
	// Empty: the stores hold nothing, and the changelogs no committed record.
	Empty bool
	Took  time.Duration
}

// restoreChunk is how many bytes are written between two positions.
const restoreChunk = 4 << 20

// restoreBytes bounds what is fetched ahead, per store.
const restoreBytes = 4 << 20

// Restore brings every store up to its bound, from its position or from the
// changelog's start. When ctx ends before, what was read so far is kept with its
// position. REQUIRES: called before the task runs, by the only user of the
// engine; positions are checked (Reusable).
func (e *Engine) Restore(ctx context.Context, f *kafka.Fetcher, bounds map[string]Bounds) (out Restored, err error) {
	return e.restore(ctx, f, bounds, e.specs)
}

// RestoreSources is Restore for the stores whose changelogs are inputs of the
// task: a standby calls it now and then, since it may follow those only as far
// as the task's committed offsets.
func (e *Engine) RestoreSources(ctx context.Context, f *kafka.Fetcher, bounds map[string]Bounds) error {
	_, err := e.restore(ctx, f, bounds, slices.DeleteFunc(slices.Clone(e.specs), func(s StoreSpec) bool {
		return s.Unlogged || s.FromSource == nil
	}))
	return err
}

func (e *Engine) restore(ctx context.Context, f *kafka.Fetcher, bounds map[string]Bounds, specs []StoreSpec) (out Restored, err error) {
	begun := time.Now()
	out.Empty = true
	for _, spec := range specs {
		if spec.Unlogged {
			// What is there is of a run that others may have followed.
			if err := e.stores[spec.Name].below.DeleteRange(nil, nil); err != nil {
				return out, fmt.Errorf("empty store %q: %w", spec.Name, err)
			}
			continue
		}
		b, ok := bounds[spec.Name]
		if !ok {
			return out, fmt.Errorf("restore store %q: no bounds of %s", spec.Name, spec.Changelog)
		}
		from, err := e.goOn(spec, b)
		if err != nil {
			return out, fmt.Errorf("restore store %q: %w", spec.Name, err)
		}
		r := restoring{e: e, spec: spec, kv: e.stores[spec.Name].below, next: from, end: b.End}
		if err := r.run(ctx, f); err != nil {
			return out, fmt.Errorf("restore store %q from %s: %w", spec.Name, spec.Changelog, err)
		}
		out.Records += r.records
		out.Bytes += r.bytes
		// A position tells nothing: what it passed may have been aborted.
		some, err := holds(r.kv)
		if err != nil {
			return out, fmt.Errorf("restore store %q: %w", spec.Name, err)
		}
		if some || r.records > 0 {
			out.Empty = false
		}
	}
	out.Took = time.Since(begun)
	return out, nil
}

// goOn finds where a store's changelog is to be read from, and empties a store
// without a position: it may hold what was read by somebody killed before the first
// position, or written while the store had no changelog, and compaction may have
// removed what would delete that.
func (e *Engine) goOn(spec StoreSpec, b Bounds) (from int64, err error) {
	p, known, err := e.Position(spec.Name)
	if err != nil || known {
		return max(b.Start, p.Next), err
	}
	kv := e.stores[spec.Name].below
	some, err := holds(kv)
	if err == nil && some {
		err = kv.DeleteRange(nil, nil)
	}
	return b.Start, err
}

// holds reports whether there is any entry.
func holds(kv state.KV) (some bool, err error) {
	it := kv.Scan(nil, nil, false)
	some = it.Next()
	return some, errors.Join(it.Err(), it.Close())
}

// restoring is the restore of one store.
type restoring struct {
	e              *Engine
	spec           StoreSpec
	kv             state.KV
	next, end      int64
	records, bytes int64
	unsaved        int64
}

func (r *restoring) run(ctx context.Context, f *kafka.Fetcher) error {
	if r.next < r.end {
		if err := r.read(ctx, f); err != nil {
			return err
		}
	}
	return r.save()
}

// read follows the changelog to the end.
func (r *restoring) read(ctx context.Context, f *kafka.Fetcher) error {
	arrived := make(chan *kafka.Batch, 64)
	gone := make(chan struct{})
	defer close(gone)
	sub, err := f.Subscribe(kafka.SubscribeOptions{
		TP: r.spec.Changelog, Isolation: kafka.ReadCommitted, Offset: r.next, MaxBytes: restoreBytes,
		Sink: func(b *kafka.Batch) {
			select {
			case arrived <- b:
			case <-gone:
				b.Release()
			}
		},
	})
	if err != nil {
		return err
	}
	defer sub.Close()
	for r.next < r.end {
		select {
		case <-ctx.Done():
			if err := r.save(); err != nil {
				return err
			}
			return context.Cause(ctx)
		case b := <-arrived:
			err := b.Err
			if err == nil {
				err = r.take(b)
			}
			b.Release()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// take applies a fetched batch.
func (r *restoring) take(b *kafka.Batch) error {
	batch := batchOf(r.kv)
	next := b.NextOffset
	for i := range b.Records {
		rec := &b.Records[i]
		if r.spec.FromSource != nil {
			if rec.Offset >= r.end { // the task has yet to process it
				next = r.end
				break
			}
			if err := r.applySource(batch, rec); err != nil {
				return err
			}
			continue
		}
		if err := applyRecord(batch, rec); err != nil {
			return err
		}
	}
	if r.spec.FromSource != nil {
		next = min(next, r.end)
	}
	if err := batch.Commit(); err != nil {
		return err
	}
	r.records += int64(len(b.Records))
	r.bytes += int64(b.Bytes)
	r.unsaved += int64(b.Bytes)
	r.next = max(r.next, next)
	if r.unsaved >= restoreChunk {
		return r.save()
	}
	return nil
}

// save stores the position that was reached.
func (r *restoring) save() error {
	r.unsaved = 0
	return r.e.setPosition(r.spec, r.next)
}

func applyRecord(batch state.Batch, rec *record.Raw) error {
	if rec.Value == nil {
		return batch.Delete(rec.Key)
	}
	return batch.Set(rec.Key, rec.Value)
}

// applySource applies a record of an input topic, as the table's step did.
func (r *restoring) applySource(batch state.Batch, rec *record.Raw) error {
	key, value, ok := r.spec.FromSource(rec)
	switch {
	case !ok:
		return nil
	case value == nil:
		return batch.Delete(key)
	}
	return batch.Set(key, value)
}

// Changelogs returns the changelog partitions, for asking their bounds.
func (e *Engine) Changelogs() map[string]ids.TopicPartition {
	out := map[string]ids.TopicPartition{}
	for _, spec := range e.specs {
		if !spec.Unlogged {
			out[spec.Name] = spec.Changelog
		}
	}
	return out
}
