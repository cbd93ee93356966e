package barrier

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/ids"
)

var instC = ids.InstanceID{Name: "c", Rand: 3}

// handover acks an announced handover and completes it with the given moves.
func (lt *logTest) handover(inc ids.Incarnation, planned, done []Move) (n ids.CheckpointID, x ids.Incarnation) {
	n = ids.CheckpointID(lt.ok(instA, Trigger{Term: 1, Moves: planned}))
	lt.ok(instA, Ack{N: n, Incarnation: inc, Oldest: inc})
	lt.ok(instB, Ack{N: n, Incarnation: inc, Oldest: inc})
	return n, ids.Incarnation(lt.ok(instA, Complete{Term: 1, N: n, Manifest: "m", Moves: done}))
}

// R25: what a Trigger may announce.
func TestLogMoves(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	own, other := lt.l.start.tasksOf(instA), lt.l.start.tasksOf(instB)
	lt.ok(instC, Register{})
	move := func(task ids.TaskID, to ids.InstanceID) []Move { return []Move{{task, to}} }
	for _, c := range []struct {
		moves []Move
		stop  bool
		why   string
	}{
		{move(own[0], instA), false, "to its owner"},
		{move(ids.TaskID{Sub: 9}, instC), false, "nobody owns"},
		{move(own[0], ids.InstanceID{Name: "z", Rand: 9}), false, "not registered"},
		{move(own[0], instC), true, "stop or move"},
		{[]Move{{other[0], instC}, {own[0], instC}}, false, "not sorted"},
		{[]Move{{own[0], instC}, {own[0], instB}}, false, "not sorted"},
	} {
		lt.void(instA, Trigger{Term: 1, Moves: c.moves, Stop: c.stop}, c.why)
	}

	n, x := lt.handover(inc, move(own[0], instC), move(own[0], instC))
	require.Equal(t, instC, lt.l.start.ownerOf(own[0]))
	require.Equal(t, x, lt.l.start.incOf(own[0]))
	require.Equal(t, inc, lt.l.start.incOf(other[0]))
	require.Equal(t, Lineage{{inc, n}, {x, ids.NoCheckpoint}}, lt.l.lineages.Of(own[0]))
	require.Equal(t, Lineage{{inc, ids.NoCheckpoint}}, lt.l.lineages.Of(other[0]))
	require.Equal(t, Lineage{{inc, ids.NoCheckpoint}}, lt.l.last().lineages.Of(own[0]), "as of the checkpoint")

	// R24 step 6 holds for what moved; records name the incarnation of their tasks.
	lt.void(instA, Trigger{Term: 1}, "not all tasks run")
	lt.void(instA, Running{Incarnation: inc, Tasks: own[:1]}, "others")
	lt.void(instC, Running{Incarnation: inc, Tasks: own[:1]}, "current incarnation")
	lt.void(instA, Failed{Incarnation: inc, Tasks: own[:1]}, "others")
	lt.ok(instC, Running{Incarnation: x, Tasks: own[:1]})
	m := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1}))
	lt.void(instC, Ack{N: m, Incarnation: inc}, "current incarnation")
	lt.ok(instC, Ack{N: m, Incarnation: x, Oldest: x})
	lt.ok(instB, Ack{N: m, Incarnation: inc, Oldest: inc})
	if len(own) > 1 {
		lt.void(instA, Complete{Term: 1, N: m}, "acks")
		lt.ok(instA, Ack{N: m, Incarnation: inc, Oldest: inc})
	}
	lt.ok(instA, Complete{Term: 1, N: m, Manifest: "m"})
}

// R25: only what was announced moves, and only to who is still there.
func TestLogHandover(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	own := lt.l.start.tasksOf(instA)
	lt.ok(instC, Register{})
	planned := []Move{{own[0], instC}}
	n := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1, Moves: planned}))
	lt.ok(instA, Ack{N: n, Incarnation: inc, Oldest: inc})
	lt.ok(instB, Ack{N: n, Incarnation: inc, Oldest: inc})
	lt.void(instA, Complete{Term: 1, N: n, Moves: []Move{{own[0], instB}}}, "does not move")
	lt.ok(instC, Leaving{})
	lt.void(instA, Complete{Term: 1, N: n, Moves: planned}, "dead or leaving")
	lt.ok(instA, Complete{Term: 1, N: n, Manifest: "m"})
	require.Equal(t, instA, lt.l.start.ownerOf(own[0]))
	require.Equal(t, inc, lt.l.start.incOf(own[0]))
	lt.void(instA, Trigger{Term: 1, Moves: planned}, "dead, leaving")

	// It left without a Rollback, so its name is forgotten without a fence.
	lt.void(instA, Fenced{Term: 1, Instance: instB}, "neither dead")
	lt.ok(instA, Fenced{Term: 1, Instance: instC})
	lt.void(instC, Register{}, "removed")
}

// R17, R25: an aborted handover counts for nothing but that an ordinary
// checkpoint comes before the next.
func TestLogHandoverAborted(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	own := lt.l.start.tasksOf(instA)
	lt.ok(instC, Register{})
	planned := []Move{{own[0], instC}}
	n := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1, Moves: planned}))
	lt.ok(instA, Abort{Term: 1, N: n, Reason: AbortTimeout})
	require.True(t, lt.l.heldUp)
	require.Zero(t, lt.l.aborts)
	require.Equal(t, inc, lt.l.start.incOf(own[0]))
	lt.handover(inc, nil, nil)
	require.False(t, lt.l.heldUp)
	lt.ok(instA, Trigger{Term: 1, Moves: planned})
	lt.ok(instA, Lead{Term: 2})
	require.True(t, lt.l.heldUp)
}

// Owners change by handovers, and every task keeps one.
func TestStartedGive(t *testing.T) {
	task := func(p int32) ids.TaskID { return ids.TaskID{Partition: p} }
	all := NewTaskSet(task(0), task(1), task(2))
	s := newStarted(7, Start{Owners: []Owner{{instA, TaskSet{task(0), task(1)}}, {instB, TaskSet{task(2)}}}}, all)
	s.running = all
	before := s.owners
	s.give(instC, TaskSet{task(1), task(2)}, 9)
	require.Equal(t, []Owner{{instA, TaskSet{task(0)}}, {instC, TaskSet{task(1), task(2)}}}, s.owners)
	require.Equal(t, []ids.Incarnation{7, 9, 9}, s.incs)
	require.Equal(t, TaskSet{task(0)}, s.running)
	require.Equal(t, TaskSet{task(0), task(1)}, before[0].Tasks, "what effects carry is not changed")
	s.give(instA, TaskSet{task(2)}, 11)
	require.Equal(t, []Owner{{instA, TaskSet{task(0), task(2)}}, {instC, TaskSet{task(1)}}}, s.owners)
	require.Equal(t, []ids.Incarnation{7, 9, 11}, s.incs)
	require.Equal(t, ids.Incarnation(11), s.newest(instA))
	require.Zero(t, s.newest(instB))
	require.True(t, s.ownerOf(task(9)).IsZero())
	require.Equal(t, TaskSet{task(0)}, s.asOf(instA, all, 7))
}
