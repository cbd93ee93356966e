package runtime

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidegate/tidegate/changelog"
	"github.com/tidegate/tidegate/topology"
)

// checkReused checks the settings of the input topics that serve as changelogs: a
// restore reads them from their start, so they must hold every row, and keep
// tombstones for as long as a local store may have missed them.
func (d *deployment) checkReused(ctx context.Context) error {
	if d.cfg.Mode != Changelog {
		return nil
	}
	var topics []string
	for _, s := range d.plan.Stores() {
		if s.FromSource == nil || slices.Contains(d.cfg.Unlogged, s.Name) {
			continue
		}
		if d.cfg.OffsetReset == Latest && d.plan.Reset(s.SourceTopic) == topology.ResetDefault {
			return fmt.Errorf("table %q with ReuseSourceTopics begins at the end of topic %s because of WithOffsetReset(Latest), but is restored from its start: give Table the option FromEarliest or FromLatest", s.Name, s.SourceTopic)
		}
		topics = append(topics, s.SourceTopic)
	}
	if len(topics) == 0 {
		return nil
	}
	found, err := d.admin.DescribeTopics(ctx, true, topics...)
	if err != nil {
		return fmt.Errorf("read the settings of topics that serve as changelogs: %w", err)
	}
	for _, topic := range topics {
		configs := found[topic].Configs
		if got := configs["cleanup.policy"]; got != "compact" {
			return fmt.Errorf("topic %s is a table's changelog because of ReuseSourceTopics and has cleanup.policy=%s: rows that Kafka deletes by time would be missing after a restore. Set cleanup.policy=compact, or leave ReuseSourceTopics out", topic, got)
		}
		if got, err := strconv.ParseInt(configs["delete.retention.ms"], 10, 64); err == nil && got < changelog.TombstonesKept.Milliseconds() {
			return fmt.Errorf("topic %s is a table's changelog because of ReuseSourceTopics and has delete.retention.ms=%d: local state could miss deletions. Set delete.retention.ms to at least %d, or leave ReuseSourceTopics out", topic, got, changelog.TombstonesKept.Milliseconds())
		}
	}
	return nil
}
