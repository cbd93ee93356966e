package transactions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

var defaults = Timeouts{
	Interval: 10 * time.Second, CheckpointTimeout: time.Minute, ToleratedAborts: 2, Session: 10 * time.Second,
	LongestRestart: 5 * time.Minute, Transaction: 10 * time.Minute, BrokerMax: 15 * time.Minute,
}

func TestCheckTimeouts(t *testing.T) {
	require.NoError(t, CheckTimeouts(defaults))
	short := defaults
	short.Transaction = 520 * time.Second
	require.ErrorContains(t, CheckTimeouts(short), "WithTransactionTimeout(8m40s) is too short")
	require.ErrorContains(t, CheckTimeouts(short), "WithToleratedAborts(2)")
	long := defaults
	long.BrokerMax = time.Minute
	require.ErrorContains(t, CheckTimeouts(long), "transaction.max.timeout.ms (1m0s)")
	require.True(t, defaults.MayComplete(4*time.Minute, 50*time.Second))
	require.False(t, defaults.MayComplete(4*time.Minute, 51*time.Second))
}

func TestOffsetMetadata(t *testing.T) {
	s := OffsetMetadata(0xabc, 17)
	require.Equal(t, "0000000000000abc/17", s)
	life, n, ok := ParseOffsetMetadata(s)
	require.True(t, ok)
	require.Equal(t, ids.Life(0xabc), life)
	require.Equal(t, ids.CheckpointID(17), n)
	for _, bad := range []string{"", "x", "0000000000000abc/-1", "0000000000000abc/017", "0000000000000ABC/1", "0000000000000abc/"} {
		_, _, ok := ParseOffsetMetadata(bad)
		require.False(t, ok, bad)
	}
}
