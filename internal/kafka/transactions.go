package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// Versions of the transaction requests. They are the highest that keep the
// producer epoch as it is: from version 5 on EndTxn moves the epoch, and a
// handle in a checkpoint would not name its transaction any more. A test asserts
// what goes out.
const (
	initProducerVersion    = 4
	addPartitionsVersion   = 3
	addOffsetsVersion      = 3
	txnOffsetCommitVersion = 3
	endTxnVersion          = 3
)

// Transactions sends transaction requests to their coordinators. Everything
// retriable is retried until ctx ends; give it a deadline.
type Transactions struct {
	c      *Client
	pool   *pool
	ids    *coordinators
	groups *coordinators
}

func newTransactions(c *Client) *Transactions {
	return &Transactions{
		c: c, pool: c.newPool(0),
		ids:    newCoordinators(c.meta, sarama.CoordinatorTransaction),
		groups: newCoordinators(c.meta, sarama.CoordinatorGroup),
	}
}

func (t *Transactions) close() { t.pool.close() }

// Offset is the next offset of a partition, with the metadata stored beside it.
type Offset struct {
	TP       ids.TopicPartition
	Offset   int64
	Metadata string
}

// atCoordinator sends one request to the coordinator of key, and forgets who
// that is when the answer or its absence says so.
func atCoordinator[T any](ctx context.Context, p *pool, cs *coordinators, key string, do func(*sarama.Broker) (T, sarama.KError, error)) (T, error) {
	n, err := cs.find(ctx, key)
	if err != nil {
		var none T
		return none, err
	}
	type both struct {
		v T
		k sarama.KError
	}
	a, err := request(ctx, p, n, func(b *sarama.Broker) (both, error) {
		v, k, err := do(b)
		return both{v, k}, err
	})
	if err == nil {
		err = codeError(a.k)
	}
	if err != nil && needsCoordinator(err) {
		cs.forget(key)
	}
	return a.v, err
}

// InitProducer draws an idempotent producer id that belongs to no transactional
// id (R8).
func (t *Transactions) InitProducer(ctx context.Context) (id int64, epoch int16, err error) {
	var res *sarama.InitProducerIDResponse
	err = retry(ctx, retriable, func() error {
		r, err := anyBroker(ctx, t.c.meta, func(b *sarama.Broker) (*sarama.InitProducerIDResponse, error) {
			return b.InitProducerID(&sarama.InitProducerIDRequest{Version: initProducerVersion, ProducerID: -1, ProducerEpoch: -1})
		})
		res = r
		if err != nil {
			return err
		}
		return codeError(r.Err)
	})
	if err != nil {
		return 0, 0, newError("init idempotent producer id", ids.TopicPartition{}, err)
	}
	return res.ProducerID, res.ProducerEpoch, nil
}

// Init sends InitProducerId: it aborts what is open on the id and gives the
// handle of the next transaction. timeout is the transaction's, which must not
// be above the broker's transaction.max.timeout.ms.
//
// It is sent again only after an answer that is definite. With InDoubt(err) it
// may arrive later and abort whatever is open then: the id must not be used
// again (R20).
func (t *Transactions) Init(ctx context.Context, transactionalID string, timeout time.Duration) (ids.TxnHandle, error) {
	var res *sarama.InitProducerIDResponse
	again := func(err error) bool { return retriable(err) && !InDoubt(err) }
	err := retry(ctx, again, func() (err error) {
		res, err = atCoordinator(ctx, t.pool, t.ids, transactionalID, func(b *sarama.Broker) (*sarama.InitProducerIDResponse, sarama.KError, error) {
			r, err := b.InitProducerID(&sarama.InitProducerIDRequest{
				Version: initProducerVersion, TransactionalID: &transactionalID, TransactionTimeout: timeout,
				ProducerID: -1, ProducerEpoch: -1,
			})
			if err != nil {
				return nil, 0, err
			}
			return r, r.Err, nil
		})
		return err
	})
	if err != nil {
		return ids.TxnHandle{}, newError(fmt.Sprintf("init producer id of %q", transactionalID), ids.TopicPartition{}, err)
	}
	return ids.TxnHandle{TransactionalID: transactionalID, ProducerID: res.ProducerID, ProducerEpoch: res.ProducerEpoch}, nil
}

