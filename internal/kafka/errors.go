package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// ErrClosed is the answer of everything that was closed.
var ErrClosed = errors.New("kafka connection is closed")

// Class says what to do about an error. Classes differ only where the reaction
// does.
type Class uint8

const (
	// ClassRetriable: the same request may succeed later; nothing is lost.
	ClassRetriable Class = iota + 1
	// ClassAbortable: the transaction is lost or must be aborted; the
	// application can go on from its last checkpoint.
	ClassAbortable
	// ClassFenced: somebody else owns the producer or the membership: stop,
	// rejoin as new.
	ClassFenced
	// ClassCorrupted: acknowledged data was lost or damaged on the broker.
	ClassCorrupted
	// ClassInvalid: the user's configuration or data is at fault.
	ClassInvalid
	// ClassAuthorization: credentials or an ACL are missing.
	ClassAuthorization
	// ClassFatal: a bug or a broker that cannot do what is needed: stop.
	ClassFatal
)

var classNames = [...]string{"unknown", "retriable", "abortable", "fenced", "corrupted", "invalid", "authorization", "fatal"}

func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "unknown"
}

// codeInfo is a row of the table of Kafka's error codes.
type codeInfo struct {
	class Class
	// doubt: Kafka answered, but does not know whether it did what was asked.
	doubt bool
	// leader, coordinator: ask who it is before trying again.
	leader, coordinator bool
}

