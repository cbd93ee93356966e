package barrier

import (
	"reflect"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

// R26: while tasks restore, checkpoints of the others hold them as they were. What
// the restoring ones do meanwhile is void with the next Start.
func TestLogCarries(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	n := lt.completed(inc)
	lt.committed(n)
	one, other := logTasks[:1], logTasks[1:]
	lt.void(instA, Trigger{Term: 1, Carried: one}, "took part in a checkpoint")
	lt.ok(instA, Rollback{Term: 1, N: n, Tasks: one})
	second := ids.Incarnation(lt.ok(instA, startOf(1, n, 1)))

	lt.void(instA, Trigger{Term: 1}, "not all tasks run")
	lt.void(instA, Trigger{Term: 1, Carried: other}, "not all tasks run")
	lt.void(instA, Trigger{Term: 1, Carried: one, Stop: true}, "stop or move")
	lt.void(instA, Trigger{Term: 1, Carried: one, Moves: []Move{{other[0], instA}}}, "stop or move")
	lt.void(instA, Trigger{Term: 1, Carried: logTasks}, "took part in a checkpoint")
	m := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1, Carried: one}))
	lt.void(instA, Ack{N: m, Incarnation: second, Oldest: inc}, "no task that takes part")
	lt.ok(instB, Ack{N: m, Incarnation: inc, Oldest: inc})
	lt.ok(instA, Complete{Term: 1, N: m, Manifest: "m2"})
	last := lt.l.last()
	if len(last.acks) != 1 || !last.acks[0].Tasks.Equal(other) {
		t.Errorf("acks %+v, want those of %v", last.acks, other)
	}
	if got, want := last.lineages.Of(one[0]), (Lineage{{inc, n}}); !reflect.DeepEqual(got, want) {
		t.Errorf("lineage of %s as of %d is %v, want %v: it ended at its own cut", one[0], m, got, want)
	}

	// Carried again, it runs, and rolls back before it took part: what it wrote as
	// second counts nowhere.
	m2 := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1, Carried: one}))
	lt.ok(instA, Running{Incarnation: second, Tasks: one})
	lt.ok(instB, Ack{N: m2, Incarnation: inc, Oldest: inc})
	lt.ok(instA, Complete{Term: 1, N: m2, Manifest: "m3"})
	lt.ok(instA, Rollback{Term: 1, N: m2, Tasks: one})
	third := ids.Incarnation(lt.ok(instA, startOf(1, m2, 1)))
	if got, want := lt.l.lineages.Of(one[0]), (Lineage{{inc, n}, {third, ids.NoCheckpoint}}); !reflect.DeepEqual(got, want) {
		t.Errorf("lineage of %s %v, want %v", one[0], got, want)
	}
	if got, want := lt.l.lineages.Of(other[0]), (Lineage{{inc, ids.NoCheckpoint}}); !reflect.DeepEqual(got, want) {
		t.Errorf("lineage of %s %v, want %v", other[0], got, want)
	}

	// With a checkpoint of its own it is as any other.
	lt.ok(instA, Running{Incarnation: third, Tasks: one})
	m3 := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1}))
	lt.ok(instA, Ack{N: m3, Incarnation: third, Oldest: inc})
	lt.ok(instB, Ack{N: m3, Incarnation: inc, Oldest: inc})
	lt.ok(instA, Complete{Term: 1, N: m3, Manifest: "m4"})
	lt.void(instA, Trigger{Term: 1, Carried: one}, "took part in a checkpoint")
}

// What a Restore went back to may have positions below the log's start: they are
// moved up by who starts from it, and not by a checkpoint that repeats them (R29).
func TestNothingIsCarriedFromARestore(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	n := lt.completed(inc)
	lt.committed(n)
	m := lt.completed(inc)
	lt.committed(m)
	lt.ok(instA, Restore{N: n, Nonce: "1"})
	lt.ok(instA, Rollback{Term: 1, N: n, Tasks: logTasks})
	second := ids.Incarnation(lt.ok(instA, startOf(1, n, 1)))
	lt.ok(instB, Running{Incarnation: second, Tasks: logTasks[1:]})
	lt.void(instA, Trigger{Term: 1, Carried: logTasks[:1]}, "target of a Restore")
}

// The coordinator carries what does not run with everything downstream of it.
func TestCoordinatorCarries(t *testing.T) {
	graph := Graph{Subs: []SubGraph{{Readers: []int32{1}, Transacts: true}, {Transacts: true}, {Transacts: true}}}
	all := NewTaskSet(tid(0, 0), tid(0, 1), tid(1, 0), tid(1, 1), tid(2, 0), tid(2, 1))
	owners := []Owner{{instA, NewTaskSet(tid(0, 0), tid(1, 0), tid(2, 0))}, {instB, NewTaskSet(tid(0, 1), tid(1, 1), tid(2, 1))}}
	for name, c := range map[string]struct {
		idle, fresh, want TaskSet
		ok                bool
	}{
		"all run":                        {nil, all, nil, true},
		"the last of a region":           {NewTaskSet(tid(1, 0)), NewTaskSet(tid(1, 0)), NewTaskSet(tid(1, 0)), true},
		"the first, and what reads it":   {NewTaskSet(tid(0, 0)), NewTaskSet(tid(0, 0), tid(1, 0), tid(1, 1)), NewTaskSet(tid(0, 0), tid(1, 0), tid(1, 1)), true},
		"one that moved":                 {NewTaskSet(tid(1, 0)), nil, NewTaskSet(tid(1, 0)), false},
		"one whose reader takes part":    {NewTaskSet(tid(0, 0)), NewTaskSet(tid(0, 0)), NewTaskSet(tid(0, 0), tid(1, 0), tid(1, 1)), false},
		"nobody would be left":           {all, all, all, false},
		"started together, of one group": {NewTaskSet(tid(2, 0)), NewTaskSet(tid(2, 0), tid(2, 1)), NewTaskSet(tid(2, 0)), true},
	} {
		m := &Machine{log: &Log{
			start:     &started{owners: owners, tasks: all, running: all.Minus(c.idle), fresh: c.fresh},
			completed: []*completed{{ref: CheckpointRef{N: 7}}},
		}}
		m.cfg.Graph = graph
		got, ok := m.coord.carried(m)
		if ok != c.ok || !got.Equal(c.want) {
			t.Errorf("%s: %v %t, want %v %t", name, got, ok, c.want, c.ok)
		}
	}
}
