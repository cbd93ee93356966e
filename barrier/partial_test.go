package barrier

import (
	"reflect"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

// R26: what rolls back with what fails.
func TestAffected(t *testing.T) {
	// 0 → 1 → 2 ⟲, and 3, which shares nothing with them; 1 has no transactions.
	graph := Graph{Subs: []SubGraph{
		{Readers: []int32{1}, Transacts: true}, {Readers: []int32{2}}, {Readers: []int32{2}, Transacts: true}, {Transacts: true},
	}}
	owners := []Owner{
		{instA, NewTaskSet(tid(0, 0), tid(0, 1), tid(1, 0), tid(2, 0), tid(3, 0), tid(3, 1))},
		{instB, NewTaskSet(tid(0, 2), tid(1, 1), tid(2, 1), tid(3, 2))},
	}
	all, _ := ownerTasks(owners)
	for name, c := range map[string]struct {
		g            Graph
		failed, want TaskSet
	}{
		"nothing":                             {graph, nil, nil},
		"alone, but for its group":            {graph, NewTaskSet(tid(3, 0)), NewTaskSet(tid(3, 0), tid(3, 1))},
		"alone on its instance":               {graph, NewTaskSet(tid(3, 2)), NewTaskSet(tid(3, 2))},
		"the first: its group and downstream": {graph, NewTaskSet(tid(0, 0)), NewTaskSet(tid(0, 0), tid(0, 1), tid(1, 0), tid(1, 1), tid(2, 0), tid(2, 1))},
		"without transactions":                {graph, NewTaskSet(tid(1, 1)), NewTaskSet(tid(1, 1), tid(2, 0), tid(2, 1))},
		"what reads itself":                   {graph, NewTaskSet(tid(2, 0)), NewTaskSet(tid(2, 0), tid(2, 1))},
		"two regions":                         {graph, NewTaskSet(tid(1, 0), tid(3, 2)), NewTaskSet(tid(1, 0), tid(2, 0), tid(2, 1), tid(3, 2))},
		"an unknown topology":                 {Graph{}, NewTaskSet(tid(3, 2)), all},
	} {
		if got := c.g.Affected(c.failed, owners, Rules{}); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// R4, R6, R24, R26: a Start behind a Rollback of one task starts exactly that.
func TestLogPartial(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	n := lt.completed(inc)
	lt.committed(n)
	one, other := logTasks[:1], logTasks[1:]
	undecided := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1}))
	if out := lt.put(instA, Rollback{Term: 1, N: n, Tasks: one}); len(out.Aborted) != 1 || out.Aborted[0].N != undecided {
		t.Errorf("aborted %v, want %d (R3)", out.Aborted, undecided)
	}
	lt.void(instA, Trigger{Term: 1}, "no tasks run")
	lt.void(instA, Failed{Incarnation: inc, Tasks: one, Error: "stopped"}, "current incarnation")
	lt.ok(instB, Failed{Incarnation: inc, Tasks: other, Error: "goes on, and fails"})
	lt.void(instA, startOf(1, n, 1), "a task failed that no Rollback names")
	lt.ok(instA, Rollback{Term: 1, N: n, Tasks: other})
	lt.ok(instA, startOf(1, n, 1))
	second := lt.l.start.at
	lt.ok(instA, Running{Incarnation: second, Tasks: one})
	lt.ok(instB, Running{Incarnation: second, Tasks: other})

	// Only one: the other goes on as what it is.
	lt.ok(instA, Rollback{Term: 1, N: n, Tasks: one})
	third := ids.Incarnation(lt.ok(instA, startOf(1, n, 1)))
	if got := []ids.Incarnation{lt.l.start.incOf(one[0]), lt.l.start.incOf(other[0])}; !reflect.DeepEqual(got, []ids.Incarnation{third, second}) {
		t.Errorf("incarnations %v", got)
	}
	for task, want := range map[ids.TaskID]Lineage{
		one[0]:   {{inc, n}, {third, ids.NoCheckpoint}}, // what it did as second is void
		other[0]: {{inc, n}, {second, ids.NoCheckpoint}},
	} {
		if got := lt.l.lineages.Of(task); !reflect.DeepEqual(got, want) {
			t.Errorf("lineage of %s %v, want %v (R6)", task, got, want)
		}
	}
	lt.void(instB, Running{Incarnation: third, Tasks: other}, "current incarnation")
	lt.void(instA, Trigger{Term: 1}, "not all tasks run")
	lt.ok(instA, Running{Incarnation: third, Tasks: one})
	m := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1}))
	lt.void(instA, Ack{N: m, Incarnation: second, Oldest: inc}, "current incarnation")
	lt.ok(instA, Ack{N: m, Incarnation: third, Oldest: inc})
	lt.ok(instB, Ack{N: m, Incarnation: second, Oldest: inc})
	lt.ok(instA, Complete{Term: 1, N: m, Manifest: "m2"})
}

// R24: the tasks of the dead roll back, whoever else does.
func TestLogPartialDead(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	n := lt.completed(inc)
	lt.committed(n)
	lt.ok(instA, Rollback{Term: 1, N: n, Tasks: logTasks[:1], Dead: []ids.InstanceID{instB}})
	s := startOf(1, n, 1)
	s.Owners = []Owner{{instA, logTasks[:1]}, {instB, logTasks[1:]}}
	lt.void(instA, s, "names the tasks of a dead instance")
}

// R3: a Restore takes all tasks back.
func TestLogPartialRestore(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	n := lt.completed(inc)
	lt.committed(n)
	lt.ok(instB, Restore{N: 0, Nonce: "x"})
	lt.void(instA, Rollback{Term: 1, N: 0, Tasks: logTasks[:1]}, "a Rollback of all tasks")
	lt.ok(instA, Rollback{Term: 1, N: 0, Tasks: logTasks})
}
