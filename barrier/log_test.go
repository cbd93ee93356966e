package barrier

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

// logTest writes records and says what must become of them.
type logTest struct {
	t   *testing.T
	l   *Log
	seq map[ids.InstanceID]uint64
}

var logTasks = NewTaskSet(tid(0, 0), tid(0, 1))

func newLogTest(t *testing.T) *logTest {
	lt := &logTest{t: t, l: NewLog(Rules{}), seq: map[ids.InstanceID]uint64{}}
	lt.ok(instA, Life{Life: testLife})
	return lt
}

func (lt *logTest) put(id ids.InstanceID, b Body) Outcome {
	lt.t.Helper()
	lt.seq[id]++
	out, err := lt.l.Apply(lt.l.End(), Record{Instance: id, Seq: lt.seq[id], Body: b})
	if err != nil {
		lt.t.Fatal(err)
	}
	return out
}

// ok wants a valid record; it returns its offset.
func (lt *logTest) ok(id ids.InstanceID, b Body) int64 {
	lt.t.Helper()
	if out := lt.put(id, b); !out.Valid() {
		lt.t.Fatalf("%s of %s is void: %s", describeBody(b), id, out.Void)
	}
	return lt.l.End() - 1
}

// void wants a void record, which must change nothing (F2).
func (lt *logTest) void(id ids.InstanceID, b Body, why string) {
	lt.t.Helper()
	before := lt.l.View()
	out := lt.put(id, b)
	if out.Valid() || !strings.Contains(out.Void, why) {
		lt.t.Errorf("%s of %s: void %q, want %q", describeBody(b), id, out.Void, why)
	}
	after := lt.l.View()
	after.End = before.End
	if !reflect.DeepEqual(before, after) {
		lt.t.Errorf("void %s changed the fold:\n%+v\n%+v", describeBody(b), before, after)
	}
}

// group lets a and b report generation g.
func (lt *logTest) group(g int32, a, b TaskSet) {
	lt.t.Helper()
	both := []ids.InstanceID{instA, instB}
	lt.ok(instA, Assigned{Generation: g, Tasks: a, Members: both, Fingerprint: "f"})
	lt.ok(instB, Assigned{Generation: g, Tasks: b, Members: both, Fingerprint: "f"})
}

func startOf(term int64, n ids.CheckpointID, g int32) Start {
	return Start{Term: term, N: n, Generation: g, Fingerprint: "f", Owners: []Owner{{instA, logTasks[:1]}, {instB, logTasks[1:]}}}
}

// started brings the log to a running first Start and returns its incarnation.
func (lt *logTest) started() ids.Incarnation {
	lt.t.Helper()
	lt.ok(instA, Register{TxnIDs: []string{"a0"}})
	lt.ok(instB, Register{TxnIDs: []string{"b0"}})
	lt.ok(instA, Lead{Term: 1})
	lt.group(1, logTasks[:1], logTasks[1:])
	lt.ok(instA, Complete{Term: 1, N: 0, Manifest: "m0"})
	inc := ids.Incarnation(lt.ok(instA, startOf(1, 0, 1)))
	lt.ok(instA, Running{Incarnation: inc, Tasks: logTasks[:1]})
	lt.ok(instB, Running{Incarnation: inc, Tasks: logTasks[1:]})
	return inc
}

func txnsOf(id string) []Txn { return []Txn{{Handle: ids.TxnHandle{TransactionalID: id}}} }

// completed runs one checkpoint up to its Complete.
func (lt *logTest) completed(inc ids.Incarnation) ids.CheckpointID {
	lt.t.Helper()
	n := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1}))
	lt.ok(instA, Ack{N: n, Incarnation: inc, Oldest: inc, Txns: txnsOf("a0")})
	lt.ok(instB, Ack{N: n, Incarnation: inc, Oldest: inc, Txns: txnsOf("b0")})
	lt.ok(instA, Complete{Term: 1, N: n, Manifest: "m"})
	return n
}

// committed commits what both listed in checkpoint n.
func (lt *logTest) committed(n ids.CheckpointID) {
	lt.t.Helper()
	lt.ok(instA, Committed{N: n, Owner: instA})
	lt.ok(instB, Committed{N: n, Owner: instB})
}

