package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/topology"
)

// source is a checkpoint that tasks start from: its manifest, and the parts
// read so far.
type source struct {
	i        *instance
	ctx      context.Context
	manifest checkpoint.Manifest

	mu    sync.Mutex
	parts map[string]checkpoint.Part
	seed  *checkpoint.Manifest // of the earlier life
}

// adoptLife makes what depends on the life.
func (i *instance) adoptLife(life ids.Life) {
	i.life = life
	i.names = checkpoint.Names{App: i.cfg.ApplicationID, Life: life}
	i.catalog = checkpoint.NewCatalog(i.cfg.Store, i.names, checkpoint.Retry{})
	i.cleaner = checkpoint.NewCleaner(i.catalog)
	i.openFiles()
}

// loadSource reads the manifest of a checkpoint. A store that is down is waited
// for; a missing or damaged manifest is an error.
func (i *instance) loadSource(ctx context.Context, ref barrier.CheckpointRef) (*source, error) {
	s := &source{i: i, ctx: ctx, parts: map[string]checkpoint.Part{}}
	err := i.untilAvailable(ctx, "read the manifest", func() (err error) {
		s.manifest, err = i.catalog.Load(ctx, ref.Manifest)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load checkpoint %d: %w; if the instances do not share one checkpoint store, give all of them the same", ref.N, err)
	}
	return s, nil
}

// untilAvailable repeats op while the store is unavailable.
func (i *instance) untilAvailable(ctx context.Context, what string, op func() error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := op()
		if err == nil || !checkpoint.Retriable(err) || ctx.Err() != nil {
			return err
		}
		i.log.Warn("the checkpoint store is not available; retrying", "what", what, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// task returns a task's share, or nil for checkpoint 0 of a life that began with
// nothing.
func (s *source) task(t ids.TaskID) (*checkpoint.TaskPart, error) {
	if s.manifest.Checkpoint == 0 {
		return s.seedTask(t)
	}
	entry, ok := s.manifest.Task(t)
	if !ok {
		return nil, final(fmt.Errorf("checkpoint %d holds no task %s: the number of partitions changed since it was taken; restore it with the old number, or start with a new application id", s.manifest.Checkpoint, t))
	}
	part, err := s.part(entry.Part)
	if err != nil {
		return nil, err
	}
	p, ok := part.Task(t)
	if !ok {
		return nil, final(fmt.Errorf("part %s holds no task %s, though the manifest of checkpoint %d says so", entry.Part, t, s.manifest.Checkpoint))
	}
	return p, nil
}

// cut is the checkpoint that took a task's part: an earlier one, if the task was
// carried over since (R26).
func (s *source) cut(t ids.TaskID) ids.CheckpointID {
	entry, _ := s.manifest.Task(t)
	name, err := checkpoint.ParseName(entry.Part)
	if err != nil {
		return s.manifest.Checkpoint // Decode has refused it
	}
	return name.Checkpoint
}

func (s *source) part(key string) (*checkpoint.Part, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.parts[key]; ok {
		return &p, nil
	}
	var p checkpoint.Part
	err := s.i.untilAvailable(s.ctx, "read a part", func() (err error) {
		p, err = s.i.catalog.LoadPart(s.ctx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.parts[key] = p
	return &p, nil
}

// zero returns what a task starts from in checkpoint 0.
func (s *source) zero(plan *topology.Resolved, t ids.TaskID) (map[ids.TopicPartition]int64, []barrier.PartitionPosition) {
	external, internal := plan.TaskInputs(t)
	offsets := map[ids.TopicPartition]int64{}
	for _, e := range s.manifest.External {
		if slices.Contains(external, e.TopicPartition) {
			offsets[e.TopicPartition] = e.Offset
		}
	}
	var positions []barrier.PartitionPosition
	for _, tp := range internal {
		for _, e := range s.manifest.Ends {
			if e.TopicPartition == tp {
				positions = append(positions, barrier.FirstPosition(tp, e.Offset))
			}
		}
	}
	return offsets, positions
}

// checkState refuses state that the topology does not know or reads
// differently; each problem is named.
func (i *instance) checkState(m checkpoint.Manifest) error {
	known := map[string]*topology.Store{}
	for _, s := range i.plan.Stores() {
		known[s.Name] = s
	}
	var errs []error
	for _, op := range m.Operators {
		for _, st := range op.Stores {
			s, ok := known[st.Name]
			switch {
			case !ok && slices.Contains(i.cfg.AllowDropped, op.Name):
			case !ok:
				errs = append(errs, fmt.Errorf("checkpoint %d holds state of operator %q, which the topology no longer has: give the step its old name back, or drop the state with AllowDroppedState(%q)", m.Checkpoint, op.Name, op.Name))
			default:
				errs = append(errs, checkSerde(m, op.Name, "keys", st.Key, s.Key), checkSerde(m, op.Name, "values", st.Value, s.Value))
			}
		}
	}
	return errors.Join(errs...)
}

func checkSerde(m checkpoint.Manifest, operator, what, had string, has topology.Serde) error {
	if had == has.Fingerprint || has.Accepts != nil && has.Accepts(had) {
		return nil
	}
	return fmt.Errorf("checkpoint %d holds %s of operator %q written by serde %s, the topology reads them with %s: use the old serde, or one that accepts the old fingerprint", m.Checkpoint, what, operator, short(had), short(has.Fingerprint))
}

func short(s string) string {
	if s = strings.TrimSpace(s); len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}

// withDifferences adds to the refusal of a topology what differs: the operators
// and serdes of the last checkpoint that this one lacks or reads otherwise, and
// topics that a pattern found since and that need more tasks.
func (i *instance) withDifferences(err error) error {
	var other *barrier.TopologyError
	if !errors.As(err, &other) || other.Last.Manifest == "" {
		return err
	}
	catalog := i.catalog
	if catalog == nil { // refused before it took part in the life
		catalog = checkpoint.NewCatalog(i.cfg.Store, checkpoint.Names{App: i.cfg.ApplicationID}, checkpoint.Retry{})
	}
	ctx, cancel := context.WithTimeout(i.ctx, 10*time.Second)
	defer cancel()
	m, lerr := catalog.Load(ctx, other.Last.Manifest)
	if lerr != nil {
		return err // the refusal stands without the details
	}
	if diff := errors.Join(i.checkState(m), i.moved(m)); diff != nil {
		return fmt.Errorf("%w; what differs: %w", err, diff)
	}
	return err
}
