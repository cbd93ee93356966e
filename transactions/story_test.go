package transactions

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

// TestStories runs testdata: each file is a story told to one Pool, and its
// golden output is the log of effects. Commands:
//
//	open                                start the pool
//	start from=0 tasks=(0_0,1_0) inputs=(0_0)
//	moved n=10 gone=(0_0) tasks=(0_1) inputs=(0_1)   a handover at checkpoint 10
//	carry n=10 tasks=(0_0)              these take no part in checkpoint 10
//	write 0_0 out-1 batch=7 [times=(5,9)]
//	pass 0_0 n=10 [offsets=(in-0@5)]
//	answer                              answer everything pending with OK, until quiet
//	answer KIND [code=N] [pid=N] [epoch=N] [state=S] [committed]
//	                                    answer the oldest pending request of a kind
//	hold                                print what is pending
//	complete n=10 · abort n=10 · committed n=10 · rollback · shutdown
//	ack n=10                            print the list of an Ack and remember it for complete
//	clock 30s                           advance the monotonic clock
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{pids: map[string]int64{}, acks: map[ids.CheckpointID][]Listed{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(t, d)
			if s.out.Len() == 0 {
				return "ok\n"
			}
			return s.out.String()
		})
	})
}

type story struct {
	pool    *Pool
	now     time.Duration
	pending []Effect
	pids    map[string]int64 // producer epochs given out, per id
	acks    map[ids.CheckpointID][]Listed
	out     strings.Builder
}

