package tidegate

import (
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/runtime"
)

// Option configures an App. Options are validated together by New.
type Option func(*runtime.Config)

// Mode is the fault-tolerance protocol of an application.
type Mode = runtime.Mode

const (
	// Barrier takes checkpoints by in-band barriers, as Flink does. The default.
	Barrier = runtime.Barrier
	// Changelog logs every state change to a topic, as Kafka Streams does.
	Changelog = runtime.Changelog
)

// Guarantee is what a read_committed consumer of the output can rely on
// (Kafka Streams' processing.guarantee).
type Guarantee = runtime.Guarantee

const (
	// ExactlyOnce puts each input record's effect into state and output once.
	ExactlyOnce = runtime.ExactlyOnce
	// AtLeastOnce may repeat output after a failure.
	AtLeastOnce = runtime.AtLeastOnce
)

// FailureAction is the answer of a record-failure handler.
type FailureAction = runtime.FailureAction

const (
	// Fail stops the application with the error; nothing is lost. The default.
	Fail = runtime.Fail
	// Skip drops the record and counts it in Health.Skipped.
	Skip = runtime.Skip
	// Retry starts the failed tasks again from the last checkpoint (in Changelog
	// mode the last commit), as WithRestartStrategy says: they meet the record
	// again. For functions that fail because of something else than the record.
	Retry = runtime.Retry
)

// StoreKind selects the engine that keeps a task's state.
type StoreKind = runtime.StoreKind

const (
	// Pebble keeps state on the local disk, larger than memory. The default.
	Pebble = runtime.Pebble
	// Memory keeps state in memory; it is checkpointed all the same.
	Memory = runtime.Memory
)

// OffsetReset says where a source starts that has no committed offset (Kafka
// Streams' auto.offset.reset).
type OffsetReset = runtime.OffsetReset

const (
	// Earliest starts at the oldest record. The default.
	Earliest = runtime.Earliest
	// Latest starts at the end.
	Latest = runtime.Latest
)

// WithApplicationID names the application: its consumer group, internal topics
// and checkpoints. Required; letters, digits, dots, underscores and hyphens
// (Kafka Streams' application.id).
func WithApplicationID(id string) Option {
	return func(c *runtime.Config) { c.ApplicationID = id }
}

// WithBrokers gives the bootstrap brokers as host:port. Required.
func WithBrokers(brokers ...string) Option {
	return func(c *runtime.Config) { c.Kafka.Brokers = brokers }
}

// WithMode selects the protocol; the default is Barrier. In Changelog mode every
// state change goes to a topic per store, and output, state and source offsets
// commit in one transaction per instance and WithCommitInterval, as in Kafka
// Streams; the checkpoint options have no effect then. State of one mode is not
// read by the other: docs/guide/modes.md.
func WithMode(m Mode) Option { return func(c *runtime.Config) { c.Mode = m } }

// WithGuarantee selects the delivery guarantee; the default is ExactlyOnce.
func WithGuarantee(g Guarantee) Option { return func(c *runtime.Config) { c.Guarantee = g } }

// WithCheckpointStore says where checkpoints are kept (Flink's
// state.checkpoints.dir): checkpoint/s3.New or checkpoint/dir.New. Required in
// barrier mode.
func WithCheckpointStore(s checkpoint.Store) Option {
	return func(c *runtime.Config) { c.Store = s }
}

// WithCheckpointInterval sets the time from one checkpoint's start to the
// next's; the default is 10 s. Output becomes visible to read_committed
// consumers about an interval plus the checkpoint's duration after its input,
// and an open transaction holds back the last stable offset of the sink
// partitions it wrote for as long (Flink's execution.checkpointing.interval,
// Kafka Streams' commit.interval.ms).
func WithCheckpointInterval(d time.Duration) Option {
	return func(c *runtime.Config) { c.CheckpointInterval = d }
}

// WithCommitInterval sets the time between commits in changelog mode; the
// default is 100 ms, with AtLeastOnce 30 s (Kafka Streams' commit.interval.ms).
// Output becomes visible to read_committed consumers about an interval after its
// input, per repartition step on its way.
func WithCommitInterval(d time.Duration) Option {
	return func(c *runtime.Config) { c.CommitInterval = d }
}

