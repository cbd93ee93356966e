package runtime

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	stdruntime "runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tidegate/tidegate/checkpoint"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/internal/restart"
)

// Mode is the fault-tolerance protocol.
type Mode int

const (
	// Barrier: checkpoints by in-band barriers. The default.
	Barrier Mode = iota
	// Changelog: Kafka Streams' way, one changelog topic per store.
	Changelog
)

// String returns the mode's name.
func (m Mode) String() string {
	if m == Changelog {
		return "changelog"
	}
	return "barrier"
}

// Guarantee is what a read_committed consumer of the output can rely on.
type Guarantee int

const (
	// ExactlyOnce: every input record's effect is in state and output once.
	ExactlyOnce Guarantee = iota
	// AtLeastOnce: output outside transactions, repeated after a failure.
	AtLeastOnce
)

// OffsetReset says where a source starts that has no committed offset.
type OffsetReset int

const (
	// Earliest starts at the oldest record. The default.
	Earliest OffsetReset = iota
	// Latest starts at the end.
	Latest
)

// RepartitionTime says what event time is behind a repartition partition.
type RepartitionTime int

const (
	// SlowestUpstream: the smallest time of the upstream tasks. The default.
	SlowestUpstream RepartitionTime = iota
	// MaximumSeen: the highest timestamp seen in the partition.
	MaximumSeen
)

// FailureAction is the answer of a record-failure handler.
type FailureAction int

const (
	// Fail stops the application with the error; nothing is lost. The default.
	Fail FailureAction = iota
	// Skip drops the record and counts it.
	Skip
	// Retry starts the failed tasks again from the last checkpoint (in changelog
	// mode the last commit), as the restart strategy allows: they meet the record
	// again.
	Retry
)

// StoreKind selects the state engine.
type StoreKind int

const (
	// Pebble keeps state on local disk. The default.
	Pebble StoreKind = iota
	// Memory keeps state in memory.
	Memory
)

// Config is everything an application is started with; the root package's
// options fill it. Zero values take the documented defaults.
type Config struct {
	ApplicationID string
	Kafka         KafkaConfig
	Mode          Mode
	Guarantee     Guarantee
	Store         checkpoint.Store
	StoreErr      error // why there is no Store, of whom barrier mode is told

	// CommitInterval is changelog mode's: 100 ms, with AtLeastOnce 30 s.
	CommitInterval time.Duration
	// Standbys is how many instances keep a copy of the state of each task, beside
	// the one that runs it.
	Standbys int
	// Tags say where the instance runs, as "zone" → "a"; copies of a task's state
	// are placed apart. Barrier mode.
	Tags map[string]string
	// StandbyRate bounds what standbys download, in bytes per second.
	StandbyRate int64 // 64 MiB
	// MaxWarmups, ProbingInterval and, in changelog mode, AcceptableLag say how a
	// task with state moves to an instance without it.
	MaxWarmups      int           // 2
	AcceptableLag   int64         // 10000 records
	ProbingInterval time.Duration // 1 min
	// Unlogged are stores without a changelog.
	Unlogged []string
	// UncommittedBytes bounds the changes of stores that wait for a commit.
	UncommittedBytes int64 // 64 MiB

	CheckpointInterval time.Duration // 10 s
	CheckpointTimeout  time.Duration // 60 s
	ToleratedAborts    int           // taken as it is; tidegate.New begins with DefaultToleratedAborts
	RetainCheckpoints  int           // 3
	ControlLogRecords  int           // 10,000, between snapshots of the control log
	TransactionTimeout time.Duration // 10 min; in changelog mode 10 s or three commit intervals
	ExpectedRestart    time.Duration // 5 min
	SessionTimeout     time.Duration // 10 s
	ShutdownDeadline   time.Duration // 30 s
	IdleTimeout        time.Duration // 5 s
	ListTopicsEvery    time.Duration // 1 min; for sources by pattern, and topics that change
	RepartitionTime    RepartitionTime
	TaskIdle           time.Duration // 0: until caught up; below 0: not at all

	Workers      int    // GOMAXPROCS
	StateDir     string // os.TempDir()/tidegate
	InstanceName string // kept in the state folder
	// StaticMembership keeps the instance's place in the group over a restart.
	StaticMembership  bool
	StateStore        StoreKind
	CacheBytes        int64 // 64 MiB, all stores of the instance
	BlockCacheBytes   int64 // 128 MiB, all tasks, memtables included
	FetchBytes        int64 // 16 MiB fetched and not yet processed
	ProduceBytes      int64 // 8 MiB sent and not yet acknowledged
	AlignmentBytes    int64 // 16 MiB held behind barriers
	MemtableBytes     int64 // of Pebble, all tasks; 0: 8 MiB each. Given by MemoryBytes only
	MemoryBytes       int64 // a total for those from CacheBytes on that are not given; 0: none
	ReplicationFactor int16 // -1: the broker's default
	Compression       string
	OffsetReset       OffsetReset

	// StartFrom names the marked checkpoint of an earlier life with whose state a
	// new one begins.
	StartFrom string
	// RestoreFrom names a completed checkpoint to go back to; nil for the last.
	RestoreFrom     *int64
	AllowDuplicates bool
	AllowDropped    []string
	// AllowLost, AllowLostOf: output of any, or of these completed checkpoints is
	// given up when the broker ended its transaction.
	AllowLost   bool
	AllowLostOf []int64

	OnFailure     func(err error) FailureAction
	StateListener func(from, to State)
	// Restart says whether and when failed tasks start again; the zero value is
	// an exponential delay.
	Restart         restart.Strategy
	FailureListener func(Failure)
	Logger          *slog.Logger
	// TestRules switch protocol rules off; only test builds set them.
	TestRules TestRules

	// Err is an error of an option's argument.
	Err error

	maySkip bool // a failure handler was set
}

