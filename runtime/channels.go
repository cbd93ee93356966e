package runtime

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
)

// bounds are the first offset of a repartition partition and the one behind its
// last.
type bounds struct{ start, end int64 }

// channelBounds proves that the repartition topics are those of the checkpoint
// and asks for their bounds (R29).
func (r *run) channelBounds(m checkpoint.Manifest) (map[ids.TopicPartition]bounds, error) {
	i := r.i
	var tps []ids.TopicPartition
	var names []string
	for _, t := range r.tasks {
		_, internal := i.plan.TaskInputs(t)
		tps = append(tps, internal...)
		for _, tp := range internal {
			names = append(names, tp.Topic)
		}
	}
	out := map[ids.TopicPartition]bounds{}
	if len(tps) == 0 {
		return out, nil
	}
	slices.Sort(names)
	names = slices.Compact(names)
	done := i.retry(r.ctx, "find the bounds of the repartition topics", func(ctx context.Context) error {
		found, err := i.admin.DescribeTopics(ctx, false, names...)
		if err != nil {
			return err
		}
		for _, name := range names {
			t := found[name]
			if !t.Exists {
				return final(fmt.Errorf("repartition topic %s was deleted: records between tasks that were acknowledged are lost: %s", name, i.repairAdvice()))
			}
			if err := sameTopic(m, name, t.ID); err != nil {
				return final(fmt.Errorf("repartition topic %w: records between tasks that were acknowledged are lost: %s", err, i.repairAdvice()))
			}
		}
		starts, err := i.admin.ListOffsets(ctx, kafka.Earliest, tps...)
		if err != nil {
			return err
		}
		ends, err := i.admin.ListOffsets(ctx, kafka.Latest, tps...)
		if err != nil {
			return err
		}
		for _, tp := range tps {
			out[tp] = bounds{starts[tp], ends[tp]}
		}
		return nil
	})
	if !done {
		return nil, r.ctx.Err()
	}
	return out, nil
}

// sameTopic compares a topic's id with the one that a checkpoint holds.
func sameTopic(m checkpoint.Manifest, topic string, id [16]byte) error {
	now := hex.EncodeToString(id[:])
	n := slices.IndexFunc(m.Topics, func(t checkpoint.TopicID) bool { return t.Topic == topic })
	if n < 0 || m.Topics[n].ID == now {
		return nil
	}
	return fmt.Errorf("%s was deleted and made anew: its id is %s, checkpoint %d read %s", topic, now, m.Checkpoint, m.Topics[n].ID)
}

// fit moves positions into what the partitions still hold (R29). Records below
// the log start were purged because a later checkpoint did not need them. From
// an older one, whose channels are all aligned, they are void: every upstream
// task writes what lies behind the barrier again, as another incarnation.
func (r *run) fit(positions []barrier.PartitionPosition, have map[ids.TopicPartition]bounds) error {
	for k := range positions {
		p := &positions[k]
		b, ok := have[p.Partition]
		switch {
		case !ok:
		case p.Next > b.end:
			return final(fmt.Errorf("repartition partition %s ends at offset %d, checkpoint %d read up to %d: the broker lost acknowledged records: %s", p.Partition, b.end, r.from.N, p.Next, r.i.repairAdvice()))
		case p.Next < b.start && p.InFlight(r.from.N):
			return final(fmt.Errorf("repartition partition %s begins at offset %d, checkpoint %d needs the records from %d on: somebody deleted them; go back to another checkpoint with RestoreFrom(n, AllowDuplicates)", p.Partition, b.start, r.from.N, p.Next))
		case p.Next < b.start:
			p.Next = b.start
		}
	}
	return nil
}