// F1, and the beginning of the log.
func TestLogOrder(t *testing.T) {
	l := NewLog(Rules{})
	if _, err := l.Apply(0, Record{Instance: instA, Seq: 1, Body: Leaving{}}); !errors.Is(err, ErrLogNoLife) {
		t.Errorf("a log without Life: %v", err)
	}
	lt := newLogTest(t)
	if _, err := lt.l.Apply(5, Record{Instance: instA, Seq: 2, Body: Register{}}); !errors.Is(err, ErrLogGap) {
		t.Errorf("a gap: %v", err)
	}
	if out, err := lt.l.Apply(0, Record{Instance: instA, Seq: 1, Body: Life{}}); err != nil || out.Valid() {
		t.Errorf("an offset read before: %+v, %v", out, err)
	}
	lt.void(instB, Life{Life: 1}, "not registered")
	if lt.l.View().Life != testLife {
		t.Error("a second Life counts")
	}
}

// R2: records of unknown instances, copies, and the removed.
func TestLogMembers(t *testing.T) {
	lt := newLogTest(t)
	lt.void(instB, Lead{Term: 1}, "not registered")
	lt.seq[instB] = 0
	lt.ok(instB, Register{TxnIDs: []string{"x"}})
	lt.ok(instB, Register{TxnIDs: []string{"x", "y"}})
	if got := lt.l.View().Instances[0].TxnIDs; !reflect.DeepEqual(got, []string{"x", "y"}) {
		t.Errorf("ids %v", got)
	}
	lt.seq[instB]--
	lt.void(instB, Leaving{}, "a copy")
	lt.seq[instA] = 7
	lt.void(instA, Register{}, "removed")
}

// R2: terms.
func TestLogTerms(t *testing.T) {
	lt := newLogTest(t)
	lt.started()
	lt.void(instB, Trigger{Term: 1}, "not of the leader")
	lt.void(instA, Lead{Term: 1}, "has a leader")
	lt.ok(instB, Lead{Term: 5})
	lt.void(instA, Trigger{Term: 1}, "not of the leader")
	lt.void(instA, Trigger{Term: 5}, "not of the leader")
	lt.void(instB, Trigger{Term: 1}, "not of the leader")
	lt.ok(instB, Trigger{Term: 5})
}

// R3: the decision.
func TestLogDecision(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	n := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1}))
	lt.void(instA, Trigger{Term: 1}, "undecided")
	lt.void(instA, Complete{Term: 1, N: n}, "acks")
	lt.void(instB, Ack{N: n, Incarnation: inc - 1}, "incarnation")
	lt.void(instB, Ack{N: n + 1, Incarnation: inc}, "not undecided")
	lt.ok(instA, Ack{N: n, Incarnation: inc, Oldest: inc, Txns: txnsOf("a0")})
	lt.void(instA, Ack{N: n, Incarnation: inc}, "answered")
	lt.void(instA, Decline{N: n}, "answered")
	lt.ok(instB, Ack{N: n, Incarnation: inc, Oldest: inc})
	lt.void(instA, Complete{Term: 1, N: n - 1}, "not undecided")
	lt.void(instA, Complete{Term: 1, N: n, Moves: []Move{{}}}, "does not move")
	lt.ok(instA, Complete{Term: 1, N: n, Manifest: "m"})
	lt.void(instA, Abort{Term: 1, N: n}, "not undecided")

	// The next one completes only when this one is fully committed.
	m := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1}))
	lt.ok(instA, Ack{N: m, Incarnation: inc, Oldest: inc})
	lt.ok(instB, Ack{N: m, Incarnation: inc, Oldest: inc})
	lt.void(instA, Complete{Term: 1, N: m}, "not fully committed")
	lt.void(instA, Committed{N: n, Owner: instB}, "neither") // a term of 0 is the owner's
	lt.void(instB, Committed{N: n, Owner: instB}, "nothing")
	lt.void(instB, Committed{Term: 1, N: n, Owner: instA}, "neither")
	lt.void(instA, Committed{N: m, Owner: instA}, "not the last")
	lt.ok(instA, Committed{N: n, Owner: instA})
	lt.void(instA, Committed{N: n, Owner: instA}, "nothing")
	lt.ok(instA, Complete{Term: 1, N: m, Manifest: "m"})
	lt.void(instA, Complete{Term: 1, N: 0, Manifest: "m"}, "checkpoint 0")
}