// AddPartitions adds partitions to the handle's transaction, beginning it if
// there is none. A Producer with a TransactionalID does it by itself.
func (t *Transactions) AddPartitions(ctx context.Context, h ids.TxnHandle, tps []ids.TopicPartition) error {
	parts := map[string][]int32{}
	for _, tp := range tps {
		parts[tp.Topic] = append(parts[tp.Topic], tp.Partition)
	}
	op := fmt.Sprintf("add partitions to transaction %s", h)
	var at ids.TopicPartition
	var unknown time.Time // since when a topic is
	again := func(err error) bool {
		switch {
		case !errors.Is(err, sarama.ErrUnknownTopicOrPartition):
			unknown = time.Time{}
		case unknown.IsZero():
			unknown = time.Now()
		case time.Since(unknown) >= unknownTopicFor:
			return false
		}
		return retriable(err)
	}
	err := retry(ctx, again, func() error {
		at = ids.TopicPartition{}
		res, err := atCoordinator(ctx, t.pool, t.ids, h.TransactionalID, func(b *sarama.Broker) (*sarama.AddPartitionsToTxnResponse, sarama.KError, error) {
			r, err := b.AddPartitionsToTxn(&sarama.AddPartitionsToTxnRequest{
				Version: addPartitionsVersion, TransactionalID: h.TransactionalID,
				ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, TopicPartitions: parts,
			})
			return r, 0, err
		})
		if err != nil {
			return err
		}
		at, err = firstPartitionError(tps, res.Errors)
		if err != nil && needsCoordinator(err) {
			t.ids.forget(h.TransactionalID)
		}
		return err
	})
	if err != nil && !unknown.IsZero() && time.Since(unknown) >= unknownTopicFor {
		return &Error{Op: op, TP: at, Class: ClassInvalid, Err: fmt.Errorf("%w (%w)", errUnknownTopic, err)}
	}
	if err != nil {
		return newError(op, at, err)
	}
	return nil
}

// unknownTopicFor is how long a topic may be unknown to a transaction's
// coordinator before that is a definite failure: a broker may be behind in its
// metadata. It is below what callers give a request.
const unknownTopicFor = 25 * time.Second

// firstPartitionError returns the most telling error of an answer by partition:
// one that is not retriable before one that is, since Kafka says
// OPERATION_NOT_ATTEMPTED of all the others.
func firstPartitionError(tps []ids.TopicPartition, errs map[string][]*sarama.PartitionError) (ids.TopicPartition, error) {
	var at ids.TopicPartition
	var first error
	for _, tp := range tps {
		for _, e := range errs[tp.Topic] {
			if e.Partition != tp.Partition || e.Err == sarama.ErrNoError {
				continue
			}
			if !retriable(e.Err) {
				return tp, e.Err
			}
			if first == nil || errors.Is(first, sarama.ErrOperationNotAttempted) {
				at, first = tp, e.Err
			}
		}
	}
	return at, first
}

// AddOffsets adds the group's offsets to the transaction, beginning it if there
// is none.
func (t *Transactions) AddOffsets(ctx context.Context, h ids.TxnHandle, group string) error {
	err := retry(ctx, retriable, func() error {
		_, err := atCoordinator(ctx, t.pool, t.ids, h.TransactionalID, func(b *sarama.Broker) (*sarama.AddOffsetsToTxnResponse, sarama.KError, error) {
			r, err := b.AddOffsetsToTxn(&sarama.AddOffsetsToTxnRequest{
				Version: addOffsetsVersion, TransactionalID: h.TransactionalID,
				ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, GroupID: group,
			})
			if err != nil {
				return nil, 0, err
			}
			return r, r.Err, nil
		})
		return err
	})
	if err != nil {
		return newError(fmt.Sprintf("add offsets of group %q to transaction %s", group, h), ids.TopicPartition{}, err)
	}
	return nil
}

