package rebalance

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

var (
	exampleMember = Member{
		Instance: ids.InstanceID{Name: "orders-1", Rand: 0xfeed}, Owned: []ids.TaskID{{}, {Sub: 1, Partition: 300}},
		Generation: -1, Leaving: true, Fingerprint: "f1", Tags: map[string]string{"zone": "a", "rack": "7"},
	}
	exampleAssigned = Assigned{
		Tasks: []ids.TaskID{{}, {Sub: math.MaxInt32, Partition: math.MaxInt32}}, Generation: 12, Fingerprint: "f1",
		Members: []ids.InstanceID{{Name: "orders-1", Rand: 0xfeed}, {Name: "", Rand: 1}},
	}
)

func TestCodecRoundTrip(t *testing.T) {
	m, err := DecodeMember(AppendMember(nil, exampleMember))
	require.NoError(t, err)
	require.Equal(t, exampleMember, m)
	a, err := DecodeAssigned(AppendAssigned(nil, exampleAssigned))
	require.NoError(t, err)
	require.Equal(t, exampleAssigned, a)
}

func TestCodecRefuses(t *testing.T) {
	good := AppendMember(nil, exampleMember)
	for n := range good {
		_, err := DecodeMember(good[:n])
		require.ErrorIs(t, err, ErrFormat, "%d bytes", n)
	}
	_, err := DecodeMember(append(good, 0))
	require.ErrorContains(t, err, "1 bytes too many")
	_, err = DecodeAssigned([]byte{9})
	require.ErrorContains(t, err, "version 9, this release knows 1")
}

func FuzzDecodeMember(f *testing.F) {
	f.Add(AppendMember(nil, exampleMember))
	f.Add(AppendMember(nil, Member{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMember(b)
		if err != nil {
			require.ErrorIs(t, err, ErrFormat)
			return
		}
		again, err := DecodeMember(AppendMember(nil, m))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func FuzzDecodeAssigned(f *testing.F) {
	f.Add(AppendAssigned(nil, exampleAssigned))
	f.Add(AppendAssigned(nil, Assigned{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAssigned(b)
		if err != nil {
			require.ErrorIs(t, err, ErrFormat)
			return
		}
		again, err := DecodeAssigned(AppendAssigned(nil, a))
		require.NoError(t, err)
		require.Equal(t, a, again)
	})
}
