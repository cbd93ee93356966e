package tidegate

import (
	"github.com/tidegate/tidegate/operators"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// ReuseSourceTopics lets tables that are read from a topic have that topic as
// their changelog in changelog mode, instead of a copy of it (Kafka Streams'
// topology.optimization with reuse.ktable.source.topics). It is off by default.
// In barrier mode it changes nothing but the topology's fingerprint.
//
// The topic must have cleanup.policy=compact, and not compact,delete, and keep
// tombstones for a day (delete.retention.ms, Kafka's default): else the App is
// refused at its start. A restore reads it from its start to the committed
// offset. A table with a timestamp option, or with FromLatest, keeps a changelog
// of its own, and so do versioned tables.
//
// After a restore on a machine without local state two things may differ. Where
// the topic was compacted, a row whose next version the table has yet to read is
// missing until it reads it. And where the failure handler chose Skip for a record
// that failed in a step behind the table, its row is in the table.
//
// Switching it on is possible at any time. Switching it off, for an application
// that ran with it in changelog mode, takes a reset.
func ReuseSourceTopics() BuilderOption { return func(b *Builder) { b.reuse = true } }

// fromSource says how rows of a table are made of its topic's records; nil where
// the table has a changelog of its own.
func fromSource[K, V any](
	b *Builder, o sourceOptions, ks serde.Serde[K], vs serde.Serde[V],
) func(*record.Raw) ([]byte, []byte, bool) {
	if !b.reuse || len(o.timestamps) > 0 || o.reset == topology.ResetLatest || missing(ks) || missing(vs) {
		return nil
	}
	return operators.TableRow(ks, vs)
}