// codes classifies every error code that the requests of this package can give.
// A code that is not here is fatal.
var codes = map[sarama.KError]codeInfo{
	sarama.ErrUnknown:                            {class: ClassRetriable, doubt: true},       // -1: an exception inside the broker, before or after it wrote
	sarama.ErrOffsetOutOfRange:                   {class: ClassInvalid},                      // 1: the reader decides what that means (R29)
	sarama.ErrInvalidMessage:                     {class: ClassRetriable},                    // 2: CORRUPT_MESSAGE, damaged on the way; refused as a whole
	sarama.ErrUnknownTopicOrPartition:            {class: ClassRetriable, leader: true},      // 3: not there, or a broker behind in its metadata: retried for a while only
	sarama.ErrInvalidMessageSize:                 {class: ClassFatal},                        // 4: INVALID_FETCH_SIZE
	sarama.ErrLeaderNotAvailable:                 {class: ClassRetriable, leader: true},      // 5: an election
	sarama.ErrNotLeaderForPartition:              {class: ClassRetriable, leader: true},      // 6: the leader moved
	sarama.ErrRequestTimedOut:                    {class: ClassRetriable, doubt: true},       // 7: written, but not acknowledged by all replicas in time
	sarama.ErrBrokerNotAvailable:                 {class: ClassRetriable, leader: true},      // 8
	sarama.ErrReplicaNotAvailable:                {class: ClassRetriable, leader: true},      // 9
	sarama.ErrMessageSizeTooLarge:                {class: ClassInvalid},                      // 10: above max.message.bytes of the topic
	sarama.ErrOffsetMetadataTooLarge:             {class: ClassInvalid},                      // 12: above offset.metadata.max.bytes
	sarama.ErrNetworkException:                   {class: ClassRetriable, doubt: true},       // 13
	sarama.ErrOffsetsLoadInProgress:              {class: ClassRetriable},                    // 14: the coordinator is reading its log
	sarama.ErrConsumerCoordinatorNotAvailable:    {class: ClassRetriable, coordinator: true}, // 15: also what a coordinator says whose log lacks replicas
	sarama.ErrNotCoordinatorForConsumer:          {class: ClassRetriable, coordinator: true}, // 16: the coordinator moved
	sarama.ErrInvalidTopic:                       {class: ClassInvalid},                      // 17: a name Kafka does not allow, or one of its internal topics
	sarama.ErrMessageSetSizeTooLarge:             {class: ClassInvalid},                      // 18: above the segment size
	sarama.ErrNotEnoughReplicas:                  {class: ClassRetriable},                    // 19: refused; also what transaction verification in doubt becomes
	sarama.ErrNotEnoughReplicasAfterAppend:       {class: ClassRetriable, doubt: true},       // 20: written on too few replicas
	sarama.ErrInvalidRequiredAcks:                {class: ClassFatal},                        // 21
	sarama.ErrIllegalGeneration:                  {class: ClassFenced},                       // 22: a rebalance went on without us
	sarama.ErrInconsistentGroupProtocol:          {class: ClassInvalid},                      // 23: members that are no instances of this application
	sarama.ErrInvalidGroupId:                     {class: ClassInvalid},                      // 24
	sarama.ErrUnknownMemberId:                    {class: ClassFenced},                       // 25: the session expired
	sarama.ErrInvalidSessionTimeout:              {class: ClassInvalid},                      // 26: outside group.min/max.session.timeout.ms
	sarama.ErrRebalanceInProgress:                {class: ClassRetriable},                    // 27
	sarama.ErrInvalidCommitOffsetSize:            {class: ClassInvalid},                      // 28
	sarama.ErrTopicAuthorizationFailed:           {class: ClassAuthorization},                // 29
	sarama.ErrGroupAuthorizationFailed:           {class: ClassAuthorization},                // 30
	sarama.ErrClusterAuthorizationFailed:         {class: ClassAuthorization},                // 31: CREATE of topics; before 2.8 also idempotent writing
	sarama.ErrInvalidTimestamp:                   {class: ClassInvalid},                      // 32: outside the topic's timestamp limits
	sarama.ErrUnsupportedSASLMechanism:           {class: ClassAuthorization},                // 33
	sarama.ErrIllegalSASLState:                   {class: ClassAuthorization},                // 34
	sarama.ErrUnsupportedVersion:                 {class: ClassFatal},                        // 35: the broker is too old
	sarama.ErrTopicAlreadyExists:                 {class: ClassRetriable},                    // 36: another instance made it first: verify it
	sarama.ErrInvalidPartitions:                  {class: ClassInvalid},                      // 37
	sarama.ErrInvalidReplicationFactor:           {class: ClassInvalid},                      // 38: more than there are brokers
	sarama.ErrInvalidReplicaAssignment:           {class: ClassInvalid},                      // 39
	sarama.ErrInvalidConfig:                      {class: ClassInvalid},                      // 40
	sarama.ErrNotController:                      {class: ClassRetriable, leader: true},      // 41
	sarama.ErrInvalidRequest:                     {class: ClassFatal},                        // 42: a bug on this side
	sarama.ErrUnsupportedForMessageFormat:        {class: ClassInvalid},                      // 43: a topic in a format without idempotence
	sarama.ErrPolicyViolation:                    {class: ClassInvalid},                      // 44
	sarama.ErrOutOfOrderSequenceNumber:           {class: ClassCorrupted},                    // 45: acknowledged batches before this one are gone (the Writer retries it where an earlier one is open)
	sarama.ErrDuplicateSequenceNumber:            {class: ClassRetriable},                    // 46: it is there: the Writer takes it as success
	sarama.ErrInvalidProducerEpoch:               {class: ClassFenced},                       // 47: InitProducerId by another, or the broker aborted at its timeout
	sarama.ErrInvalidTxnState:                    {class: ClassAbortable},                    // 48: the transaction is not open any more
	sarama.ErrInvalidProducerIDMapping:           {class: ClassAbortable},                    // 49: the transactional id expired or has another producer id
	sarama.ErrInvalidTransactionTimeout:          {class: ClassInvalid},                      // 50: above transaction.max.timeout.ms (R22)
	sarama.ErrConcurrentTransactions:             {class: ClassRetriable},                    // 51: the end of the previous transaction is being written
	sarama.ErrTransactionCoordinatorFenced:       {class: ClassRetriable, coordinator: true}, // 52: from an old coordinator
	sarama.ErrTransactionalIDAuthorizationFailed: {class: ClassAuthorization},                // 53
	sarama.ErrSecurityDisabled:                   {class: ClassInvalid},                      // 54
	sarama.ErrOperationNotAttempted:              {class: ClassRetriable},                    // 55: another partition of the request failed
	sarama.ErrKafkaStorageError:                  {class: ClassRetriable, leader: true},      // 56: a disk of the leader
	sarama.ErrSASLAuthenticationFailed:           {class: ClassAuthorization},                // 58
	sarama.ErrUnknownProducerID:                  {class: ClassCorrupted},                    // 59: the partition forgot the producer with its records
	sarama.ErrReassignmentInProgress:             {class: ClassRetriable},                    // 60
	sarama.ErrNonEmptyGroup:                      {class: ClassInvalid},                      // 68
	sarama.ErrGroupIDNotFound:                    {class: ClassInvalid},                      // 69
	sarama.ErrFetchSessionIDNotFound:             {class: ClassRetriable},                    // 70
	sarama.ErrInvalidFetchSessionEpoch:           {class: ClassRetriable},                    // 71
	sarama.ErrListenerNotFound:                   {class: ClassRetriable, leader: true},      // 72: a leader without our listener, as while brokers start
	sarama.ErrTopicDeletionDisabled:              {class: ClassInvalid},                      // 73
	sarama.ErrFencedLeaderEpoch:                  {class: ClassRetriable, leader: true},      // 74: our metadata are old
	sarama.ErrUnknownLeaderEpoch:                 {class: ClassRetriable, leader: true},      // 75: the broker's metadata are old
	sarama.ErrUnsupportedCompressionType:         {class: ClassInvalid},                      // 76: also an older broker that cannot read zstd
	sarama.ErrOffsetNotAvailable:                 {class: ClassRetriable},                    // 78: a new leader that does not know the high watermark yet
	sarama.ErrMemberIdRequired:                   {class: ClassRetriable},                    // 79: join again with the id given
	sarama.ErrGroupMaxSizeReached:                {class: ClassInvalid},                      // 81
	sarama.ErrFencedInstancedId:                  {class: ClassFenced},                       // 82
	sarama.ErrInvalidRecord:                      {class: ClassInvalid},                      // 87: a record without key for a compacted topic
	sarama.ErrUnstableOffsetCommit:               {class: ClassRetriable},                    // 88: offsets of an undecided transaction (R28)
	sarama.ErrThrottlingQuotaExceeded:            {class: ClassRetriable},                    // 89
	sarama.ErrProducerFenced:                     {class: ClassFenced},                       // 90: InitProducerId by another
}

