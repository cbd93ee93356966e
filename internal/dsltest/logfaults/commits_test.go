package logfaults

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate"
)

// Commits that fail before the first that does not leave nothing that would look
// like state without offsets.
func TestFirstCommitsFail(t *testing.T) {
	c := newCounted(t, false)
	f := c.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.InvalidTxnState, Count: 4})
	c.send(200)
	a := c.start(c.topo, "a")
	c.await(func() bool { return f.Hits() >= 4 }, a)
	c.round(200, a)
	a.end()
	c.check()
}

// Whatever request of a commit fails in whatever way, the tasks go on from the last
// commit, and every count comes once.
func TestCommitsFail(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.OffsetFetch, kmsg.ListOffsets} {
		t.Run(key.Name(), func(t *testing.T) {
			t.Parallel()
			c := newCounted(t, true)
			a := c.start(c.topo, "a", tidegate.WithRestartStrategy(tidegate.FixedDelay(-1, 10*ms)),
				tidegate.WithTransactionTimeout(1100*ms)) // for so long a commit waits for a generation
			c.round(100, a)
			for _, e := range []*kerr.Error{
				kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.ConcurrentTransactions, kerr.NotCoordinator,
				kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.UnknownServerError, kerr.RequestTimedOut, kerr.InvalidTxnState,
				kerr.UnknownProducerID, kerr.InvalidProducerIDMapping, kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.NotLeaderForPartition, kerr.TransactionAbortable, kerr.UnstableOffsetCommit,
			} {
				f := c.broker.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: e, Count: 1, When: ofTransactions})
				if key == kmsg.OffsetFetch || key == kmsg.ListOffsets { // which only starts of tasks send
					c.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.InvalidTxnState, Count: 1})
				}
				c.send(20)
				c.await(func() bool {
					if a.State() == tidegate.Failed {
						t.Fatalf("%s: %v", e.Message, a.Health().Err)
					}
					return c.out.Count() >= c.sent && f.Hits() > 0
				})
				f.Remove()
			}
			a.end()
			c.check()
		})
	}
}

// ofTransactions leaves out what the test itself sends: its producer has no
// transactional id.
func ofTransactions(r kmsg.Request) bool {
	switch r := r.(type) {
	case *kmsg.InitProducerIDRequest:
		return r.TransactionalID != nil
	case *kmsg.ProduceRequest:
		return r.TransactionID != nil
	}
	return true
}

// Tasks that fail together are one failure.
func TestFailuresTogether(t *testing.T) {
	c := newCluster(t, map[string]int32{"in": parts, "out": parts})
	b := tidegate.NewBuilder()
	var arrived atomic.Int32
	b.Stream("in", str, str).PeekCtx(func(rc *tidegate.RecordContext, _, _ string) error {
		if n := arrived.Add(1); n > parts {
			return nil
		}
		for arrived.Load() < parts && rc.Ctx.Err() == nil {
			runtime.Gosched()
		}
		return errors.New("not yet")
	}).To("out")
	topo, err := b.Build()
	require.NoError(t, err)
	out := c.read("out", parts)
	for p := range int32(parts) {
		c.produce("in", message(p, "k", "v", 1))
	}
	a := c.start(topo, "a", tidegate.WithWorkers(parts), tidegate.WithRestartStrategy(tidegate.FixedDelay(1, 10*ms)),
		tidegate.WithFailureHandler(func(error) tidegate.FailureAction { return tidegate.Retry }))
	c.await(func() bool { return out.Count() >= parts }, a)
	require.EqualValues(t, 1, a.Health().Failures)
	a.end()
}
