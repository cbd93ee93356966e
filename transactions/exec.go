package transactions

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

// Client is what an Executor needs of Kafka; the runtime fills it from its
// client. A function returns nil when the request was carried out, a Code (or
// an error that wraps one) when the broker answered with it, and any other
// error when no definite answer came. Each makes one request and does not
// retry by itself, except to find the coordinator.
type Client struct {
	InitProducerID  func(ctx context.Context, transactionalID string) (producerID int64, epoch int16, err error)
	AddPartitions   func(ctx context.Context, h ids.TxnHandle, partitions []ids.TopicPartition) error
	AddOffsets      func(ctx context.Context, h ids.TxnHandle) error
	TxnOffsetCommit func(ctx context.Context, h ids.TxnHandle, metadata string, offsets []Offset) error
	EndTxn          func(ctx context.Context, h ids.TxnHandle, commit bool) error
	Describe        func(ctx context.Context, transactionalID string) (producerID int64, epoch int16, state TxnState, err error)
}

// Executor performs the request effects of a Pool or a Finisher. Each request
// runs in a goroutine that ends with it; Post is called from there.
type Executor struct {
	client  Client
	clock   func() time.Duration
	post    func(Event)
	timeout time.Duration
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// NewExecutor returns an executor. clock is the monotonic clock that the
// events carry; post hands an answer to the loop that owns the machine, and
// must not block for long; timeout bounds one request, 0 means 30 s.
func NewExecutor(client Client, clock func() time.Duration, post func(Event), timeout time.Duration) *Executor {
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Executor{client: client, clock: clock, post: post, timeout: timeout, ctx: ctx, cancel: cancel}
}

// Do starts a request effect and reports whether e is one: InitProducer,
// AddPartitions, AddOffsets, End or Describe. All others are the runtime's.
func (x *Executor) Do(e Effect) bool {
	switch e := e.(type) {
	case InitProducer:
		x.start(e.Attempt, func(ctx context.Context) Event {
			pid, epoch, err := x.client.InitProducerID(ctx, e.ID)
			return InitAnswer{Now: x.clock(), ID: e.ID, ProducerID: pid, Epoch: epoch, Code: CodeOf(err)}
		})
	case AddPartitions:
		x.start(e.Attempt, func(ctx context.Context) Event {
			err := x.client.AddPartitions(ctx, e.Handle, e.Partitions)
			return PartitionsAnswer{Now: x.clock(), Txn: e.Txn, Code: CodeOf(err)}
		})
	case AddOffsets:
		x.start(e.Attempt, func(ctx context.Context) Event {
			err := x.client.AddOffsets(ctx, e.Handle)
			if err == nil {
				err = x.client.TxnOffsetCommit(ctx, e.Handle, e.Metadata, e.Offsets)
			}
			return OffsetsAnswer{Now: x.clock(), Txn: e.Txn, Code: CodeOf(err)}
		})
	case End:
		x.start(e.Attempt, func(ctx context.Context) Event {
			err := x.client.EndTxn(ctx, e.Handle, e.Commit)
			return EndAnswer{Now: x.clock(), Handle: e.Handle, Commit: e.Commit, Code: CodeOf(err)}
		})
	case Describe:
		x.start(e.Attempt, func(ctx context.Context) Event {
			pid, epoch, state, err := x.client.Describe(ctx, e.Handle.TransactionalID)
			return Described{Handle: e.Handle, Code: CodeOf(err), ProducerID: pid, Epoch: epoch, State: state}
		})
	default:
		return false
	}
	return true
}

// Close cancels what runs and waits for it; no event is posted afterwards.
// Requests that were cut off may still be carried out by the broker.
func (x *Executor) Close() {
	x.cancel()
	x.wg.Wait()
}

func (x *Executor) start(attempt int, request func(context.Context) Event) {
	x.wg.Go(func() {
		select {
		case <-x.ctx.Done():
			return
		case <-time.After(backoff(attempt)):
		}
		ctx, cancel := context.WithTimeout(x.ctx, x.timeout)
		defer cancel()
		if ev := request(ctx); x.ctx.Err() == nil {
			x.post(ev)
		}
	})
}

// backoff doubles from 20 ms to 1 s. The first repetition comes early because
// most are CONCURRENT_TRANSACTIONS, over in a few milliseconds.
func backoff(attempt int) time.Duration {
	if attempt == 0 {
		return 0
	}
	return min(20*time.Millisecond<<min(attempt-1, 6), time.Second)
}

// CodeOf returns the code in an error: OK for nil, NoAnswer for an error that
// holds none.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	if c, ok := errors.AsType[Code](err); ok {
		return c
	}
	return NoAnswer
}