// R3: Lead, Rollback and Restore abort what is undecided.
func TestLogAborts(t *testing.T) {
	for name, body := range map[string]func(n ids.CheckpointID) (ids.InstanceID, Body, AbortReason){
		"lead": func(ids.CheckpointID) (ids.InstanceID, Body, AbortReason) { return instB, Lead{Term: 2}, AbortLead },
		"rollback": func(ids.CheckpointID) (ids.InstanceID, Body, AbortReason) {
			return instA, Rollback{Term: 1, Tasks: logTasks}, AbortRollback
		},
		"restore": func(ids.CheckpointID) (ids.InstanceID, Body, AbortReason) { return instB, Restore{N: 0}, AbortRestore },
		"abort": func(n ids.CheckpointID) (ids.InstanceID, Body, AbortReason) {
			return instA, Abort{Term: 1, N: n, Reason: AbortDeclined}, AbortDeclined
		},
	} {
		lt := newLogTest(t)
		lt.started()
		n := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1}))
		id, b, reason := body(n)
		out := lt.put(id, b)
		for i := range out.Aborted {
			out.Aborted[i].Detail = ""
		}
		if want := []AbortedCheckpoint{{N: n, Reason: reason}}; !reflect.DeepEqual(out.Aborted, want) || lt.l.View().Undecided != ids.NoCheckpoint {
			t.Errorf("%s: %+v", name, out)
		}
		if counted := lt.l.View().Aborts; (counted == 1) != (name == "abort") {
			t.Errorf("%s: counted %d (R17)", name, counted)
		}
	}
}

// R24: what a Start needs.
func TestLogStart(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	n := lt.completed(inc)
	lt.void(instA, startOf(1, n, 1), "not fully committed")
	lt.committed(n)
	lt.void(instA, startOf(1, 0, 1), "last completed")
	lt.void(instA, startOf(1, n, 1), "no Rollback")
	lt.ok(instA, Rollback{Term: 1, N: n, Tasks: logTasks[:1]})
	lt.ok(instA, Rollback{Term: 1, N: n, Tasks: logTasks[1:]})
	lt.void(instA, Trigger{Term: 1}, "no tasks run")
	lt.void(instA, Running{Incarnation: inc, Tasks: logTasks[:1]}, "current incarnation")
	lt.void(instA, startOf(1, n, 2), "not counted")
	other := startOf(1, n, 1)
	other.Owners = []Owner{{instA, logTasks}}
	lt.void(instA, other, "other owners")
	lt.ok(instB, Lead{Term: 2})
	lt.void(instB, startOf(2, n, 1), "not counted") // Assigned before the Lead
	lt.group(1, logTasks[:1], logTasks[1:])
	lt.void(instB, startOf(2, n, 1), "of its term")
	lt.ok(instB, Rollback{Term: 2, N: n, Tasks: logTasks})
	next := ids.Incarnation(lt.ok(instB, startOf(2, n, 1)))
	want := Lineage{{inc, n}, {next, ids.NoCheckpoint}}
	if got := lt.l.View().Lineages.Of(logTasks[0]); !reflect.DeepEqual(got, want) {
		t.Errorf("lineage %v, want %v (R6)", got, want)
	}
	lt.void(instA, Running{Incarnation: inc, Tasks: logTasks[:1]}, "current incarnation")
	lt.void(instA, Running{Incarnation: next, Tasks: logTasks[1:]}, "others")
	lt.void(instB, Trigger{Term: 2}, "not all tasks run")
}

