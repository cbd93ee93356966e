package changelog

import (
	"context"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/kafka"
)

// followSave is how often a standby stores its positions when little comes.
const followSave = time.Second

// Follow reads the changelogs for as long as ctx lasts, from the positions or
// the starts, committed records only: a standby. What it read is kept with its
// positions. It reports how many offsets it is behind what can be read, at its
// start and whenever it reads. REQUIRES: as for Restore.
func (e *Engine) Follow(ctx context.Context, f *kafka.Fetcher, bounds map[string]Bounds, report func(behind int64)) error {
	type arrival struct {
		r *restoring
		b *kafka.Batch
	}
	arrived := make(chan arrival, 64)
	gone := make(chan struct{})
	defer close(gone)
	var all []*restoring
	for _, spec := range e.specs {
		if !spec.logged() {
			continue // RestoreSources follows inputs
		}
		from, err := e.goOn(spec, bounds[spec.Name])
		if err != nil {
			return fmt.Errorf("follow store %q: %w", spec.Name, err)
		}
		r := &restoring{e: e, spec: spec, kv: e.stores[spec.Name].below, next: from, end: bounds[spec.Name].End}
		sub, err := f.Subscribe(kafka.SubscribeOptions{
			TP: spec.Changelog, Isolation: kafka.ReadCommitted, Offset: from, MaxBytes: restoreBytes,
			Sink: func(b *kafka.Batch) {
				select {
				case arrived <- arrival{r, b}:
				case <-gone:
					b.Release()
				}
			},
		})
		if err != nil {
			return fmt.Errorf("follow %s: %w", spec.Changelog, err)
		}
		defer sub.Close()
		all = append(all, r)
	}
	tell := func() {
		behind := int64(0)
		for _, r := range all {
			behind += max(r.end-r.next, 0)
		}
		report(behind)
	}
	tell()
	save := time.NewTicker(followSave)
	defer save.Stop()
	for {
		select {
		case a := <-arrived:
			err := a.b.Err
			if err == nil {
				err = a.r.take(a.b)
				a.r.end = a.b.End
			}
			a.b.Release()
			if err != nil {
				return fmt.Errorf("follow %s: %w", a.r.spec.Changelog, err)
			}
			tell()
			continue
		case <-save.C:
		case <-ctx.Done():
		}
		for _, r := range all {
			if err := r.save(); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}