// CommitOffsets writes offsets in the transaction (TxnOffsetCommit), with
// generation -1 and no member: fencing is the log's business (R18). AddOffsets
// must have gone before. They take effect with the transaction's commit.
func (t *Transactions) CommitOffsets(ctx context.Context, h ids.TxnHandle, group string, offsets []Offset) error {
	return t.commitOffsets(ctx, h, group, Membership{Generation: -1}, offsets, retriable)
}

// CommitOffsetsAs is CommitOffsets as a member of a generation (KIP-447): Kafka
// refuses the offsets of one that is not in the group any more. A generation
// that is over (OldGeneration) is an answer here: the caller asks again with the
// next one, if it is still a member then.
func (t *Transactions) CommitOffsetsAs(ctx context.Context, h ids.TxnHandle, group string, member Membership, offsets []Offset) error {
	again := func(err error) bool { return retriable(err) && !OldGeneration(err) }
	return t.commitOffsets(ctx, h, group, member, offsets, again)
}

// OldGeneration reports whether err says that a rebalance began or ended since
// the generation of the request: codes 22 and 27.
func OldGeneration(err error) bool {
	return errors.Is(err, sarama.ErrIllegalGeneration) || errors.Is(err, sarama.ErrRebalanceInProgress)
}

// UnknownMember reports whether err says that the group does not hold the member
// any more: codes 25 and 82.
func UnknownMember(err error) bool {
	return errors.Is(err, sarama.ErrUnknownMemberId) || errors.Is(err, sarama.ErrFencedInstancedId)
}

// Fenced reports whether another member took this one's group.instance.id.
func Fenced(err error) bool { return errors.Is(err, sarama.ErrFencedInstancedId) }

func (t *Transactions) commitOffsets(ctx context.Context, h ids.TxnHandle, group string, member Membership, offsets []Offset, again func(error) bool) error {
	if len(offsets) == 0 {
		return nil
	}
	topics := map[string][]*sarama.PartitionOffsetMetadata{}
	tps := make([]ids.TopicPartition, 0, len(offsets))
	for _, o := range offsets {
		meta := o.Metadata
		topics[o.TP.Topic] = append(topics[o.TP.Topic], &sarama.PartitionOffsetMetadata{
			Partition: o.TP.Partition, Offset: o.Offset, LeaderEpoch: -1, Metadata: &meta,
		})
		tps = append(tps, o.TP)
	}
	slices.SortFunc(tps, ids.TopicPartition.Compare)
	var at ids.TopicPartition
	err := retry(ctx, again, func() error {
		at = ids.TopicPartition{}
		res, err := atCoordinator(ctx, t.pool, t.groups, group, func(b *sarama.Broker) (*sarama.TxnOffsetCommitResponse, sarama.KError, error) {
			r, err := b.TxnOffsetCommit(&sarama.TxnOffsetCommitRequest{
				Version: txnOffsetCommitVersion, TransactionalID: h.TransactionalID, GroupID: group,
				ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, GenerationID: member.Generation, MemberID: member.MemberID, Topics: topics,
			})
			return r, 0, err
		})
		if err != nil {
			return err
		}
		at, err = firstPartitionError(tps, res.Topics)
		if err != nil && needsCoordinator(err) {
			t.groups.forget(group)
		}
		return err
	})
	if err != nil {
		return newError(fmt.Sprintf("write offsets of group %q in transaction %s", group, h), at, err)
	}
	return nil
}

// End commits or aborts the handle's transaction, by whoever it was written. nil
// means that it is so: by this call, or by an earlier one.
//
// It is repeated until a definite answer or until ctx ends. LostTransaction(err)
// tells whether the answer was that there is no such transaction to be ended
// (R23).
func (t *Transactions) End(ctx context.Context, h ids.TxnHandle, commit bool) error {
	err := retry(ctx, retriable, func() error {
		_, err := atCoordinator(ctx, t.pool, t.ids, h.TransactionalID, func(b *sarama.Broker) (*sarama.EndTxnResponse, sarama.KError, error) {
			r, err := b.EndTxn(&sarama.EndTxnRequest{
				Version: endTxnVersion, TransactionalID: h.TransactionalID,
				ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, TransactionResult: commit,
			})
			if err != nil {
				return nil, 0, err
			}
			return r, r.Err, nil
		})
		return err
	})
	if err != nil {
		verb := "abort"
		if commit {
			verb = "commit"
		}
		e := newError(fmt.Sprintf("%s transaction %s", verb, h), ids.TopicPartition{}, err)
		// The last attempt may have been answered "try again" while an earlier
		// one, unanswered, did it.
		e.Doubt = e.Doubt || e.Class == ClassRetriable
		return e
	}
	return nil
}

