package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/transactions"
)

// checkOffsets compares the group's offsets with the checkpoint (R28).
func (i *instance) checkOffsets(e barrier.DoCheckOffsets) {
	i.background(func(ctx context.Context) {
		src, err := i.loadSource(ctx, e.Ref)
		if err != nil {
			i.loop.post(func() { i.end(err) })
			return
		}
		i.retry(ctx, "check the group's offsets", func(ctx context.Context) error {
			tps := i.externalPartitions()
			found, err := i.admin.FetchOffsets(ctx, i.cfg.ApplicationID, tps...)
			if err != nil {
				return err
			}
			refusal, warning := judgeOffsets(i.cfg.ApplicationID, e.Life, e.Ref.N, src.manifest, tps, found)
			for _, topic := range i.plan.Inputs() {
				if err := sameTopic(src.manifest, topic, i.topicIDs[topic]); err != nil {
					refusal = fmt.Sprintf("input topic %v: offsets of the old one mean nothing in it; to read it from its start, use a new application id", err)
					break
				}
			}
			if warning != "" {
				i.log.Warn(warning)
			}
			end, err := i.logEnd(ctx)
			if err == nil {
				i.post(barrier.EvOffsetsChecked{N: e.Ref.N, Refusal: refusal, LogEnd: end})
			}
			return err
		})
	})
}

// judgeOffsets is R28's table. Partitions that the checkpoint does not hold
// belong to new source topics and are exempt.
func judgeOffsets(app string, life ids.Life, n ids.CheckpointID, m checkpoint.Manifest, tps []ids.TopicPartition, found map[ids.TopicPartition]kafka.Offset) (refusal, warning string) {
	stored := map[ids.TopicPartition]int64{}
	for _, e := range m.External {
		stored[e.TopicPartition] = e.Offset
	}
	var wrong []string
	absent, present := 0, 0
	for _, tp := range tps {
		want, ok := stored[tp]
		if !ok {
			continue
		}
		o, ok := found[tp]
		if !ok || o.Offset < 0 {
			absent++
			continue
		}
		present++
		if why := judgeOffset(life, n, want, o); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s: the group has %d, checkpoint %d has %d (%s)", tp, o.Offset, n, want, why))
		}
	}
	if absent > 0 && present == 0 {
		return "", fmt.Sprintf("the offsets of consumer group %s have expired; the checkpoint's are used", app)
	}
	if absent > 0 {
		wrong = append(wrong, fmt.Sprintf("%d partitions have no offset in the group", absent))
	}
	if len(wrong) == 0 {
		return "", ""
	}
	slices.Sort(wrong)
	return fmt.Sprintf("the offsets of consumer group %s were changed by somebody, and state would not match them: %s; to go on from the checkpoint, delete the group's offsets (kafka-consumer-groups.sh --delete-offsets --group %s --topic <topic>, for every input topic) while the application is stopped; to begin at other offsets, use a new application id", app, strings.Join(wrong, "; "), app), ""
}

func judgeOffset(life ids.Life, n ids.CheckpointID, want int64, o kafka.Offset) string {
	l, m, ok := transactions.ParseOffsetMetadata(o.Metadata)
	switch {
	case !ok:
		return "it does not carry this application's tag"
	case l != life:
		return "it was written by another life, " + l.String()
	case m > n:
		return fmt.Sprintf("it was written by the later checkpoint %d", m)
	case m == n && o.Offset != want:
		return "the same checkpoint with another offset"
	}
	return ""
}

// writeOffsets overwrites the group's offsets with the checkpoint's (R28), as a
// member of the present generation, so that the write of an instance that was
// replaced meanwhile is refused.
func (i *instance) writeOffsets(e barrier.DoWriteOffsets) {
	group := i.group.group
	if group == nil {
		return // it left the group; the next coordinator writes them
	}
	i.background(func(ctx context.Context) {
		src, err := i.loadSource(ctx, e.Ref)
		if err != nil {
			i.loop.post(func() { i.end(err) })
			return
		}
		tag := transactions.OffsetMetadata(e.Life, e.Ref.N)
		var list []kafka.Offset
		for _, o := range src.manifest.External {
			list = append(list, kafka.Offset{TP: o.TopicPartition, Offset: o.Offset, Metadata: tag})
		}
		i.retry(ctx, "write the group's offsets", func(ctx context.Context) error {
			if e.Ref.N > 0 { // only a Restore leads here then
				if err := i.warnOfDoubles(ctx, e.Ref.N, list); err != nil {
					return err
				}
			}
			if len(list) > 0 {
				if err := i.admin.CommitOffsets(ctx, i.cfg.ApplicationID, group.Membership(), list); err != nil {
					return err // a rebalance: the next try carries the new generation
				}
			}
			i.post(barrier.EvOffsetsWritten{N: e.Ref.N})
			return nil
		})
	})
}

// warnOfDoubles says which input is processed again because of a Restore, and
// its output written a second time.
func (i *instance) warnOfDoubles(ctx context.Context, n ids.CheckpointID, list []kafka.Offset) error {
	tps := make([]ids.TopicPartition, len(list))
	for k, o := range list {
		tps[k] = o.TP
	}
	reached, err := i.admin.FetchOffsets(ctx, i.cfg.ApplicationID, tps...)
	if err != nil {
		return err
	}
	var spans []string
	for _, o := range list {
		if r := reached[o.TP].Offset; r > o.Offset {
			spans = append(spans, fmt.Sprintf("%s: %d to %d", o.TP, o.Offset, r-1))
		}
	}
	if len(spans) == 0 {
		i.log.Info("going back to an older checkpoint: the consumer group has no offsets behind it", "checkpoint", int64(n))
		return nil
	}
	i.log.Warn("going back to an older checkpoint: the output of this input is written a second time",
		"checkpoint", int64(n), "input", strings.Join(spans, ", "))
	return nil
}

// mirrorOffsets writes the group's offsets after a completed checkpoint of
// at-least-once mode (R11). They are for lag monitors: a start takes the
// checkpoint's, so a failure is only logged.
func (i *instance) mirrorOffsets(c *running) {
	group := i.group.group
	if group == nil {
		return // it left the group; the next checkpoint's owners write theirs
	}
	tag := transactions.OffsetMetadata(i.life, c.n)
	var list []kafka.Offset
	for _, p := range c.parts {
		for _, e := range p.External {
			list = append(list, kafka.Offset{TP: e.TopicPartition, Offset: e.Offset, Metadata: tag})
		}
	}
	member := group.Membership()
	i.group.mirrors.Add(1)
	i.background(func(context.Context) { // also while the instance ends: leaving waits for it
		defer i.group.mirrors.Done()
		try, cancel := context.WithTimeout(context.Background(), min(i.cfg.SessionTimeout, 5*time.Second))
		defer cancel()
		if err := i.admin.CommitOffsets(try, i.cfg.ApplicationID, member, list); err != nil {
			i.log.Debug("the group's offsets were not written; the next checkpoint does it", "error", err)
		}
	})
}
