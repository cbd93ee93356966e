package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/transactions"
)

// Repair is what must go so that a new life can begin with StartFrom, and from
// which checkpoints it can: the internal topics and the group of a Reset, and the
// marked checkpoints that the store holds.
type Repair struct {
	*Reset
	Checkpoints []RepairPoint // oldest first
	// Ahead says, for the checkpoint that Newest returns and per input partition,
	// which input the group's offsets say was processed and committed behind it: its
	// output would be written a second time.
	Ahead []string
	// Tag is the life and checkpoint that wrote the group's offsets; "" when they
	// are gone or not tidegate's.
	Tag string
}

// RepairPoint is a checkpoint that StartFrom can name.
type RepairPoint struct {
	Name     string    // LIFE/N
	Created  time.Time // zero if the manifest cannot be read
	Topology string    // fingerprint
	// Unusable says why StartFrom cannot begin with it; "" if it can.
	Unusable string

	manifest checkpoint.Manifest
}

// PlanRepair finds out what a Repair would do. It changes nothing. Close it.
func PlanRepair(ctx context.Context, cluster KafkaConfig, application string, store checkpoint.Store, log *slog.Logger) (*Repair, error) {
	reset, err := PlanReset(ctx, cluster, application, log)
	if err != nil {
		return nil, err
	}
	r := &Repair{Reset: reset}
	if err := r.look(ctx, store); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Repair) look(ctx context.Context, store checkpoint.Store) error {
	marked, err := checkpoint.ListAllMarked(ctx, store, r.Application, checkpoint.Retry{})
	if err != nil {
		return err
	}
	catalog := checkpoint.NewCatalog(store, checkpoint.Names{App: r.Application}, checkpoint.Retry{})
	for _, c := range marked {
		if c.Checkpoint == 0 {
			continue // nothing but where inputs began
		}
		p := RepairPoint{Name: MarkedName(c.Life, c.Checkpoint)}
		var lost error
		if p.manifest, lost, err = describe(ctx, catalog, c); err != nil {
			return err
		}
		if m := &p.manifest; lost != nil {
			p.Unusable = lost.Error() // others may do
		} else {
			p.Created, p.Topology = m.CreatedAt(), m.Topology
			if !m.Aligned {
				p.Unusable = "records were in flight between its tasks"
			}
		}
		r.Checkpoints = append(r.Checkpoints, p)
	}
	slices.SortStableFunc(r.Checkpoints, func(a, b RepairPoint) int { return a.Created.Compare(b.Created) })
	if newest, ok := r.Newest(); ok {
		return r.compare(ctx, &newest.manifest)
	}
	return nil
}

// compare looks how far the group's offsets are ahead of a checkpoint.
func (r *Repair) compare(ctx context.Context, m *checkpoint.Manifest) error {
	var tps []ids.TopicPartition
	for _, e := range m.External {
		tps = append(tps, e.TopicPartition)
	}
	if len(tps) == 0 {
		return nil
	}
	found, err := r.client.Admin().FetchOffsets(ctx, r.Application, tps...)
	if err != nil {
		return fmt.Errorf("fetch the offsets of group %s: %w", r.Application, err)
	}
	for _, e := range m.External {
		o, ok := found[e.TopicPartition]
		if !ok {
			continue
		}
		if life, n, tagged := transactions.ParseOffsetMetadata(o.Metadata); tagged {
			r.Tag = MarkedName(life, n)
		}
		if o.Offset > e.Offset {
			r.Ahead = append(r.Ahead, fmt.Sprintf("%s: offsets %d to %d", e.TopicPartition, e.Offset, o.Offset-1))
		}
	}
	return nil
}

// Newest returns the newest checkpoint that StartFrom can use.
func (r *Repair) Newest() (RepairPoint, bool) {
	for _, p := range slices.Backward(r.Checkpoints) {
		if p.Unusable == "" {
			return p, true
		}
	}
	return RepairPoint{}, false
}
