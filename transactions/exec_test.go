package transactions

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

func TestExecutorPostsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		events := make(chan Event, 10)
		refused := fmt.Errorf("add offsets: %w", GroupAuthorizationFailed)
		x := NewExecutor(Client{
			InitProducerID:  func(context.Context, string) (int64, int16, error) { return 7, 3, nil },
			AddPartitions:   func(context.Context, ids.TxnHandle, []ids.TopicPartition) error { return ConcurrentTransactions },
			AddOffsets:      func(context.Context, ids.TxnHandle) error { return refused },
			TxnOffsetCommit: func(context.Context, ids.TxnHandle, string, []Offset) error { panic("not after a refusal") },
			EndTxn: func(ctx context.Context, _ ids.TxnHandle, _ bool) error {
				<-ctx.Done()
				return ctx.Err()
			},
			Describe: func(context.Context, string) (int64, int16, TxnState, error) {
				return 7, 3, StateOngoing, nil
			},
		}, func() time.Duration { return time.Since(begun) }, func(e Event) { events <- e }, 0)
		h := ids.TxnHandle{TransactionalID: "t", ProducerID: 7, ProducerEpoch: 3}

		require.True(t, x.Do(InitProducer{ID: "t", Attempt: 2}))
		require.Equal(t, InitAnswer{Now: 40 * time.Millisecond, ID: "t", ProducerID: 7, Epoch: 3}, <-events)
		require.True(t, x.Do(AddPartitions{Txn: 1, Handle: h}))
		require.Equal(t, PartitionsAnswer{Now: 40 * time.Millisecond, Txn: 1, Code: ConcurrentTransactions}, <-events)
		require.True(t, x.Do(AddOffsets{Txn: 1, Handle: h}))
		require.Equal(t, OffsetsAnswer{Now: 40 * time.Millisecond, Txn: 1, Code: GroupAuthorizationFailed}, <-events)
		require.True(t, x.Do(Describe{Handle: h}))
		require.Equal(t, Described{Handle: h, ProducerID: 7, Epoch: 3, State: StateOngoing}, <-events)
		require.True(t, x.Do(End{Handle: h, Commit: true}))
		require.Equal(t, EndAnswer{Now: 30*time.Second + 40*time.Millisecond, Handle: h, Commit: true, Code: NoAnswer}, <-events)

		require.False(t, x.Do(Prepared{}))
		require.True(t, x.Do(End{Handle: h}))
		x.Close()
		require.Empty(t, events)
	})
}

func TestClassify(t *testing.T) {
	for code, want := range map[Code]Class{
		OK: Done, ConcurrentTransactions: Retry, NotCoordinator: Retry, NoAnswer: Unknown, UnknownServerError: Unknown,
		InvalidProducerEpoch: Gone, InvalidTxnState: Gone, InvalidProducerIDMapping: Gone, ProducerFenced: Gone,
		TxnIDAuthorizationFailed: Denied, InvalidTxnTimeout: Denied, 10: Refused, 87: Refused,
	} {
		require.Equal(t, want, Classify(code), "%s", code)
	}
	require.Equal(t, NoAnswer, CodeOf(errors.New("connection reset")))
}