// WithStandbys sets how many instances keep a copy of each task's state beside the
// one that runs it; the default is 0. When that one is lost, its task goes to one
// with a copy. In barrier mode they download the new files of each completed
// checkpoint, so that a takeover downloads nothing; in changelog mode they follow
// the changelogs, and read only what they have not yet read (Kafka Streams'
// num.standby.replicas). All instances should say the same.
func WithStandbys(n int) Option { return func(c *runtime.Config) { c.Standbys = n } }

// WithoutChangelog names stores that have no changelog in changelog mode. Such a
// store is empty whenever its task starts, on whatever instance: only for what
// may be forgotten, as a cache (Kafka Streams' withLoggingDisabled). It has no
// effect in barrier mode, where checkpoints hold all stores. All instances must
// say the same.
func WithoutChangelog(stores ...string) Option {
	return func(c *runtime.Config) { c.Unlogged = append(c.Unlogged, stores...) }
}

// WithUncommittedBytes bounds the state changes that wait in memory for a commit
// in changelog mode, of all tasks of the instance together; the default is
// 64 MiB. Above it an interval ends early (Kafka Streams'
// statestore.uncommitted.max.bytes).
func WithUncommittedBytes(n int64) Option {
	return func(c *runtime.Config) { c.UncommittedBytes = n }
}

// WithCheckpointTimeout aborts a checkpoint that is not complete after d; the
// default is 60 s.
func WithCheckpointTimeout(d time.Duration) Option {
	return func(c *runtime.Config) { c.CheckpointTimeout = d }
}

// WithToleratedAborts sets how many checkpoints in a row may be aborted before
// that counts as a failure; the default is 2.
func WithToleratedAborts(n int) Option {
	return func(c *runtime.Config) { c.ToleratedAborts = n }
}

// WithRetainedCheckpoints sets how many completed checkpoints are kept; the
// default is 3.
func WithRetainedCheckpoints(n int) Option {
	return func(c *runtime.Config) { c.RetainCheckpoints = n }
}

// WithControlLogRecords sets after how many records, in barrier mode, the control
// log is summed up in a snapshot and trimmed to it; the default is 10,000, which
// ten instances write in some eight minutes of checkpoints at an interval of one
// second. 16 MiB of records have the same effect. A new instance reads at most
// about as much before it joins; who has not read that far a session timeout
// after the snapshot goes on as a new instance. Less than what two checkpoints
// write is only good for tests. (Kafka Streams has no such log; Flink keeps what
// corresponds to it in the high-availability store.)
func WithControlLogRecords(n int) Option {
	return func(c *runtime.Config) { c.ControlLogRecords = n }
}

// WithTransactionTimeout sets how long the broker keeps an open transaction;
// the default is 10 min. It must exceed (interval + checkpoint timeout) ×
// (tolerated aborts + 1) + session timeout + expected restart and must not
// exceed the broker's transaction.max.timeout.ms; both are checked at start.
func WithTransactionTimeout(d time.Duration) Option {
	return func(c *runtime.Config) { c.TransactionTimeout = d }
}

// WithExpectedRestart is the longest time for which the whole application may
// be down between a checkpoint's decision and its commit; the default is 5 min.
func WithExpectedRestart(d time.Duration) Option {
	return func(c *runtime.Config) { c.ExpectedRestart = d }
}

// WithSessionTimeout sets after what silence an instance counts as lost; the
// default is 10 s (Kafka's session.timeout.ms, Flink's heartbeat.timeout).
func WithSessionTimeout(d time.Duration) Option {
	return func(c *runtime.Config) { c.SessionTimeout = d }
}

// WithShutdownDeadline bounds how long a stopping instance waits: in barrier mode
// until its tasks were handed over at a checkpoint that is committed, or, if all
// instances stop, for that last checkpoint; in changelog mode for its last commit.
// The default is 30 s. At the deadline it goes anyway, which the others take for a
// failure. Give the process manager more time than that (the timeout of Kafka
// Streams' close; Flink's stop with a savepoint has none).
func WithShutdownDeadline(d time.Duration) Option {
	return func(c *runtime.Config) { c.ShutdownDeadline = d }
}