// Error is what went wrong with one request or batch.
type Error struct {
	// Op is what was attempted: "produce", "init producer id", ...
	Op string
	// TP is the partition, or zero.
	TP ids.TopicPartition
	// Class says what to do.
	Class Class
	// Doubt says that the request may have been carried out.
	Doubt bool
	// Err is Kafka's code or the network error, with what was learned on the way.
	Err error
}

// Error returns "op topic-partition: reason".
func (e *Error) Error() string {
	at := ""
	switch {
	case e.TP.Topic != "" && e.TP.Partition >= 0:
		at = " " + e.TP.String()
	case e.TP.Topic != "":
		at = " " + e.TP.Topic
	}
	doubt := ""
	if e.Doubt {
		doubt = " (it may have been carried out)"
	}
	return fmt.Sprintf("%s%s: %s%s", e.Op, at, e.Err, doubt)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

func newError(op string, tp ids.TopicPartition, err error) *Error {
	return &Error{Op: op, TP: tp, Class: Classify(err), Doubt: InDoubt(err), Err: err}
}

// Code returns Kafka's error code in err's chain; false if there is none, as
// with network errors.
func Code(err error) (int16, bool) {
	var k sarama.KError
	if errors.As(err, &k) {
		return int16(k), true
	}
	return 0, false
}

// Classify returns the class of an error of this package. Network errors are
// retriable; what is not known is fatal.
func Classify(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	var k sarama.KError
	if errors.As(err, &k) {
		if i, ok := codes[k]; ok {
			return i.class
		}
		return ClassFatal
	}
	var (
		cert    *tls.CertificateVerificationError
		refused *refusedError
		tr      *transportError
		dial    *dialError
		enc     sarama.PacketEncodingError
	)
	switch {
	case errors.As(err, &cert), errors.As(err, &refused), errors.As(err, &enc):
		return ClassInvalid
	case errors.As(err, &tr), errors.As(err, &dial), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ClassRetriable
	}
	return ClassFatal
}

// InDoubt reports whether the request that gave err may have been carried out,
// now or later (R20). Every other error is a definite answer.
func InDoubt(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Doubt
	}
	var ns *notSentError
	if errors.As(err, &ns) {
		return false
	}
	var tr *transportError
	if errors.As(err, &tr) {
		return tr.sent()
	}
	var k sarama.KError
	return errors.As(err, &k) && codes[k].doubt
}

