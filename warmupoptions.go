package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/runtime"
)

// WithMaxWarmups bounds of how many tasks instances fetch the state at a time
// because the tasks are to move, in all instances together and beside those of
// WithStandbys; the default is 2. When an instance joins, a task with state stays
// where it runs until the new one has its state: in changelog mode it reads the
// changelogs, in barrier mode it downloads the last checkpoint's files, where tasks
// with less than 8 MiB do not count. More at a time make the move shorter and load
// broker or store and instances more (Kafka Streams' max.warmup.replicas). All
// instances should say the same.
func WithMaxWarmups(n int) Option { return func(c *runtime.Config) { c.MaxWarmups = n } }

// WithAcceptableLag sets how many changelog records an instance may have yet to
// read when it takes over a task that runs on another, in changelog mode; the
// default is 10000. It reads the rest while nobody processes the task's input, so
// this bounds how long output stands still. A task whose changelogs are not longer
// moves without being followed before; with math.MaxInt64 all do (Kafka Streams'
// acceptable.recovery.lag). All instances should say the same.
func WithAcceptableLag(records int64) Option {
	return func(c *runtime.Config) { c.AcceptableLag = records }
}

// WithProbingInterval sets after what time at most an instance asks for the tasks
// that it follows and is near in, in changelog mode; the default is 1 minute. It
// asks at once when it is near in all that it was told to follow, since asking
// costs little here: tasks that do not move go on. In barrier mode it is after what
// time at most the next tasks are moved that WithMaxWarmups held back; they are at
// once when those before have moved (Kafka Streams' probing.rebalance.interval.ms,
// there 10 minutes).
func WithProbingInterval(d time.Duration) Option {
	return func(c *runtime.Config) { c.ProbingInterval = d }
}