// WithIdleTimeout sets after what silence a source partition no longer holds
// back event time; the default is 5 s (Flink's withIdleness).
func WithIdleTimeout(d time.Duration) Option {
	return func(c *runtime.Config) { c.IdleTimeout = d }
}

// WithWorkers sets how many goroutines run tasks; the default is GOMAXPROCS
// (Kafka Streams' num.stream.threads).
func WithWorkers(n int) Option { return func(c *runtime.Config) { c.Workers = n } }

// WithStateDir sets the local folder for state; the default is a folder of the
// application id under the system's temporary folder, where several instances on
// one machine find one each. One process at a time may use a folder; give it one
// that outlasts a restart, so that its state need not be downloaded again.
func WithStateDir(path string) Option { return func(c *runtime.Config) { c.StateDir = path } }

// WithInstanceName sets the stable part of the instance's identity, by which a
// process that comes back is known; the default is drawn once and kept in the state
// folder (Kafka's group.instance.id, with WithStaticMembership).
func WithInstanceName(name string) Option {
	return func(c *runtime.Config) { c.InstanceName = name }
}

// WithStateStore selects the state engine; the default is Pebble. A checkpoint is
// restored by the engine that wrote it: all instances use the same, and another
// one needs a new application id.
func WithStateStore(k StoreKind) Option { return func(c *runtime.Config) { c.StateStore = k } }

// WithCacheBytes bounds the write-back caches of all tasks of the instance
// together; the default is 64 MiB. The caches never hide updates from
// downstream operators.
func WithCacheBytes(n int64) Option { return func(c *runtime.Config) { c.CacheBytes = n } }

// WithBlockCacheBytes bounds the cache of uncompressed blocks of state on disk,
// for all tasks of the instance together, their memtables included; the default
// is 128 MiB. Reads of state that is larger go to the disk, or to the operating
// system's own cache. (Kafka Streams users set a shared RocksDB cache in a
// RocksDBConfigSetter; without one, each store has 50 MB.)
func WithBlockCacheBytes(n int64) Option {
	return func(c *runtime.Config) { c.BlockCacheBytes = n }
}

// WithBufferBytes bounds what is fetched and not yet processed (default
// 16 MiB) and what is sent and not yet acknowledged (default 8 MiB).
func WithBufferBytes(fetch, produce int64) Option {
	return func(c *runtime.Config) { c.FetchBytes, c.ProduceBytes = fetch, produce }
}

// WithAlignmentBytes bounds what waits in memory behind barriers; the default
// is 16 MiB. What exceeds it is dropped and read again from the repartition
// topic.
func WithAlignmentBytes(n int64) Option { return func(c *runtime.Config) { c.AlignmentBytes = n } }

// WithMemory bounds, in bytes, what the instance buffers and caches in memory: what
// is fetched and not processed, sent and not acknowledged, waiting behind barriers
// or for a commit, the write-back caches, and Pebble's memtables and blocks. What
// WithBufferBytes, WithAlignmentBytes, WithCacheBytes, WithBlockCacheBytes and
// WithUncommittedBytes do not give is divided; New refuses a total below 8 MiB, or below what they give.
// Whatever the input's skew and bursts, tasks then wait instead of buffering more.
// There is no total by default: the defaults of the single bounds add up to 240
// MiB, in changelog mode 288 MiB, and 8 MiB for each task with much to write.
//
// User code, what is being decoded or uploaded, and Go's garbage come on top: give
// the process about twice the total, 100 MiB and the size of WithStateStore(Memory)
// state, and set GOMEMLIMIT somewhat below that. Each partition may have fetched
// 64 KiB in any case. (Flink's taskmanager.memory.process.size; Kafka Streams has
// statestore.cache.max.bytes and input.buffer.max.bytes.)
func WithMemory(n int64) Option { return func(c *runtime.Config) { c.MemoryBytes = n } }

// WithReplicationFactor sets the replication factor of internal topics; the
// default, -1, is the broker's.
func WithReplicationFactor(n int16) Option {
	return func(c *runtime.Config) { c.ReplicationFactor = n }
}

// WithCompression sets the codec of produced batches: "none" (the default),
// "gzip", "snappy", "lz4" or "zstd".
func WithCompression(codec string) Option { return func(c *runtime.Config) { c.Compression = codec } }

