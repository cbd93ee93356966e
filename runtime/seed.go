package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/tasks"
	"github.com/tidegate/tidegate/topology"
)

// A new life can begin with the state of a marked checkpoint of an earlier one
// (StartFrom): after the control log or a repartition topic was lost, or with a
// changed topology. Its checkpoint 0 then names that checkpoint. Tasks take their
// state from it, inputs begin at its offsets, repartition topics at their ends:
// what they hold is of the earlier life and void, so the checkpoint must have no
// records in flight (R24, R30). The first checkpoint of the new life is written in
// full, and what belongs to the earlier life is never deleted.

// lastMarked is what StartFrom calls the newest marked checkpoint.
const lastMarked = "last"

// describe reads the description of a marked checkpoint. Whether the store could not
// be reached is an error; damage, or that it was cleaned meanwhile, is lost.
func describe(ctx context.Context, catalog *checkpoint.Catalog, c checkpoint.Marked) (m checkpoint.Manifest, lost, err error) {
	if err = c.Err; err == nil {
		m, err = catalog.Load(ctx, c.Manifest)
	}
	if errors.Is(err, checkpoint.ErrCorrupted) || errors.Is(err, checkpoint.ErrNotFound) {
		return m, err, nil
	}
	return m, nil, err
}

// FindMarked returns the marked checkpoint of an application that text names:
// "last", or LIFE/N. "last" is never a checkpoint 0, which holds nothing but where
// inputs began: what the life began with is marked itself.
func FindMarked(ctx context.Context, store checkpoint.Store, app, text string) (checkpoint.Manifest, string, error) {
	marked, err := checkpoint.ListAllMarked(ctx, store, app, checkpoint.Retry{})
	if err != nil {
		return checkpoint.Manifest{}, "", err
	}
	catalog := checkpoint.NewCatalog(store, checkpoint.Names{App: app}, checkpoint.Retry{})
	var best checkpoint.Manifest
	key := ""
	damaged := map[ids.Life]checkpoint.Marked{} // the newest of each life
	for _, c := range marked {
		if text != MarkedName(c.Life, c.Checkpoint) && (text != lastMarked || c.Checkpoint == 0) {
			continue
		}
		m, lost, err := describe(ctx, catalog, c)
		switch {
		case err != nil:
			return best, "", err
		case lost != nil && text != lastMarked:
			return best, "", fmt.Errorf("StartFrom(%q): %w", text, lost)
		case lost != nil:
			c.Err = lost
			damaged[c.Life] = c
		case key == "" || m.Created > best.Created:
			best, key = m, c.Manifest
		}
	}
	for life, c := range damaged {
		if life != best.Life || c.Checkpoint > best.Checkpoint {
			return best, "", fmt.Errorf("StartFrom(%q): checkpoint %s may be the newest and cannot be read: name the one to begin with, as tidegate repair lists them: %w", text, MarkedName(life, c.Checkpoint), c.Err)
		}
	}
	if key == "" {
		return best, "", fmt.Errorf("StartFrom(%q): checkpoint store %s holds no such marked checkpoint of application %q; it has %s", text, store, app, markedNames(marked))
	}
	return best, key, nil
}

// MarkedName is how StartFrom names a checkpoint.
func MarkedName(life ids.Life, n ids.CheckpointID) string { return fmt.Sprintf("%s/%d", life, n) }

func markedNames(list []checkpoint.Marked) string {
	if len(list) == 0 {
		return "none"
	}
	var names []string
	for _, c := range list {
		names = append(names, MarkedName(c.Life, c.Checkpoint))
	}
	return strings.Join(names, ", ")
}

// checkStartFrom refuses what cannot be the name of a marked checkpoint.
func checkStartFrom(text string) error {
	life, n, found := strings.Cut(text, "/")
	if text == lastMarked {
		return nil
	}
	_, lerr := ids.ParseLife(life)
	_, nerr := strconv.ParseInt(n, 10, 64)
	if !found || lerr != nil || nerr != nil {
		return fmt.Errorf("StartFrom(%q): want \"last\", or LIFE/N as tidegate repair prints it", text)
	}
	return nil
}

// plantSeed makes checkpoint 0 begin with the checkpoint that StartFrom names.
func (i *instance) plantSeed(ctx context.Context, m *checkpoint.Manifest) error {
	old, key, err := FindMarked(ctx, i.cfg.Store, i.cfg.ApplicationID, i.cfg.StartFrom)
	if err != nil {
		if checkpoint.Retriable(err) {
			return err
		}
		return final(err)
	}
	if old.Checkpoint == 0 {
		return final(fmt.Errorf("StartFrom(%q): checkpoint 0 holds no state, only where inputs began; name a later one, or begin without state (tidegate reset --checkpoints)", i.cfg.StartFrom))
	}
	seed := &checkpoint.Seed{Life: old.Life, Checkpoint: old.Checkpoint, Manifest: key}
	if !old.Aligned {
		return final(fmt.Errorf("StartFrom(%q): checkpoint %s has records in flight between tasks, which a new life cannot read: its topology has a cycle, or it was taken unaligned", i.cfg.StartFrom, MarkedName(old.Life, old.Checkpoint)))
	}
	if err := i.checkState(old); err != nil {
		return final(fmt.Errorf("StartFrom(%q): %w", i.cfg.StartFrom, err))
	}
	if seed.Subs, err = mapSubs(i.plan, old, i.fingerprint); err != nil {
		return final(fmt.Errorf("StartFrom(%q): %w", i.cfg.StartFrom, err))
	}
	m.Seed = seed
	return i.seedOffsets(ctx, m, old)
}

