package rebalance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
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
		Members: []ids.InstanceID{{Name: "orders-1", Rand: 0xfeed}, {Name: "orders-12", Rand: 3}, {Name: "", Rand: 1}},
	}
)

// stateful are the examples with what version 2 adds.
func stateful() (Member, Assigned) {
	m, a := exampleMember, exampleAssigned
	m.Held = []Held{{Task: ids.TaskID{}, Size: 70000}, {Task: ids.TaskID{Sub: 1, Partition: 9}, Behind: math.MaxInt64}, {Task: ids.TaskID{Sub: 1, Partition: 10}, Size: 1, Position: 1 << 40}}
	a.Standbys = []ids.TaskID{{Sub: 3, Partition: 4}, {Sub: 3, Partition: 5}, {Sub: 3, Partition: 7}}
	a.Warm, a.Next = []ids.TaskID{{Sub: 1, Partition: 9}}, []ids.TaskID{{Sub: 2}, {Sub: 2, Partition: 1}}
	return m, a
}

// What version 1 wrote is read.
func TestCodecReadsVersion1(t *testing.T) {
	m, err := DecodeMember([]byte("\x01\x01a\x00\x00\x00\x00\x00\x00\x00\x07\x03\x01\x02f1\x02\x00\x00\x01\x05\x01\x04zone\x01z"))
	require.NoError(t, err)
	require.Equal(t, Member{
		Instance: ids.InstanceID{Name: "a", Rand: 7}, Generation: 3, Leaving: true, Fingerprint: "f1",
		Owned: []ids.TaskID{{}, {Sub: 1, Partition: 5}}, Tags: map[string]string{"zone": "z"},
	}, m)
	a, err := DecodeAssigned([]byte("\x01\x04\x02f1\x01\x00\x03\x01\x01a\x00\x00\x00\x00\x00\x00\x00\x07"))
	require.NoError(t, err)
	require.Equal(t, Assigned{
		Generation: 4, Fingerprint: "f1", Tasks: []ids.TaskID{{Partition: 3}}, Members: []ids.InstanceID{{Name: "a", Rand: 7}},
	}, a)
}

// The broker keeps all members' messages of a group in one record, of 1 MiB by
// default (the offsets topic's max.message.bytes).
func TestCodecIsCompact(t *testing.T) {
	var joins, syncs int
	r := rand.New(rand.NewPCG(1, 1))
	members := make([]ids.InstanceID, 200)
	for i := range members {
		members[i] = ids.InstanceID{Name: fmt.Sprintf("orders-service-%d", i), Rand: r.Uint64()}
	}
	for i, id := range members {
		m := Member{Instance: id, Generation: 9, Fingerprint: strings.Repeat("f", 64)}
		a := Assigned{Members: members, Fingerprint: m.Fingerprint}
		for n := range 50 { // 10,000 tasks of 13 subtopologies, one standby each
			own := ids.TaskID{Sub: int32(n % 13), Partition: int32(n/13*200 + i)}
			other := ids.TaskID{Sub: own.Sub, Partition: own.Partition + 1}
			a.Tasks, a.Standbys = append(a.Tasks, own), append(a.Standbys, other)
			for _, task := range []ids.TaskID{own, other} {
				m.Held = append(m.Held, Held{Task: task, Position: 1<<40 - int64(r.IntN(3)), Size: int64(r.IntN(1 << 30))})
			}
		}
		m.Owned = a.Tasks
		joins += len(AppendMember(nil, m))
		syncs += len(AppendAssigned(nil, a))
	}
	t.Logf("200 members, 10,000 tasks: %d KB in joins, %d KB in assignments", joins/1000, syncs/1000)
	require.Less(t, joins+syncs, 900_000)
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
	f.Add([]byte("\x01\x01a\x00\x00\x00\x00\x00\x00\x00\x07\x03\x01\x02f1\x02\x00\x00\x01\x05\x01\x04zone\x01z"))
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
