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