// LostTransaction reports whether err says that the transaction cannot be ended
// because it is not there: codes 47, 48, 49 and 90 (R23). For a decided commit
// that means to look whether it was committed before; for an abort, that there
// is nothing to do.
func LostTransaction(err error) bool {
	for _, k := range []sarama.KError{
		sarama.ErrInvalidProducerEpoch, sarama.ErrInvalidTxnState,
		sarama.ErrInvalidProducerIDMapping, sarama.ErrProducerFenced,
	} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// TxnState is what the coordinator knows of a transactional id.
type TxnState struct {
	// Found is false if the coordinator knows no such id.
	Found bool
	// State is Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit,
	// CompleteAbort, Dead or PrepareEpochFence.
	State string
	// Handle is the id with its newest producer id and epoch.
	Handle     ids.TxnHandle
	Timeout    time.Duration
	Start      time.Time // zero when no transaction is open
	Partitions []ids.TopicPartition
}

// Committed reports whether the state proves that the handle's transaction is
// committed: same producer id and epoch in prepare-commit or complete-commit
// (R23).
func (s TxnState) Committed(h ids.TxnHandle) bool {
	return s.Found && s.Handle == h && (s.State == "PrepareCommit" || s.State == "CompleteCommit")
}

// Describe reads the states of transactional ids.
func (t *Transactions) Describe(ctx context.Context, transactionalIDs ...string) (map[string]TxnState, error) {
	out := make(map[string]TxnState, len(transactionalIDs))
	for _, id := range transactionalIDs {
		s, err := t.describe(ctx, id)
		if err != nil {
			return nil, newError(fmt.Sprintf("describe transactional id %q", id), ids.TopicPartition{}, err)
		}
		out[id] = s
	}
	return out, nil
}

func (t *Transactions) describe(ctx context.Context, id string) (TxnState, error) {
	var st sarama.TransactionState
	err := retry(ctx, retriable, func() error {
		res, err := atCoordinator(ctx, t.pool, t.ids, id, func(b *sarama.Broker) (*sarama.DescribeTransactionsResponse, sarama.KError, error) {
			r, err := b.DescribeTransactions(&sarama.DescribeTransactionsRequest{TransactionalIDs: []string{id}})
			if err != nil {
				return nil, 0, err
			}
			if len(r.TransactionStates) != 1 {
				return nil, 0, sarama.ErrIncompleteResponse
			}
			return r, r.TransactionStates[0].ErrorCode, nil
		})
		if err == nil {
			st = res.TransactionStates[0]
		}
		return err
	})
	if errors.Is(err, errTransactionalIDNotFound) {
		return TxnState{}, nil
	}
	if err != nil {
		return TxnState{}, err
	}
	s := TxnState{
		Found: true, State: st.TransactionState, Timeout: st.TransactionTimeout,
		Handle: ids.TxnHandle{TransactionalID: id, ProducerID: st.ProducerID, ProducerEpoch: st.ProducerEpoch},
	}
	if st.TransactionStartTime > 0 {
		s.Start = time.UnixMilli(st.TransactionStartTime)
	}
	for _, tp := range st.Topics {
		for _, p := range tp.Partitions {
			s.Partitions = append(s.Partitions, ids.TopicPartition{Topic: tp.Topic, Partition: p})
		}
	}
	slices.SortFunc(s.Partitions, ids.TopicPartition.Compare)
	return s, nil
}

// errTransactionalIDNotFound is code 105, for which sarama has no name.
const errTransactionalIDNotFound = sarama.KError(105)