// transportError is a request without an answer.
type transportError struct {
	node node
	err  error
}

func (e *transportError) Error() string { return fmt.Sprintf("broker %s: %s", e.node, e.err) }
func (e *transportError) Unwrap() error { return e.err }

// sent reports whether the request may have reached the broker.
func (e *transportError) sent() bool {
	var (
		d *dialError
		r *refusedError
		c *tls.CertificateVerificationError
		p sarama.PacketEncodingError
		k sarama.KError // refused on this side: a login, or no common version
	)
	return !errors.As(e.err, &k) && !errors.As(e.err, &d) && !errors.As(e.err, &r) && !errors.As(e.err, &c) &&
		!errors.As(e.err, &p) && !errors.Is(e.err, sarama.ErrNotConnected)
}

// notSentError is the failure of a preparation (finding a coordinator): the
// request itself was not sent.
type notSentError struct{ err error }

func notSent(err error) error { return &notSentError{err} }

func (e *notSentError) Error() string { return e.err.Error() }
func (e *notSentError) Unwrap() error { return e.err }

// isAnswer reports whether err came from Kafka over a connection that is still
// good. A failed login leaves a connection that answers nothing else.
func isAnswer(err error) bool {
	var k sarama.KError
	if errors.As(err, &k) {
		return k != sarama.ErrSASLAuthenticationFailed && k != sarama.ErrUnsupportedSASLMechanism && k != sarama.ErrIllegalSASLState
	}
	var p sarama.PacketEncodingError
	return errors.As(err, &p)
}

func needsLeader(err error) bool {
	var k sarama.KError
	return errors.As(err, &k) && codes[k].leader || !isAnswer(err)
}

func needsCoordinator(err error) bool {
	var k sarama.KError
	return errors.As(err, &k) && codes[k].coordinator || !isAnswer(err)
}

// codeError turns a code that may be NONE into an error.
func codeError(k sarama.KError) error {
	if k == sarama.ErrNoError {
		return nil
	}
	return k
}

// Backoff between attempts, doubling, with some jitter.
const (
	backoffMin = 20 * time.Millisecond
	backoffMax = time.Second
)

func backoff(attempt int) time.Duration {
	d := backoffMin << min(attempt, 10)
	return jitter(min(d, backoffMax))
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retry repeats do until it succeeds, again says no, or ctx ends; then the last
// error of do is returned, with what was the reason to wait before it.
func retry(ctx context.Context, again func(error) bool, do func() error) error {
	var before error
	for attempt := 0; ; attempt++ {
		err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && before != nil && errors.Is(err, context.Cause(ctx)) {
			return fmt.Errorf("%w, while repeating after: %w", err, before)
		}
		if errors.Is(err, ErrClosed) || !again(err) || ctx.Err() != nil {
			return err
		}
		before = err
		if sleep(ctx, backoff(attempt)) != nil {
			return err
		}
	}
}

func retriable(err error) bool { return Classify(err) == ClassRetriable }

// outage counts failures in a row, to report the first, every twentieth, and
// their end.
type outage struct{ fails int }

func (o *outage) note(err error) (report bool) {
	if err == nil {
		report = o.fails > 0
		o.fails = 0
		return report
	}
	o.fails++
	return o.fails%20 == 1
}