func (s *story) run(t *testing.T, d *datadriven.TestData) {
	switch d.Cmd {
	case "open":
		cfg := Config{Application: "A", Life: 1, Instance: ids.InstanceID{Name: "i", Rand: 2}, ToleratedAborts: 1, Ahead: 1}
		if d.HasArg("without") {
			var rule string
			d.ScanArgs(t, "without", &rule)
			var err error
			cfg.Rules, err = Without(rule)
			require.NoError(t, err)
		}
		s.pool = NewPool(cfg)
		s.step(Opened{})
	case "start":
		s.step(Started{From: checkpoint(t, d, "from"), Tasks: startTasks(t, d)})
	case "carry":
		ev := Carried{N: checkpoint(t, d, "n")}
		for _, st := range startTasks(t, d) {
			ev.Tasks = append(ev.Tasks, st.Task)
		}
		s.step(ev)
	case "moved":
		ev := Moved{N: checkpoint(t, d, "n"), Come: startTasks(t, d)}
		for _, a := range d.CmdArgs {
			for _, v := range a.Vals {
				if a.Key == "gone" {
					id, err := ids.ParseTaskID(v)
					require.NoError(t, err)
					ev.Gone = append(ev.Gone, id)
				}
			}
		}
		s.step(ev)
	case "write":
		s.write(t, d)
	case "pass":
		task, err := ids.ParseTaskID(d.CmdArgs[0].Key)
		require.NoError(t, err)
		s.step(TaskPassed{Now: s.now, Task: task, N: checkpoint(t, d, "n"), Offsets: offsets(t, d)})
	case "answer":
		s.answer(t, d)
	case "hold":
		for _, e := range s.pending {
			fmt.Fprintln(&s.out, show(e))
		}
	case "complete":
		n := checkpoint(t, d, "n")
		var handles []ids.TxnHandle
		for _, l := range s.acks[n] {
			handles = append(handles, l.Handle)
		}
		s.step(Completed{N: n, Handles: handles})
	case "abort":
		s.step(Aborted{N: checkpoint(t, d, "n")})
	case "committed":
		s.step(CommittedRead{N: checkpoint(t, d, "n")})
	case "rollback":
		s.step(RolledBack{})
	case "shutdown":
		s.step(Shutdown{})
	case "idle":
		fmt.Fprintln(&s.out, s.pool.Idle())
	case "ack":
		s.ack(checkpoint(t, d, "n"))
	case "clock":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		require.NoError(t, err)
		s.now += by
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
}

func (s *story) step(ev Event) {
	for _, e := range s.pool.Step(ev) {
		fmt.Fprintln(&s.out, show(e))
		switch e.(type) {
		case Warn, Failed, Fatal, Lost, Prepared, Drop:
		default:
			s.pending = append(s.pending, e)
		}
	}
}

func (s *story) write(t *testing.T, d *datadriven.TestData) {
	task, err := ids.ParseTaskID(d.CmdArgs[0].Key)
	require.NoError(t, err)
	w := Write{Now: s.now, Task: task, Partition: partition(t, d.CmdArgs[1].Key), FirstTime: 1, LastTime: 1}
	d.ScanArgs(t, "batch", &w.Batch)
	if d.HasArg("times") {
		d.ScanArgs(t, "times", &w.FirstTime, &w.LastTime)
	}
	s.step(w)
}

func (s *story) ack(n ids.CheckpointID) {
	s.acks[n] = s.pool.Ack(n, s.now)
	for _, l := range s.acks[n] {
		fmt.Fprintf(&s.out, "%s age %s topics %v times %d..%d\n", short(l.Handle), l.Age, l.Topics, l.FirstTime, l.LastTime)
	}
}

// answer answers one kind of request with a code, or everything with OK.
func (s *story) answer(t *testing.T, d *datadriven.TestData) {
	if len(d.CmdArgs) == 0 {
		for rounds := 0; len(s.pending) > 0; rounds++ {
			require.Less(t, rounds, 1000, "the pool asks for ever")
			e := s.pending[0]
			s.pending = s.pending[1:]
			s.step(s.answerTo(t, d, e))
		}
		return
	}
	kind := d.CmdArgs[0].Key
	i := slices.IndexFunc(s.pending, func(e Effect) bool { return strings.HasPrefix(show(e), kind) })
	require.GreaterOrEqual(t, i, 0, "no %s is pending", kind)
	e := s.pending[i]
	s.pending = slices.Delete(s.pending, i, i+1)
	s.step(s.answerTo(t, d, e))
}

func (s *story) answerTo(t *testing.T, d *datadriven.TestData, e Effect) Event {
	code := OK
	if d.HasArg("code") {
		var c int
		d.ScanArgs(t, "code", &c)
		code = Code(c)
	}
	switch e := e.(type) {
	case Register:
		return Registered(e)
	case InitProducer:
		s.pids[e.ID]++
		return InitAnswer{Now: s.now, ID: e.ID, ProducerID: 100, Epoch: int16(s.pids[e.ID] - 1), Code: code}
	case AddPartitions:
		return PartitionsAnswer{Now: s.now, Txn: e.Txn, Code: code}
	case AddOffsets:
		return OffsetsAnswer{Now: s.now, Txn: e.Txn, Code: code}
	case Send:
		return BatchAnswer{Now: s.now, Txn: e.Txn, Task: e.Task, Partition: e.Partition, Code: code}
	case End:
		return EndAnswer{Now: s.now, Handle: e.Handle, Commit: e.Commit, Code: code}
	case WriteCommitted:
		return CommittedRead{N: e.N}
	case ReadLog:
		return LogRead{Handle: e.Handle, Committed: d.HasArg("committed")}
	case Describe:
		ev := Described{Handle: e.Handle, Code: code, ProducerID: e.Handle.ProducerID, Epoch: e.Handle.ProducerEpoch}
		if d.HasArg("epoch") {
			var epoch int
			d.ScanArgs(t, "epoch", &epoch)
			ev.Epoch = int16(epoch)
		}
		if d.HasArg("state") {
			var state string
			d.ScanArgs(t, "state", &state)
			ev.State = TxnState(state)
		}
		return ev
	}
	t.Fatalf("%T has no answer", e)
	return nil
}

func checkpoint(t *testing.T, d *datadriven.TestData, key string) ids.CheckpointID {
	var n int
	d.ScanArgs(t, key, &n)
	return ids.CheckpointID(n)
}

func startTasks(t *testing.T, d *datadriven.TestData) []StartTask {
	var out []StartTask
	for _, a := range d.CmdArgs {
		for _, v := range a.Vals {
			switch a.Key {
			case "tasks":
				id, err := ids.ParseTaskID(v)
				require.NoError(t, err)
				out = append(out, StartTask{Task: id})
			case "inputs":
				i := slices.IndexFunc(out, func(s StartTask) bool { return s.Task.String() == v })
				out[i].Inputs = true
			}
		}
	}
	return out
}

func offsets(t *testing.T, d *datadriven.TestData) []Offset {
	var out []Offset
	for _, a := range d.CmdArgs {
		if a.Key != "offsets" {
			continue
		}
		for _, v := range a.Vals {
			tp, at, _ := strings.Cut(v, "@")
			next, err := strconv.ParseInt(at, 10, 64)
			require.NoError(t, err)
			out = append(out, Offset{Partition: partition(t, tp), Next: next, LeaderEpoch: -1})
		}
	}
	return out
}

func partition(t *testing.T, s string) ids.TopicPartition {
	topic, p, _ := strings.Cut(s, "-")
	n, err := strconv.Atoi(p)
	require.NoError(t, err)
	return ids.TopicPartition{Topic: topic, Partition: int32(n)}
}

func shortID(s string) string { return "#" + s[strings.LastIndex(s, "-")+1:] }

func short(h ids.TxnHandle) string {
	return fmt.Sprintf("%s:%d", shortID(h.TransactionalID), h.ProducerEpoch)
}

func again(attempt int) string {
	if attempt == 0 {
		return ""
	}
	return fmt.Sprintf(" again(%d)", attempt)
}

// show prints an effect on one line, with ids and handles shortened to #k and
// #k:epoch.
func show(e Effect) string {
	switch e := e.(type) {
	case Register:
		var names []string
		for _, id := range e.IDs {
			names = append(names, shortID(id))
		}
		return fmt.Sprintf("register %v", names)
	case InitProducer:
		return fmt.Sprintf("init %s%s", shortID(e.ID), again(e.Attempt))
	case AddPartitions:
		return fmt.Sprintf("partitions txn %d %s %v%s", e.Txn, short(e.Handle), e.Partitions, again(e.Attempt))
	case AddOffsets:
		var parts []string
		for _, o := range e.Offsets {
			parts = append(parts, fmt.Sprintf("%s@%d", o.Partition, o.Next))
		}
		return fmt.Sprintf("offsets txn %d %s of %d %v%s", e.Txn, short(e.Handle), e.N, parts, again(e.Attempt))
	case Send:
		return fmt.Sprintf("send txn %d %s task %s to %s batch %d", e.Txn, short(e.Handle), e.Task, e.Partition, e.Batch)
	case Drop:
		return fmt.Sprintf("drop %v", e.Batches)
	case End:
		what := "abort"
		if e.Commit {
			what = "commit"
		}
		return fmt.Sprintf("end %s %s%s", short(e.Handle), what, again(e.Attempt))
	case Prepared:
		return fmt.Sprintf("prepared %d", e.N)
	case WriteCommitted:
		return fmt.Sprintf("write committed %d", e.N)
	case ReadLog:
		return fmt.Sprintf("read log for %s of %d", short(e.Handle), e.N)
	case Describe:
		return fmt.Sprintf("describe %s%s", short(e.Handle), again(e.Attempt))
	case Lost:
		return "lost: " + e.Err.Error()
	case Failed:
		return fmt.Sprintf("failed %v: %v", e.Tasks, e.Err)
	case Fatal:
		return "fatal: " + e.Err.Error()
	case Warn:
		return "warn: " + e.Text
	}
	return fmt.Sprintf("%T", e)
}