// WithOffsetReset says where sources start that have no committed offset; the
// default is Earliest. A source's own option overrides it.
func WithOffsetReset(r OffsetReset) Option {
	return func(c *runtime.Config) { c.OffsetReset = r }
}

// DuplicatesAllowed is the type of AllowDuplicates.
type DuplicatesAllowed struct{}

// AllowDuplicates acknowledges that going back to an older checkpoint writes
// the output after it a second time.
var AllowDuplicates DuplicatesAllowed

// RestoreFrom starts from an older completed checkpoint instead of the last
// one. Output after it is already committed and will be written again: the
// doubled span is logged, and later checkpoints are retired. It is done once: a
// start that still has the option goes on from the last checkpoint and says so.
func RestoreFrom(checkpoint int64, _ DuplicatesAllowed) Option {
	return func(c *runtime.Config) { c.RestoreFrom, c.AllowDuplicates = &checkpoint, true }
}

// AllowLostOutput goes on when output of a completed checkpoint is lost because the
// broker ended its transaction before it was committed: all instances were down, or
// out of reach, for longer than the transaction timeout. With checkpoints only for
// these, without any for whatever comes. The default is an error that names the
// checkpoint, the transaction, its topics and the time span. State and offsets have
// moved on, so what was lost is not written again, unless RestoreFrom goes back as
// well. (In Flink such a job recovers in silence, without that output.)
func AllowLostOutput(checkpoints ...int64) Option {
	return func(c *runtime.Config) {
		c.AllowLost = c.AllowLost || len(checkpoints) == 0
		c.AllowLostOf = append(c.AllowLostOf, checkpoints...)
	}
}

// StartFrom begins a new life with the state of an earlier one: a completed,
// committed checkpoint that the store still holds, named "last" or LIFE/N, as the
// command tidegate repair lists them. It applies when the application has no
// control log any more: after that or a repartition topic was lost, or after
// tidegate upgrade --execute removed them to change the topology. Inputs go on at
// the checkpoint's offsets; output that later checkpoints committed is written
// again, and the log says for which input. State goes to the steps of the same
// names; what the topology no longer has is refused unless AllowDroppedState names
// it, and steps that are new begin empty. A start that finds a control log with
// checkpoints ignores the option and says so. (Flink: starting a job from a
// savepoint; AllowDroppedState is its allowNonRestoredState.)
func StartFrom(checkpoint string) Option {
	return func(c *runtime.Config) { c.StartFrom = checkpoint }
}

// AllowDroppedState lets the application start although the checkpoint holds
// state of operators with these names, which the topology no longer has.
func AllowDroppedState(names ...string) Option {
	return func(c *runtime.Config) { c.AllowDropped = append(c.AllowDropped, names...) }
}

// WithFailureHandler decides what happens to a record that cannot be decoded
// or whose user function failed or panicked. The default fails (Kafka Streams'
// DeserializationExceptionHandler and ProcessingExceptionHandler).
func WithFailureHandler(f func(err error) FailureAction) Option {
	return func(c *runtime.Config) { c.OnFailure = f }
}

// WithRestartStrategy says whether and when tasks start again that failed because
// of a broker, the checkpoint store, a disk, a schema registry, or with Retry as
// the answer of the failure handler; see Cause. The default is
// ExponentialDelay(ExponentialDelayOptions{}). Each process counts its own
// failures. An application that gives up ends with an error that wraps the last
// failure, and leaves state and checkpoints as they are (Flink's
// restart-strategy; Kafka Streams' StreamsUncaughtExceptionHandler, where
// REPLACE_THREAD restarts without delay and limit).
func WithRestartStrategy(s RestartStrategy) Option {
	return func(c *runtime.Config) { c.Restart = s }
}

// WithFailureListener is told of each failure of tasks of this process, with its
// cause and what follows; it must not block. The default is none.
func WithFailureListener(f func(Failure)) Option {
	return func(c *runtime.Config) { c.FailureListener = f }
}

// WithStateListener is told of each change of state; it must not block.
func WithStateListener(f func(from, to State)) Option {
	return func(c *runtime.Config) { c.StateListener = f }
}

// WithLogger sets the logger; the default is slog.Default().
func WithLogger(l *slog.Logger) Option { return func(c *runtime.Config) { c.Logger = l } }
