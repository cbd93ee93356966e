package tidegate

import (
	"maps"

	"github.com/tidegate/tidegate/runtime"
)

// WithTags says where this instance runs, for example zone and rack; the default
// is nothing. In barrier mode the copies of WithStandbys go to instances that
// differ from a task's own, and from each other, in as many tags as possible
// (Kafka Streams' client.tag and rack.aware.assignment.tags, here all tags count).
func WithTags(tags map[string]string) Option {
	return func(c *runtime.Config) { c.Tags = maps.Clone(tags) }
}

// WithStandbyRate bounds what this instance downloads for WithStandbys in barrier
// mode, in bytes per second; the default is 64 MiB. A copy whose download takes
// longer than a checkpoint interval goes on with the newest checkpoint. Takeovers
// are not bounded. Neither Kafka Streams nor Flink has a counterpart.
func WithStandbyRate(bytes int64) Option { return func(c *runtime.Config) { c.StandbyRate = bytes } }
