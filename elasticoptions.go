package tidegate

import (
	"maps"

	"github.com/tidegate/tidegate/runtime"
)

// WithStaticMembership makes the instance a static member of the consumer group,
// by its name (WithInstanceName, or what is kept in the locked state folder); the
// default is that it is none (Kafka's group.instance.id). A process that ends, by
// a crash or by the end of Run's context, and comes back within WithSessionTimeout
// gets the tasks that it had, which are nobody else's meanwhile, and fetches only
// what its state folder lacks. So a stop hands nothing over and makes no last
// checkpoint: in barrier mode the restart processes again what came after the last
// one, as after a crash. It suits short restarts with much state; the session timeout
// must be longer than they take, and an instance that is to go for good is missed for
// as long. An instance that fails leaves the group, so that others take over.
func WithStaticMembership() Option { return func(c *runtime.Config) { c.StaticMembership = true } }

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