// KafkaConfig says how to reach the cluster. Sarama carries a *sarama.Config
// as any, so that this package does not import the client.
type KafkaConfig struct {
	Brokers []string
	Sarama  any
}

var validID = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,180}$`)

// DefaultToleratedAborts is how many checkpoints in a row may be aborted unless
// the user says otherwise. It is no zero value's default, since 0 is a choice.
const DefaultToleratedAborts = 2

// withDefaults fills what was left zero.
func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.CheckpointInterval, 10*time.Second)
	def(&c.CheckpointTimeout, 60*time.Second)
	def(&c.ListTopicsEvery, time.Minute)
	commit := 100 * time.Millisecond
	if c.Guarantee == AtLeastOnce {
		commit = 30 * time.Second
	}
	def(&c.CommitInterval, commit)
	def(&c.ProbingInterval, time.Minute)
	if c.MaxWarmups == 0 {
		c.MaxWarmups = 2
	}
	if c.AcceptableLag == 0 {
		c.AcceptableLag = 10_000
	}
	if c.Mode == Changelog {
		def(&c.TransactionTimeout, max(10*time.Second, 3*c.CommitInterval))
	}
	def(&c.TransactionTimeout, 10*time.Minute)
	def(&c.ExpectedRestart, 5*time.Minute)
	def(&c.SessionTimeout, 10*time.Second)
	def(&c.ShutdownDeadline, 30*time.Second)
	def(&c.IdleTimeout, 5*time.Second)
	c.divideMemory()
	bytes := func(b *int64, mib int64) {
		if *b == 0 {
			*b = mib << 20
		}
	}
	bytes(&c.CacheBytes, 64)
	bytes(&c.StandbyRate, 64)
	bytes(&c.UncommittedBytes, 64)
	bytes(&c.BlockCacheBytes, 128)
	bytes(&c.FetchBytes, 16)
	bytes(&c.ProduceBytes, 8)
	bytes(&c.AlignmentBytes, 16)
	if c.Workers == 0 {
		c.Workers = stdruntime.GOMAXPROCS(0)
	}
	if c.RetainCheckpoints == 0 {
		c.RetainCheckpoints = 3
	}
	if c.ControlLogRecords == 0 {
		c.ControlLogRecords = 10_000
	}
	if c.ReplicationFactor == 0 {
		c.ReplicationFactor = -1
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.maySkip = c.OnFailure != nil
	if c.OnFailure == nil {
		c.OnFailure = func(error) FailureAction { return Fail }
	}
	c.OnFailure = guardHandler(c.OnFailure, c.Logger)
	c.StateListener = guardListener(c.StateListener, c.Logger)
	c.FailureListener = guardFailures(c.FailureListener, c.Logger)
	return c
}

// validateSizes refuses what is below zero; zero was replaced by the default.
func (c Config) validateSizes(bad func(format string, args ...any)) {
	for _, x := range []struct {
		option string
		value  int64
	}{
		{"WithCacheBytes(%d)", c.CacheBytes}, {"WithBlockCacheBytes(%d)", c.BlockCacheBytes}, {"WithUncommittedBytes(%d)", c.UncommittedBytes}, {"WithAlignmentBytes(%d)", c.AlignmentBytes}, {"WithStandbyRate(%d)", c.StandbyRate},
		{"WithBufferBytes(%d, …)", c.FetchBytes}, {"WithBufferBytes(…, %d)", c.ProduceBytes},
		{"WithRetainedCheckpoints(%d)", int64(c.RetainCheckpoints)},
		{"WithControlLogRecords(%d)", int64(c.ControlLogRecords)},
	} {
		if x.value < 1 {
			bad(x.option+": want at least 1, or 0 for the default", x.value)
		}
	}
	for _, x := range []struct {
		option string
		value  time.Duration
	}{
		{"WithTransactionTimeout(%v)", c.TransactionTimeout}, {"WithExpectedRestart(%v)", c.ExpectedRestart},
		{"WithShutdownDeadline(%v)", c.ShutdownDeadline}, {"WithIdleTimeout(%v)", c.IdleTimeout},
	} {
		if x.value < time.Millisecond {
			bad(x.option+": want at least 1ms, or 0 for the default", x.value)
		}
	}
	if c.ReplicationFactor < -1 {
		bad("WithReplicationFactor(%d): want 1 or more, or -1 for the broker's default", c.ReplicationFactor)
	}
}

// validateChoices refuses values that are none of an option's constants.
func (c Config) validateChoices(bad func(format string, args ...any)) {
	if c.Mode != Barrier && c.Mode != Changelog {
		bad("WithMode(%d): want Barrier or Changelog", int(c.Mode))
	}
	if c.Guarantee != ExactlyOnce && c.Guarantee != AtLeastOnce {
		bad("WithGuarantee(%d): want ExactlyOnce or AtLeastOnce", int(c.Guarantee))
	}
	if c.StateStore != Pebble && c.StateStore != Memory {
		bad("WithStateStore(%d): want Pebble or Memory", int(c.StateStore))
	}
	if c.OffsetReset != Earliest && c.OffsetReset != Latest {
		bad("WithOffsetReset(%d): want Earliest or Latest", int(c.OffsetReset))
	}
	if c.RepartitionTime != SlowestUpstream && c.RepartitionTime != MaximumSeen {
		bad("WithRepartitionTime(%d): want SlowestUpstream or MaximumSeen", int(c.RepartitionTime))
	}
	if err := c.Restart.Check(); err != nil {
		bad("WithRestartStrategy: %w", err)
	}
	if _, err := kafka.ParseCodec(c.Compression); err != nil {
		bad("WithCompression(%q): %w", c.Compression, err)
	}
}

// validatePlacement checks what says where tasks and copies of their state go.
func (c Config) validatePlacement(bad func(format string, args ...any)) {
	if c.Standbys < 0 {
		bad("WithStandbys(%d): want 0 or more", c.Standbys)
	}
	if c.MaxWarmups < 1 {
		bad("WithMaxWarmups(%d): want at least 1, or 0 for the default; math.MaxInt limits nothing, and in changelog mode WithAcceptableLag(math.MaxInt64) moves tasks without warm-ups", c.MaxWarmups)
	}
	if c.ProbingInterval < time.Millisecond {
		bad("WithProbingInterval(%v): want at least 1ms, or 0 for the default", c.ProbingInterval)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Tags)) {
		if k == "" || c.Tags[k] == "" {
			bad("WithTags(%q: %q): want a name and a value", k, c.Tags[k])
		}
	}
}

// guardHandler makes a failure handler that panics one that says Fail.
func guardHandler(f func(error) FailureAction, log *slog.Logger) func(error) FailureAction {
	return func(err error) (answer FailureAction) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("the failure handler panicked; the record counts as failed", "panic", p, "record", err, "stack", string(debug.Stack()))
				answer = Fail
			}
		}()
		return f(err)
	}
}

// guardListener keeps a listener's panic from the goroutines that report to it.
func guardListener(f func(from, to State), log *slog.Logger) func(from, to State) {
	if f == nil {
		return nil
	}
	return func(from, to State) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("the state listener panicked", "from", from.String(), "to", to.String(), "panic", p, "stack", string(debug.Stack()))
			}
		}()
		f(from, to)
	}
}

// validate checks the options together and names what contradicts what.
func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.ApplicationID == "" {
		bad("WithApplicationID is required: it names the consumer group, the internal topics and the checkpoints")
	} else if !validID.MatchString(c.ApplicationID) {
		bad("application id %q: use 1 to 180 letters, digits, dots, underscores or hyphens (it is part of topic names)", c.ApplicationID)
	}
	if len(c.Kafka.Brokers) == 0 {
		bad("WithBrokers is required: give at least one host:port")
	}
	if c.Mode == Changelog {
		c.validateChangelog(bad)
	}
	switch {
	case c.Mode != Barrier:
	case c.StoreErr != nil:
		bad("%w", c.StoreErr)
	case c.Store == nil:
		bad("barrier mode needs WithCheckpointStore or WithCheckpointDir: state and positions are kept there")
	}
	if c.CheckpointInterval < 10*time.Millisecond {
		bad("WithCheckpointInterval(%v): want at least 10ms", c.CheckpointInterval)
	}
	if c.CheckpointTimeout < c.CheckpointInterval/10 || c.CheckpointTimeout < 100*time.Millisecond {
		bad("WithCheckpointTimeout(%v): want at least 100ms and a tenth of WithCheckpointInterval(%v)", c.CheckpointTimeout, c.CheckpointInterval)
	}
	if c.ToleratedAborts < 0 {
		bad("WithToleratedAborts(%d): want 0 or more", c.ToleratedAborts)
	}
	if c.SessionTimeout < 500*time.Millisecond {
		bad("WithSessionTimeout(%v): want at least 500ms (brokers enforce group.min.session.timeout.ms, 6s unless changed)", c.SessionTimeout)
	}
	if c.Workers < 1 {
		bad("WithWorkers(%d): want at least 1", c.Workers)
	}
	if c.InstanceName != "" && !validID.MatchString(c.InstanceName) {
		bad("WithInstanceName(%q): use 1 to 180 letters, digits, dots, underscores or hyphens (it is part of transactional ids)", c.InstanceName)
	}
	for _, b := range c.Kafka.Brokers {
		if b == "" {
			bad("WithBrokers: a broker's address is empty")
		}
	}
	c.validateSizes(bad)
	c.validateMemory(bad)
	c.validateChoices(bad)
	c.validatePlacement(bad)
	if c.StartFrom != "" {
		if err := checkStartFrom(c.StartFrom); err != nil {
			bad("%w", err)
		}
	}
	if c.AllowDuplicates && c.RestoreFrom == nil {
		bad("AllowDuplicates is an argument of RestoreFrom(n, AllowDuplicates): name the checkpoint")
	}
	if c.RestoreFrom != nil && !c.AllowDuplicates {
		bad("RestoreFrom(%d): output after that checkpoint is already committed and would be written again; say RestoreFrom(%d, AllowDuplicates) to accept that", *c.RestoreFrom, *c.RestoreFrom)
	}
	return errors.Join(errs...)
}