// R24, R27: who is outside the generation must be named dead; the dead are
// silent for ever; Fenced removes them when nothing of them is open.
func TestLogDead(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	n := lt.completed(inc)
	lt.ok(instA, Committed{N: n, Owner: instA})
	alone := []ids.InstanceID{instA}
	lt.ok(instA, Assigned{Generation: 2, Tasks: logTasks, Members: alone, Fingerprint: "f"})
	start := Start{Term: 1, N: n, Generation: 2, Fingerprint: "f", Owners: []Owner{{instA, logTasks}}}
	lt.void(instA, Rollback{Term: 1, N: n, Tasks: logTasks, Dead: []ids.InstanceID{instA}}, "is the writer")
	lt.void(instA, Rollback{Term: 1, N: 0, Tasks: logTasks}, "last completed")
	lt.ok(instA, Rollback{Term: 1, N: n, Tasks: logTasks})
	lt.void(instA, Fenced{Term: 1, Instance: instB}, "neither dead")
	lt.ok(instA, Rollback{Term: 1, N: n, Tasks: logTasks, Dead: []ids.InstanceID{instB}}) // they add up
	lt.void(instB, Committed{N: n, Owner: instB}, "dead")
	lt.void(instB, Register{TxnIDs: []string{"z"}}, "dead")
	lt.void(instA, Fenced{Term: 1, Instance: instB}, "uncommitted")
	lt.ok(instA, Committed{Term: 1, N: n, Owner: instB})
	lt.ok(instA, start)
	lt.ok(instA, Fenced{Term: 1, Instance: instB})
	lt.void(instA, Fenced{Term: 1, Instance: instB}, "not registered")
	lt.void(instB, Leaving{}, "not registered")
	lt.seq[instB] = 0
	lt.void(instB, Register{TxnIDs: []string{"x"}}, "removed") // a late copy of its first record

	lt = newLogTest(t)
	inc = lt.started()
	lt.ok(instA, Assigned{Generation: 2, Tasks: logTasks, Members: alone, Fingerprint: "f"})
	lt.ok(instA, Rollback{Term: 1, N: 0, Tasks: logTasks})
	start.N = 0
	lt.void(instA, start, "not named dead")
	_ = inc
}

// R26: Failed counts only for the current incarnation.
func TestLogFailed(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	lt.void(instA, Failed{Incarnation: inc - 1, Tasks: logTasks[:1]}, "current")
	lt.void(instA, Failed{Incarnation: inc, Tasks: logTasks[1:]}, "others")
	lt.void(instA, Failed{Incarnation: inc}, "others")
	lt.ok(instA, Failed{Incarnation: inc, Tasks: logTasks[:1], Error: "e"})
	lt.ok(instA, Rollback{Term: 1, N: 0, Tasks: logTasks})
	lt.void(instA, Failed{Incarnation: inc, Tasks: logTasks[:1]}, "current")
}

// R3, R28, R30: Restore and Retire.
func TestLogRestore(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	n := lt.completed(inc)
	lt.void(instB, Restore{N: 0}, "not fully committed")
	lt.committed(n)
	m := lt.completed(inc)
	lt.committed(m)
	lt.void(instA, Retire{Term: 1, N: m}, "last completed")
	lt.ok(instA, Retire{Term: 1, N: 0})
	lt.void(instB, Restore{N: 0}, "retired")
	lt.ok(instB, Restore{N: n, Nonce: "x"})
	lt.void(instA, Restore{N: n, Nonce: "x"}, "done before")
	if v := lt.l.View(); len(v.Kept) != 1 || v.Kept[0].N != n || !v.RollingBack || !lt.l.restored {
		t.Errorf("%+v", v)
	}
	lt.void(instA, startOf(1, n, 1), "waits for its Rollback")
	lt.void(instA, Rollback{Term: 1, N: m, Tasks: logTasks}, "last completed")
	lt.ok(instA, Rollback{Term: 1, N: n, Tasks: logTasks})
	lt.ok(instA, startOf(1, n, 1))
}

// R24 step 6, R25: a stop ends the tasks of the Start.
func TestLogStop(t *testing.T) {
	lt := newLogTest(t)
	inc := lt.started()
	n := ids.CheckpointID(lt.ok(instA, Trigger{Term: 1, Stop: true}))
	lt.ok(instA, Ack{N: n, Incarnation: inc, Oldest: inc})
	lt.ok(instB, Ack{N: n, Incarnation: inc, Oldest: inc})
	lt.ok(instA, Complete{Term: 1, N: n, Manifest: "m"})
	if !lt.l.View().Stopped {
		t.Error("not stopped")
	}
	lt.void(instA, Trigger{Term: 1}, "no tasks run")
	lt.void(instA, Forfeit{Term: 1}, "not the last completed checkpoint")
}

// R22: contradictory settings are refused, and named.
func TestConfigCheck(t *testing.T) {
	cfg := Config{Self: instA, Tasks: logTasks}
	if _, err := NewMachine(cfg); err != nil {
		t.Errorf("the defaults contradict each other: %v", err)
	}
	cfg.TransactionTimeout = 60_000
	if _, err := NewMachine(cfg); err == nil || !strings.Contains(err.Error(), "checkpoint timeout 60000") {
		t.Errorf("a short transaction timeout: %v", err)
	}
	if _, err := NewMachine(Config{Self: instA}); !errors.Is(err, errNoTasks) {
		t.Errorf("no tasks: %v", err)
	}
}
