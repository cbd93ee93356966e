package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tidegate/tidegate/internal/ids"
)

// CheckpointRef is a completed checkpoint and the manifest that its Complete
// names.
type CheckpointRef struct {
	Checkpoint ids.CheckpointID
	Manifest   string
}

// CleanRequest is the control log's view for one cleaning; see CleanInput for
// the meaning of the fields.
type CleanRequest struct {
	ReadTo    ids.CheckpointID
	Undecided []ids.CheckpointID
	Retained  []CheckpointRef
	Bases     []CheckpointRef
}

// Cleaned is what a cleaning came to.
type Cleaned struct {
	Deleted int
	Aborted int // unfinished uploads
	Kept    int
	Unknown []string
}

// Cleaner performs what PlanClean decides. It remembers which objects the
// retained checkpoints hold, so that each manifest is read once. One cleaner a
// life, on the coordinator, is enough; more do no harm.
type Cleaner struct {
	catalog *Catalog

	mu   sync.Mutex
	held map[string]Held // by manifest key
}

// NewCleaner returns a cleaner of the catalog's life.
func NewCleaner(c *Catalog) *Cleaner { return &Cleaner{catalog: c, held: map[string]Held{}} }

// deleteBatch is how many objects one Delete call names (S3's limit is 1000).
const deleteBatch = 1000

// Clean deletes what nothing needs. If any retained manifest or part cannot be
// read, nothing is deleted: not knowing what a checkpoint holds is no licence.
// A repetition after a failure or a crash finishes the work.
func (c *Cleaner) Clean(ctx context.Context, r CleanRequest) (Cleaned, error) {
	out, err := c.clean(ctx, r)
	if err != nil {
		return out, fmt.Errorf("clean checkpoint storage: %w", err)
	}
	return out, nil
}

func (c *Cleaner) clean(ctx context.Context, r CleanRequest) (out Cleaned, err error) {
	in := CleanInput{Names: c.catalog.names, ReadTo: r.ReadTo, Undecided: r.Undecided}
	if in.Retained, err = c.holds(ctx, r.Retained); err != nil {
		return out, err
	}
	if in.Bases, err = c.holds(ctx, r.Bases); err != nil {
		return out, err
	}
	c.forget(append(slices.Clone(r.Retained), r.Bases...))
	if err := c.list(ctx, &in); err != nil {
		return out, err
	}
	plan := PlanClean(in)
	out.Kept, out.Unknown = plan.Kept, plan.Unknown
	for _, keys := range [][]string{plan.Markers, plan.Manifests, plan.Objects} {
		for batch := range slices.Chunk(keys, deleteBatch) {
			err := c.catalog.retry.do(ctx, Retriable, func() error { return c.catalog.store.Delete(ctx, batch) })
			if err != nil {
				return out, err
			}
			out.Deleted += len(batch)
		}
	}
	for _, u := range plan.Uploads {
		if err := c.catalog.store.(Incomplete).AbortIncomplete(ctx, u); err != nil {
			return out, err
		}
		out.Aborted++
	}
	return out, nil
}

func (c *Cleaner) list(ctx context.Context, in *CleanInput) error {
	cat := c.catalog
	for _, prefix := range []string{cat.names.LifePrefix(), cat.names.MarkerPrefix()} {
		keys, err := listKeys(ctx, cat.store, prefix, cat.retry)
		if err != nil {
			return err
		}
		in.Listing = append(in.Listing, keys...)
	}
	inc, ok := cat.store.(Incomplete)
	if !ok {
		return nil
	}
	return cat.retry.do(ctx, Retriable, func() error {
		in.Incomplete = nil
		for u, err := range inc.ListIncomplete(ctx, cat.names.LifePrefix()) {
			if err != nil {
				return err
			}
			in.Incomplete = append(in.Incomplete, u)
		}
		return nil
	})
}

func (c *Cleaner) holds(ctx context.Context, refs []CheckpointRef) ([]Held, error) {
	var out []Held
	for _, ref := range refs {
		h, err := c.hold(ctx, ref)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

func (c *Cleaner) hold(ctx context.Context, ref CheckpointRef) (Held, error) {
	c.mu.Lock()
	h, ok := c.held[ref.Manifest]
	c.mu.Unlock()
	if ok {
		return h, nil
	}
	h, err := c.catalog.Holds(ctx, ref)
	if err == nil {
		c.mu.Lock()
		c.held[ref.Manifest] = h
		c.mu.Unlock()
	}
	return h, err
}

func (c *Cleaner) forget(keep []CheckpointRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.held {
		if !slices.ContainsFunc(keep, func(r CheckpointRef) bool { return r.Manifest == key }) {
			delete(c.held, key)
		}
	}
}

// Holds reads a checkpoint's manifest and parts and returns every object it
// needs, sorted.
func (c *Catalog) Holds(ctx context.Context, ref CheckpointRef) (Held, error) {
	m, err := c.Load(ctx, ref.Manifest)
	if err != nil {
		return Held{}, err
	}
	if m.Checkpoint != ref.Checkpoint {
		return Held{}, corrupted(c.store.String(), "get", ref.Manifest, errors.New("the manifest is of another checkpoint"))
	}
	keys := []string{ref.Manifest, (Names{App: m.App, Life: m.Life}).Marker(m.Checkpoint)}
	for _, key := range m.Parts() {
		p, err := c.LoadPart(ctx, key)
		if err != nil {
			return Held{}, err
		}
		keys = append(keys, key)
		for _, t := range p.Tasks {
			if !m.Lists(t.Task, key) {
				continue // it has a newer part
			}
			for _, f := range t.Files {
				keys = append(keys, f.Key)
			}
		}
	}
	slices.Sort(keys)
	return Held{Checkpoint: ref.Checkpoint, Keys: slices.Compact(keys)}, nil
}

func compareUploads(a, b Upload) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID))
}
