package transactions

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

func TestTransactionalID(t *testing.T) {
	require.Equal(t, "orders-00000000000000ff-node-1/0000000000000002-7",
		TransactionalID("orders", 0xff, ids.InstanceID{Name: "node-1", Rand: 2}, 7))
}

func FuzzParseOffsetMetadata(f *testing.F) {
	f.Add(OffsetMetadata(0xabc, 17))
	f.Add("")
	f.Add("0000000000000abc/")
	f.Fuzz(func(t *testing.T, s string) {
		if life, n, ok := ParseOffsetMetadata(s); ok {
			require.Equal(t, s, OffsetMetadata(life, n))
		}
	})
}
