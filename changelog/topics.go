package changelog

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/topology"
)

// TopicName returns the name of a store's changelog: "A-store-changelog".
func TopicName(application, store string) string { return application + "-" + store + "-changelog" }

// ExtraRetention is how much longer than its window and grace a window's record
// is kept in a changelog: the longest time for which stream time may stand still
// (an application that is stopped, a source without records) before a restore
// loses windows that are still open. Kafka Streams'
// windowstore.changelog.additional.retention.ms, there one day.
const ExtraRetention = 7 * 24 * time.Hour

// recordBytes is the largest changelog batch that topics must take.
const recordBytes = 8 << 20

// expiring are the formats of windows and rows that stream time passes: the topic
// forgets them by its retention.
var expiring = []string{"windows-1", "window-kv-2", "join-rows-1"}

// Expires reports whether a store's old entries leave the changelog by the
// topic's retention.
func Expires(s *topology.Store) bool {
	return s.SizeMs > 0 && slices.Contains(expiring, s.Format)
}

// DropsByTime reports whether a store's range deletions only drop what stream
// time has passed, so that they need no tombstones. Not so those of aggregations
// over windows: with results on close, a window that is still there is one whose
// result is still to be sent.
func DropsByTime(s *topology.Store) bool { return Expires(s) && s.Format != "windows-1" }

// Topics are the changelog topics of a topology, one per store but those that are
// not logged or kept in their source topics, with one partition per task of the store's subtopology.
func Topics(plan *topology.Resolved, replication int16, unlogged []string) []kafka.TopicSpec {
	var out []kafka.TopicSpec
	for _, sub := range plan.Subtopologies() {
		for _, s := range sub.Stores {
			if slices.Contains(unlogged, s.Name) || s.FromSource != nil {
				continue
			}
			configs := kafka.InternalConfigs(recordBytes)
			configs["cleanup.policy"] = "compact"
			configs["delete.retention.ms"] = ms(TombstonesKept.Milliseconds())
			if Expires(s) {
				configs["cleanup.policy"] = "compact,delete"
				configs["retention.ms"] = ms(retention(s))
			}
			out = append(out, kafka.TopicSpec{
				Name: TopicName(plan.ApplicationID, s.Name), Partitions: plan.TaskCount(sub.Number),
				Replication: replication, Configs: configs,
			})
		}
	}
	return out
}

func retention(s *topology.Store) int64 {
	const most = math.MaxInt64 / 4
	return min(s.SizeMs, most) + min(s.GraceMs, most) + ExtraRetention.Milliseconds()
}

func ms(v int64) string { return strconv.FormatInt(v, 10) }

// Partition returns the changelog partition of a task's store.
func Partition(application, store string, t ids.TaskID) ids.TopicPartition {
	return ids.TopicPartition{Topic: TopicName(application, store), Partition: t.Partition}
}
