package runtime

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
)

// mark makes a completed checkpoint restorable by key (R17).
func (i *instance) mark(e barrier.DoMark) {
	i.background(func(ctx context.Context) {
		i.retry(ctx, "mark the checkpoint", func(ctx context.Context) error {
			err := i.catalog.Mark(ctx, e.Ref.N, e.Ref.Manifest)
			if err == nil {
				i.phase("marked")
				i.post(barrier.EvMarked{N: e.Ref.N})
			}
			return err
		})
	})
}

// clean deletes what no retained checkpoint holds (R30).
func (i *instance) clean(e barrier.DoClean) {
	req := checkpoint.CleanRequest{ReadTo: e.Before}
	for _, k := range e.Keep {
		req.Retained = append(req.Retained, checkpoint.CheckpointRef{Checkpoint: k.N, Manifest: k.Manifest})
	}
	i.background(func(ctx context.Context) {
		out, err := i.cleaner.Clean(ctx, req)
		switch {
		case err != nil && ctx.Err() == nil:
			i.log.Warn("cleaning checkpoint storage failed; it is repeated later", "error", err)
		case out.Deleted > 0:
			i.log.Debug("cleaned checkpoint storage", "deleted", out.Deleted, "kept", out.Kept)
		}
		i.post(barrier.EvCleaned{})
	})
}

// purgeEvery is how often repartition topics are purged: a request per leader,
// which frees whole segments only.
const purgeEvery = 5 * time.Second

// purge deletes repartition records that no checkpoint needs (R29).
func (i *instance) purge(e barrier.DoPurge) {
	if time.Since(i.purged) < purgeEvery || i.purging {
		return
	}
	i.purging = true
	i.background(func(ctx context.Context) {
		below, err := i.needed(ctx, e)
		if err == nil && len(below) > 0 {
			err = i.admin.DeleteRecords(ctx, below)
		}
		if err != nil && ctx.Err() == nil {
			i.log.Warn("purging repartition topics failed; it is repeated later", "error", err)
		}
		i.loop.post(func() { i.purging, i.purged = false, time.Now() })
	})
}

// trimTries is how often a trim of the control log is tried; the next snapshot
// has another.
const trimTries = 3

// trim deletes what the control log holds below a snapshot (R2).
func (i *instance) trim(e barrier.DoTrim) {
	below := map[ids.TopicPartition]int64{{Topic: i.controlTopic}: e.Below}
	i.background(func(ctx context.Context) {
		var err error
		for range trimTries {
			err = i.attempt(ctx, func(ctx context.Context) error { return i.admin.DeleteRecords(ctx, below) })
			if err == nil {
				i.log.Debug("the control log was trimmed", "to", e.Below)
			}
			if err == nil || ctx.Err() != nil {
				return
			}
		}
		i.log.Warn("the control log cannot be trimmed; it is tried again with the next snapshot", "to", e.Below, "error", err)
	})
}

// needed finds, per repartition partition, the smallest offset that the last
// checkpoint or in-flight channels of retained ones need.
func (i *instance) needed(ctx context.Context, e barrier.DoPurge) (map[ids.TopicPartition]int64, error) {
	below := map[ids.TopicPartition]int64{}
	lower := func(p barrier.PartitionPosition) {
		next := p.Next
		if old, ok := below[p.Partition]; !ok || next < old {
			below[p.Partition] = next
		}
	}
	if err := i.positions(ctx, e.Last, lower); err != nil {
		return nil, err
	}
	for _, k := range e.Keep {
		if k.N == e.Last.N {
			continue
		}
		if err := i.positions(ctx, k, func(p barrier.PartitionPosition) {
			if p.InFlight(k.N) {
				lower(p)
			}
		}); err != nil {
			return nil, err
		}
	}
	return below, nil
}

// positions visits the repartition positions of a checkpoint.
func (i *instance) positions(ctx context.Context, ref barrier.CheckpointRef, visit func(barrier.PartitionPosition)) error {
	src, err := i.loadSource(ctx, ref)
	if err != nil {
		return err
	}
	if src.manifest.Checkpoint == 0 {
		return nil
	}
	for _, key := range src.manifest.Parts() {
		part, err := src.part(key)
		if err != nil {
			return err
		}
		for _, t := range part.Tasks {
			if !src.manifest.Lists(t.Task, key) {
				continue // it has a newer part
			}
			var positions []barrier.PartitionPosition
			if err := json.Unmarshal(t.Positions, &positions); err != nil {
				return err
			}
			for _, p := range positions {
				visit(p)
			}
		}
	}
	return nil
}
