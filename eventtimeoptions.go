package tidegate

import (
	"time"

	"github.com/tidegate/tidegate/runtime"
)

// RepartitionTime says what event time is behind a repartition topic.
type RepartitionTime = runtime.RepartitionTime

const (
	// SlowestUpstream: the time of a repartition partition is the smallest time
	// of the upstream tasks that write it, idle ones left out, so that a task
	// that reads ahead does not make the records of a slower one late (as
	// Flink's watermarks). The default.
	SlowestUpstream = runtime.SlowestUpstream
	// MaximumSeen: the highest timestamp seen in the partition, whoever wrote it
	// (Kafka Streams' stream time).
	MaximumSeen = runtime.MaximumSeen
)

// WithRepartitionTime selects what event time is behind a repartition topic;
// the default is SlowestUpstream. All instances of an application should say
// the same: a task may move from one to another.
func WithRepartitionTime(r RepartitionTime) Option {
	return func(c *runtime.Config) { c.RepartitionTime = r }
}

// WithMaxTaskIdle says how long a task with several inputs waits for one that
// has nothing queued, before it goes on with the others (Kafka Streams'
// max.task.idle.ms). 0, the default, waits until that input is read to its end;
// a positive d waits so much longer for what may still be written; a negative
// one does not wait, so that the order in which inputs are read depends on
// which fetch came first.
func WithMaxTaskIdle(d time.Duration) Option { return func(c *runtime.Config) { c.TaskIdle = d } }
