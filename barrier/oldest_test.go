package barrier

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/ids"
)

// R6, R10, R25: two handovers in a row, with records of a cycle channel that
// were in flight in the first and that nobody read before the second: their
// incarnation is closed and not the writer's any more, and the third owner
// reads them all the same. (Seed 58771 of the simulation, whose shell said 0:
// that was taken for the present incarnation, and two loop outputs were lost.)
func TestOldestOverTwoHandovers(t *testing.T) {
	for _, c := range []struct {
		what string
		def  func(present ids.Incarnation) ids.Incarnation
	}{
		{"bounded by the present incarnation", func(present ids.Incarnation) ids.Incarnation { return present }},
		{"unknown", func(ids.Incarnation) ids.Incarnation { return 0 }},
	} {
		t.Run(c.what, func(t *testing.T) { twoHandovers(t, c.def) })
	}
}

func twoHandovers(t *testing.T, def func(present ids.Incarnation) ids.Incarnation) {
	lt := newLogTest(t)
	first := lt.started()
	u, other := lt.l.start.tasksOf(instA), lt.l.start.tasksOf(instB)
	lt.ok(instC, Register{})

	// All tasks move to c. What u wrote before its barrier is in flight.
	var moves []Move
	for _, task := range u.Union(other) {
		moves = append(moves, Move{task, instC})
	}
	n, second := lt.handover(first, moves, moves)
	lt.ok(instC, Running{Incarnation: second, Tasks: u.Union(other)})

	r := newReader([]AlignInput{{Partition: partitionOf(0), Cycle: u}})
	write := func(kind HeaderKind, inc ids.Incarnation, n ids.CheckpointID, records int) {
		r.write(0, Segment{Kind: kind, Life: testLife, Channel: Channel{u[0], inc}, N: n}, records)
	}
	var got []int64
	r.deliver = func(_ int, s Segment) { got = append(got, s.First) }
	drain := func() {
		for {
			if moved, _ := r.take(0); !moved {
				return
			}
		}
	}
	write(HeaderData, first, 0, 3)
	require.NoError(t, r.open(AlignConfig{
		Life: testLife, Lineages: lt.l.last().lineages, Positions: []PartitionPosition{FirstPosition(partitionOf(0), 0)}, LogEnd: int64(n),
	}))
	drain()
	positions := r.a.Positions() // as of n
	write(HeaderData, first, 0, 2)
	write(HeaderBarrier, first, n, 0)

	// c has read nothing of it when u moves on to b.
	require.NoError(t, r.open(AlignConfig{Life: testLife, Lineages: lt.l.lineages, Positions: positions, LogEnd: lt.l.End()}))
	back := []Move{{u[0], instB}}
	m := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1, Moves: back}))
	positions = r.a.Positions()
	write(HeaderBarrier, second, m, 0)
	lt.ok(instC, Ack{N: m, Incarnation: second, Oldest: Oldest(positions, def(second))})
	third := ids.Incarnation(lt.ok(instA, Complete{Term: 1, N: m, Manifest: "m", Moves: back}))
	require.Equal(t, Lineage{{first, n}, {second, m}, {third, ids.NoCheckpoint}}, lt.l.lineages.Of(u[0]))
	require.NoError(t, r.open(AlignConfig{Life: testLife, Lineages: lt.l.lineages, Positions: positions, LogEnd: lt.l.End()}))
	drain()
	require.Equal(t, []int64{0, 3, 5, 6}, got, "each segment once")

	// Once everything was read, the first incarnation is forgotten.
	lt.ok(instB, Running{Incarnation: third, Tasks: u})
	k := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1}))
	lt.ok(instB, Ack{N: k, Incarnation: third, Oldest: Oldest(r.a.Positions(), third)})
	lt.ok(instC, Ack{N: k, Incarnation: second, Oldest: second})
	lt.ok(instA, Complete{Term: 1, N: k, Manifest: "m"})
	require.Equal(t, Lineage{{second, m}, {third, ids.NoCheckpoint}}, lt.l.lineages.Of(u[0]))
}

// A shell that does not say what its channels stand in gets nothing forgotten:
// the machine does not fill in its own incarnation, which is the newest one.
func TestUnknownOldest(t *testing.T) {
	for _, mute := range []bool{false, true} {
		w := newWorld(2, Rules{})
		w.mute, w.quiet = mute, true
		w.boot("a")
		w.boot("b")
		w.run(2500)
		acks := 0
		for _, r := range w.log {
			if a, ok := r.Body.(Ack); ok {
				acks++
				require.Equal(t, mute, a.Oldest == 0, "ack of %d says %d", a.N, a.Oldest)
			}
		}
		require.NotZero(t, acks)
	}
}
