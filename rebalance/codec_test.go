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

// stateful are the examples with what version 2 adds.
func stateful() (Member, Assigned) {
	m, a := exampleMember, exampleAssigned
	m.Held = []Held{{Task: ids.TaskID{}, Size: 70000}, {Task: ids.TaskID{Sub: 1, Partition: 9}, Behind: math.MaxInt64}}
	a.Warm, a.Next = []ids.TaskID{{Sub: 1, Partition: 9}}, []ids.TaskID{{Sub: 2}, {Sub: 2, Partition: 1}}
	return m, a
}

// What the first version can say is written in it, for members of older releases.
func TestCodecVersions(t *testing.T) {
	m, a := stateful()
	require.EqualValues(t, 1, AppendMember(nil, exampleMember)[0])
	require.EqualValues(t, 1, AppendAssigned(nil, exampleAssigned)[0])
	require.EqualValues(t, 2, AppendMember(nil, m)[0])
	require.EqualValues(t, 2, AppendAssigned(nil, a)[0])
	a.Warm = nil
	require.EqualValues(t, 2, AppendAssigned(nil, a)[0])
}

func TestCodecRoundTrip(t *testing.T) {
	withState, withWarm := stateful()
	m2, err := DecodeMember(AppendMember(nil, withState))
	require.NoError(t, err)
	require.Equal(t, withState, m2)
	a2, err := DecodeAssigned(AppendAssigned(nil, withWarm))
	require.NoError(t, err)
	require.Equal(t, withWarm, a2)
	m, err := DecodeMember(AppendMember(nil, exampleMember))
	require.NoError(t, err)
	require.Equal(t, exampleMember, m)
	a, err := DecodeAssigned(AppendAssigned(nil, exampleAssigned))
	require.NoError(t, err)
	require.Equal(t, exampleAssigned, a)
}

func TestCodecRefuses(t *testing.T) {
	m, _ := stateful()
	for _, good := range [][]byte{AppendMember(nil, exampleMember), AppendMember(nil, m)} {
		for n := range good {
			_, err := DecodeMember(good[:n])
			require.ErrorIs(t, err, ErrFormat, "%d bytes", n)
		}
		_, err := DecodeMember(append(good, 0))
		require.ErrorContains(t, err, "1 bytes too many")
	}
	_, err := DecodeAssigned([]byte{9})
	require.ErrorContains(t, err, "version 9, this release knows 1 and 2")
}

func FuzzDecodeMember(f *testing.F) {
	f.Add(AppendMember(nil, exampleMember))
	f.Add(AppendMember(nil, Member{}))
	m, _ := stateful()
	f.Add(AppendMember(nil, m))
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
	_, a := stateful()
	f.Add(AppendAssigned(nil, a))
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