// seedOffsets lets inputs begin where the earlier life's checkpoint left them; new
// ones begin as in a first start.
func (i *instance) seedOffsets(ctx context.Context, m *checkpoint.Manifest, old checkpoint.Manifest) error {
	for _, topic := range i.plan.Inputs() {
		if err := sameTopic(old, topic, i.topicIDs[topic]); err != nil {
			return final(fmt.Errorf("StartFrom(%q): input topic %w; its offsets mean nothing in the new one", i.cfg.StartFrom, err))
		}
	}
	m.External = nil
	var fresh []ids.TopicPartition
	for _, tp := range i.externalPartitions() {
		at := slices.IndexFunc(old.External, func(e checkpoint.ExternalOffset) bool { return e.TopicPartition == tp })
		if at < 0 {
			fresh = append(fresh, tp)
			continue
		}
		m.External = append(m.External, old.External[at])
	}
	first, err := i.firstOffsets(ctx, fresh)
	if err != nil {
		return err
	}
	var list []kafka.Offset
	for _, e := range m.External {
		list = append(list, kafka.Offset{TP: e.TopicPartition, Offset: e.Offset})
	}
	m.External = append(m.External, first...)
	i.log.Warn("a new life begins with the state of an earlier one", "checkpoint", MarkedName(old.Life, old.Checkpoint), "taken", old.CreatedAt())
	if len(list) == 0 {
		return nil
	}
	return i.warnOfDoubles(ctx, old.Checkpoint, list)
}

// mapSubs says for each subtopology with state which one of the earlier
// checkpoint has it, by the names of its stores. With the same topology that is
// every subtopology's own.
func mapSubs(plan *topology.Resolved, old checkpoint.Manifest, fingerprint string) ([]checkpoint.SeedSub, error) {
	was := map[string]int32{}
	for _, op := range old.Operators {
		for _, s := range op.Stores {
			if len(op.Subs) > 0 {
				was[s.Name] = op.Subs[0]
			}
		}
	}
	partitions := map[int32]int32{}
	for _, t := range plan.Tasks() {
		partitions[t.Sub]++
	}
	var out []checkpoint.SeedSub
	var errs []error
	for _, s := range plan.Subtopologies() {
		from := []int32{}
		if old.Topology == fingerprint {
			from = append(from, s.Number)
		} else {
			for _, st := range s.Stores {
				if sub, ok := was[st.Name]; ok && !slices.Contains(from, sub) {
					from = append(from, sub)
				}
			}
		}
		switch {
		case len(from) == 0:
		case len(from) > 1:
			errs = append(errs, fmt.Errorf("subtopology %d has stores that were in the separate subtopologies %v: state of several tasks cannot be put into one; keep a repartition between the steps", s.Number, from))
		case partitions[s.Number] != partitionsIn(old, from[0]):
			errs = append(errs, fmt.Errorf("subtopology %d with stores has %d partitions, in the checkpoint it had %d: state is not divided anew; keep the number of partitions of its inputs and repartition topics", s.Number, partitions[s.Number], partitionsIn(old, from[0])))
		default:
			out = append(out, checkpoint.SeedSub{Sub: s.Number, From: from[0]})
		}
	}
	return out, errors.Join(errs...)
}

// partitionsIn counts the tasks of a subtopology in a checkpoint.
func partitionsIn(m checkpoint.Manifest, sub int32) (n int32) {
	for _, t := range m.Tasks {
		if t.Task.Sub == sub {
			n++
		}
	}
	return n
}

// seedTask returns the share of the earlier life's task that a task of checkpoint
// 0 begins with; nil when it begins with nothing.
func (s *source) seedTask(t ids.TaskID) (*checkpoint.TaskPart, error) {
	seed := s.manifest.Seed
	if seed == nil {
		return nil, nil
	}
	at := slices.IndexFunc(seed.Subs, func(x checkpoint.SeedSub) bool { return x.Sub == t.Sub })
	if at < 0 {
		return nil, nil
	}
	old, err := s.seedManifest()
	if err != nil {
		return nil, err
	}
	was := ids.TaskID{Sub: seed.Subs[at].From, Partition: t.Partition}
	entry, ok := old.Task(was)
	if !ok {
		return nil, final(fmt.Errorf("checkpoint %s, with which this life began, holds no task %s", MarkedName(old.Life, old.Checkpoint), was))
	}
	part, err := s.part(entry.Part)
	if err != nil {
		return nil, err
	}
	p, ok := part.Task(was)
	if !ok {
		return nil, final(fmt.Errorf("part %s holds no task %s", entry.Part, was))
	}
	return p, nil
}

func (s *source) seedManifest() (checkpoint.Manifest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seed != nil {
		return *s.seed, nil
	}
	var m checkpoint.Manifest
	err := s.i.untilAvailable(s.ctx, "read the manifest of the earlier life", func() (err error) {
		m, err = s.i.catalog.Load(s.ctx, s.manifest.Seed.Manifest)
		return err
	})
	if err != nil {
		return m, fmt.Errorf("load checkpoint %s, with which this life began: %w", MarkedName(s.manifest.Seed.Life, s.manifest.Seed.Checkpoint), err)
	}
	s.seed = &m
	return m, nil
}

// decodeSeed takes from the earlier life's task what does not belong to channels:
// its stream time and its timers.
func decodeSeed(p *checkpoint.TaskPart, out tasks.Restored) tasks.Restored {
	out.Times, out.Timers = &barrier.TimesState{Stream: p.StreamTime}, p.Timers
	return out
}
