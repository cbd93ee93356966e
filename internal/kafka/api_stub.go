package kafka

import (
	"context"
	"log/slog"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

const stub = "kafka: body follows"

// ---------------------------------------------------------------- client

// Config says how to reach Kafka.
type Config struct {
	// Brokers are the addresses to start from, host:port. Required.
	Brokers []string
	// Sarama carries TLS, SASL, client id and network settings; it is copied.
	// nil means sarama.NewConfig(). Producer and Consumer settings are ignored.
	Sarama *sarama.Config
	// Guard, when set, is asked before every dial; an error refuses it.
	Guard func(address string) error
	// Logger gets connection trouble at Warn and Debug. nil: discarded.
	Logger *slog.Logger
}

// Loopback is a Guard for tests: it refuses every address but loopback.
func Loopback(address string) error { panic(stub) }

// Client owns the metadata cache and makes the roles.
type Client struct{}

// NewClient checks the configuration. It does not connect: use Admin.Ping.
func NewClient(cfg Config) (*Client, error) { panic(stub) }

// Close closes every role made from the client and waits for their goroutines.
func (c *Client) Close() error { panic(stub) }

func (c *Client) Admin() *Admin                                        { panic(stub) }
func (c *Client) Transactions() *Transactions                          { panic(stub) }
func (c *Client) NewFetcher(cfg FetcherConfig) *Fetcher                { panic(stub) }
func (c *Client) NewWriter(cfg WriterConfig) *Writer                   { panic(stub) }
func (c *Client) NewGroup(cfg GroupConfig) (*Group, error)             { panic(stub) }
func (c *Client) NewLogReader(cfg LogReaderConfig) (*LogReader, error) { panic(stub) }
func (c *Client) NewLogWriter(topic string) *LogWriter                 { panic(stub) }

// ---------------------------------------------------------------- errors

// Class says what to do about an error.
type Class uint8

const (
	ClassRetriable     Class = iota + 1 // the same request may succeed later
	ClassAbortable                      // the transaction is lost or must be aborted
	ClassFenced                         // somebody else owns the producer or membership
	ClassCorrupted                      // data lost or damaged on the broker
	ClassInvalid                        // the user's configuration or data
	ClassAuthorization                  // an ACL or credentials are missing
	ClassFatal                          // stop
)

// Classify returns the class of err (of the Kafka error code or network error in its chain).
func Classify(err error) Class { panic(stub) }

// Code returns the Kafka error code in err's chain; false for network errors.
func Code(err error) (int16, bool) { panic(stub) }

// InDoubt reports whether the request that gave err may have been carried out.
func InDoubt(err error) bool { panic(stub) }

// Error is an answer of Kafka with what was attempted.
type Error struct {
	Op    string             // "produce", "init producer id", ...
	TP    ids.TopicPartition // zero when it is not about one
	Class Class
	Doubt bool // the request may have been carried out
	Err   error
}

func (e *Error) Error() string { panic(stub) }
func (e *Error) Unwrap() error { panic(stub) }

// ---------------------------------------------------------------- fetch

type Isolation int8

const (
	ReadUncommitted Isolation = iota // repartition topics, control log
	ReadCommitted                    // external inputs: to the last stable offset, aborted records left out
)

type FetcherConfig struct {
	MaxBytes          int32         // per request; default 16 MiB
	PartitionMaxBytes int32         // per partition and request; default 1 MiB
	MaxWait           time.Duration // how long a broker may hold an answer; default 50 ms
	// OnState, when set, hears of leaders that cannot be reached (err != nil) and again can (nil).
	OnState func(broker string, err error)
}

type Fetcher struct{}

func (f *Fetcher) Close() error { panic(stub) }

type SubscribeOptions struct {
	TP        ids.TopicPartition
	Isolation Isolation
	Offset    int64 // the first offset wanted
	MaxBytes  int   // bound on what is handed out and not returned; default 4 MiB
	Paused    bool
	Sink      func(*Batch) // called on a fetch goroutine; must not block
}

// Subscribe starts fetching a partition; one subscription per partition and isolation.
func (f *Fetcher) Subscribe(o SubscribeOptions) (*Subscription, error) { panic(stub) }

type Subscription struct{}

// Seek moves the position and returns the new generation; what was handed out before keeps its old one.
// All credit is restored.
func (s *Subscription) Seek(offset int64) (generation uint64) { panic(stub) }
func (s *Subscription) Pause()                                { panic(stub) }
func (s *Subscription) Resume()                               { panic(stub) }

// Want asks for a Batch from the next answer even if nothing changed (R13: is this still the end?).
func (s *Subscription) Want()              { panic(stub) }
func (s *Subscription) Generation() uint64 { panic(stub) }
func (s *Subscription) Close()             { panic(stub) }

// Batch is what one answer holds for one partition. It comes when there are records, the position or
// an end moved, on the first answer after Subscribe or Seek, after Want, or with Err.
type Batch struct {
	Sub              *Subscription
	TP               ids.TopicPartition
	Generation       uint64
	FirstOffset      int64 // position before; NextOffset: position after, past skipped and aborted ones
	NextOffset       int64
	Records          []record.Raw
	BatchStarts      []int32 // indices in Records where a Kafka record batch begins
	End              int64   // ReadCommitted: last stable offset, ReadUncommitted: high watermark
	LastStableOffset int64
	HighWatermark    int64
	LogStart         int64
	Aborted          int       // records left out because their transaction was aborted
	AskedAt          time.Time // request sent
	FetchedAt        time.Time // answer received
	Bytes            int       // what it costs of the subscription's MaxBytes
	Err              error     // *OffsetOutOfRangeError, or *Error (authorization, topic gone): fetching stopped until Seek
}

// CaughtUp reports whether the position after the batch is the end of the partition.
func (b *Batch) CaughtUp() bool { panic(stub) }

// Credit gives the bytes back before Release (records that wait for a barrier do not count).
func (b *Batch) Credit() { panic(stub) }

// Release gives the bytes back and recycles the Batch and its slices; keys, values and headers stay valid.
func (b *Batch) Release() { panic(stub) }

type OffsetOutOfRangeError struct {
	TP                    ids.TopicPartition
	Offset, LogStart, End int64
}

func (e *OffsetOutOfRangeError) Error() string { panic(stub) }

// ---------------------------------------------------------------- produce

type WriterConfig struct {
	Compression      sarama.CompressionCodec
	CompressionLevel int
	BatchBytes       int           // Builder.Full from here; default 256 KiB
	MaxInFlightBytes int           // Writer.Full from here; default 32 MiB
	MaxRequestBytes  int           // batches combined in one request; default 1 MiB
	RequestTimeout   time.Duration // broker side; default 10 s
	UnknownTopicFor  time.Duration // how long an unknown topic is retried; default 30 s
	OnState          func(broker string, err error)
}

type Writer struct{}

// NewBatch takes an empty builder from the pool.
func (w *Writer) NewBatch(tp ids.TopicPartition) *Builder { panic(stub) }

// Full reports whether callers should stop producing until Room. Enqueue never blocks and never refuses.
func (w *Writer) Full() bool { panic(stub) }

// Room is closed when the writer is not Full (any more).
func (w *Writer) Room() <-chan struct{} { panic(stub) }
func (w *Writer) Close() error          { panic(stub) }

type ProducerOptions struct {
	ID    int64
	Epoch int16
	// TransactionalID, when set, makes the producer transactional: partitions are added to the transaction
	// before their first batch.
	TransactionalID string
	// OnFail hears the first definite error (*Error), once. The producer is dead then.
	OnFail func(error)
}

func (w *Writer) NewProducer(o ProducerOptions) *Producer { panic(stub) }

type Producer struct{}

// Enqueue hands a batch over; the builder must not be touched again. after (zero: nothing) must be acked first.
// An empty batch is recycled and returns the token of what was enqueued for the partition before.
func (p *Producer) Enqueue(b *Builder, after Token) Token { panic(stub) }

// Barrier calls done once when all that was enqueued so far is acknowledged (nil), or the producer failed or closed.
func (p *Producer) Barrier(done func(error)) { panic(stub) }

// Wait is Barrier for callers that may block.
func (p *Producer) Wait(ctx context.Context) error { panic(stub) }
func (p *Producer) Err() error                     { panic(stub) }

// Began returns the time before the request that began the transaction (AddPartitions or AddOffsets through
// Producer.AddOffsets), and false when nothing was sent.
func (p *Producer) Began() (time.Time, bool) { panic(stub) }

// AddOffsets adds the group to the transaction and writes the offsets in it.
func (p *Producer) AddOffsets(ctx context.Context, group string, offsets []Offset) error { panic(stub) }

// Partitions lists what was added to the transaction so far.
func (p *Producer) Partitions() []ids.TopicPartition { panic(stub) }

// Close abandons what is not acknowledged. Tokens and Barriers that are open fail.
func (p *Producer) Close() { panic(stub) }

// Token stands for all batches enqueued for one producer and partition up to a point. The zero Token is satisfied.
type Token struct{}

func (t Token) Acked() bool { panic(stub) }

// Builder collects the records of one record batch, copying them.
type Builder struct{}

func (b *Builder) TP() ids.TopicPartition { panic(stub) }

// Append adds a record; nil key or value is null; ts is milliseconds since the epoch.
func (b *Builder) Append(key, value []byte, headers record.Headers, ts int64) { panic(stub) }

// AppendTagged is Append with one header before the others.
func (b *Builder) AppendTagged(tag record.Header, key, value []byte, headers record.Headers, ts int64) {
	panic(stub)
}
func (b *Builder) Len() int   { panic(stub) }
func (b *Builder) Bytes() int { panic(stub) }
func (b *Builder) Full() bool { panic(stub) }

// Discard recycles a builder that is not enqueued.
func (b *Builder) Discard() { panic(stub) }

// ---------------------------------------------------------------- transactions

// Transactions sends transaction requests. All retry what is retriable until ctx ends.
type Transactions struct{}

// InitProducer draws an idempotent, non-transactional producer id (epoch 0).
func (t *Transactions) InitProducer(ctx context.Context) (id int64, epoch int16, err error) {
	panic(stub)
}

// Init sends InitProducerId. With InDoubt(err) the id must not be used again by this instance (R20).
func (t *Transactions) Init(ctx context.Context, transactionalID string, timeout time.Duration) (ids.TxnHandle, error) {
	panic(stub)
}
func (t *Transactions) AddPartitions(ctx context.Context, h ids.TxnHandle, tps []ids.TopicPartition) error {
	panic(stub)
}
func (t *Transactions) AddOffsets(ctx context.Context, h ids.TxnHandle, group string) error {
	panic(stub)
}

// CommitOffsets is TxnOffsetCommit with generation -1 and no member.
func (t *Transactions) CommitOffsets(ctx context.Context, h ids.TxnHandle, group string, offsets []Offset) error {
	panic(stub)
}

// End commits or aborts. nil: it is so, by this call or an earlier one. *Error with LostTransaction(err): codes 47, 48, 49, 90 (R23).
func (t *Transactions) End(ctx context.Context, h ids.TxnHandle, commit bool) error { panic(stub) }
func (t *Transactions) Describe(ctx context.Context, transactionalIDs ...string) (map[string]TxnState, error) {
	panic(stub)
}

// LostTransaction reports whether err says that the transaction is not there to be ended (R23).
func LostTransaction(err error) bool { panic(stub) }

type TxnState struct {
	Found      bool
	State      string // "Ongoing", "PrepareCommit", "CompleteCommit", "PrepareAbort", "CompleteAbort", "Empty", ...
	Handle     ids.TxnHandle
	Timeout    time.Duration
	Start      time.Time
	Partitions []ids.TopicPartition
}

// Committed reports PrepareCommit or CompleteCommit of the same producer id and epoch (R23).
func (s TxnState) Committed(h ids.TxnHandle) bool { panic(stub) }

// Offset is the next offset of a partition with the metadata stored beside it.
type Offset struct {
	TP       ids.TopicPartition
	Offset   int64
	Metadata string
}

// ---------------------------------------------------------------- admin

type Admin struct{}

// Ping proves that a broker answers; the error names the addresses and what to check.
func (a *Admin) Ping(ctx context.Context) error { panic(stub) }

type Topic struct {
	Name        string
	ID          [16]byte
	Exists      bool
	Partitions  int32
	Replication int
	Configs     map[string]string // only from DescribeTopics with configs
}

func (a *Admin) DescribeTopics(ctx context.Context, withConfigs bool, topics ...string) (map[string]Topic, error) {
	panic(stub)
}

// TopicSpec is what an internal topic must be.
type TopicSpec struct {
	Name        string
	Partitions  int32
	Replication int16             // -1: the broker's default
	Configs     map[string]string // InternalConfigs(...)
}

// InternalConfigs are R29's settings; maxMessageBytes 0 leaves the default.
func InternalConfigs(maxMessageBytes int) map[string]string { panic(stub) }

// EnsureTopics creates what is missing and verifies the rest; it returns the topics as they are.
// A difference is a *TopicMismatchError.
func (a *Admin) EnsureTopics(ctx context.Context, specs ...TopicSpec) (map[string]Topic, error) {
	panic(stub)
}

// VerifyTopics only verifies.
func (a *Admin) VerifyTopics(ctx context.Context, specs ...TopicSpec) error { panic(stub) }

type TopicDifference struct{ Topic, Setting, Want, Have string }
type TopicMismatchError struct{ Differences []TopicDifference }

func (e *TopicMismatchError) Error() string { panic(stub) }

// DeleteTopics deletes; one that is not there is no error.
func (a *Admin) DeleteTopics(ctx context.Context, topics ...string) error { panic(stub) }

// BrokerConfig reads one setting of a broker ("transaction.max.timeout.ms").
func (a *Admin) BrokerConfig(ctx context.Context, name string) (string, error) { panic(stub) }

const (
	Earliest   int64 = -2
	Latest     int64 = -1 // high watermark
	LastStable int64 = -100
)

// ListOffsets asks for Earliest, Latest, LastStable, or the first offset at or after a timestamp (ms).
// A timestamp behind the last record gives the end.
func (a *Admin) ListOffsets(ctx context.Context, at int64, tps ...ids.TopicPartition) (map[ids.TopicPartition]int64, error) {
	panic(stub)
}

// FetchOffsets reads committed offsets with RequireStable; absent partitions are absent. Code 88 is retried until ctx ends.
func (a *Admin) FetchOffsets(ctx context.Context, group string, tps ...ids.TopicPartition) (map[ids.TopicPartition]Offset, error) {
	panic(stub)
}

// CommitOffsets writes offsets outside a transaction. member zero: generation -1, which Kafka takes only while the group is empty.
func (a *Admin) CommitOffsets(ctx context.Context, group string, member Membership, offsets []Offset) error {
	panic(stub)
}

// DeleteRecords trims each partition below its offset.
func (a *Admin) DeleteRecords(ctx context.Context, below map[ids.TopicPartition]int64) error {
	panic(stub)
}
func (a *Admin) DescribeGroup(ctx context.Context, group string) (GroupDescription, error) {
	panic(stub)
}

type GroupDescription struct {
	State, ProtocolType, Protocol string
	Members                       []GroupMember
}

type GroupMember struct {
	MemberID, ClientID, Host string
	UserData, Assignment     []byte
}

// RequiredACLs lists what an application needs, one line each.
func RequiredACLs(application string, sources, sinks []string) []string { panic(stub) }

// ---------------------------------------------------------------- control log

type LogReaderConfig struct {
	Topic   string
	Offset  int64          // first offset wanted
	MaxWait time.Duration  // default 500 ms
	Sink    func(LogBatch) // on a goroutine of the reader; must not block
}

type LogReader struct{}

// Want asks for a LogBatch from the next answer even if nothing changed.
func (r *LogReader) Want()        { panic(stub) }
func (r *LogReader) Seek(o int64) { panic(stub) }
func (r *LogReader) Close() error { panic(stub) }

type LogRecord struct {
	Offset    int64
	Timestamp int64
	Value     []byte
}

// LogBatch: offsets [First, Next) were read; those without a record in Records are gaps.
type LogBatch struct {
	Records             []LogRecord
	First, Next         int64
	End, LogStart       int64
	AskedAt, AnsweredAt time.Time
	Err                 error // *OffsetOutOfRangeError: the log is shorter than what was read, or trimmed
}

type LogWriter struct{}

// Append writes one record with acks=all and returns its offset. It retries what was certainly not written
// until ctx ends; with InDoubt(err) it may have been written: repeat it with the same number.
func (w *LogWriter) Append(ctx context.Context, value []byte) (int64, error) { panic(stub) }
func (w *LogWriter) Close() error                                            { panic(stub) }

// ---------------------------------------------------------------- group

type Member struct {
	MemberID string
	UserData []byte
}

type GroupConfig struct {
	Group            string
	Protocol         string        // the assignor's name, versioned: "tidegate-1"
	Topics           []string      // source topics: listed in the subscription, their partition counts go to Plan
	SessionTimeout   time.Duration // default 10 s
	RebalanceTimeout time.Duration // default 30 s
	Heartbeat        time.Duration // default SessionTimeout/10, at most 1 s
	// UserData is asked at each join.
	UserData func() []byte
	// Plan makes the assignment when this member leads; members are sorted by id.
	Plan func(members []Member, partitions map[string]int32) (map[string][]byte, error)
	// OnEvent is called on the group's goroutine, in order; it must not block.
	OnEvent func(GroupEvent)
}

// Membership names a member in a generation.
type Membership struct {
	MemberID   string
	Generation int32
}

type GroupEventKind uint8

const (
	GroupAssigned  GroupEventKind = iota + 1 // a new generation: Assignment is this member's user data
	GroupHeartbeat                           // a heartbeat sent at SentAt was answered without error (R2)
	GroupRejoining                           // a rebalance began or membership was lost (Err says why)
	GroupFailed                              // the group cannot be joined: foreign members, authorization; the loop ended
)

type GroupEvent struct {
	Kind       GroupEventKind
	Membership Membership
	Leader     bool
	Assignment []byte
	SentAt     time.Time
	Err        error
}

// Group is membership without fetching. Run joins and stays until ctx ends or Leave.
type Group struct{}

func (g *Group) Run(ctx context.Context) error { panic(stub) }

// Rejoin asks for a new generation, with user data asked again.
func (g *Group) Rejoin() { panic(stub) }

// Leave leaves the group and ends Run.
func (g *Group) Leave(ctx context.Context) error { panic(stub) }
func (g *Group) Membership() Membership          { panic(stub) }
