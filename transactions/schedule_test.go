package transactions

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidegate/tidegate/internal/ids"
)

// TestSchedules drives one Pool through random schedules against a model of
// the broker's transactions: answers come late, twice or never, checkpoints
// are aborted, tasks are rolled back. At the end exactly the output before the
// last completed checkpoint is visible, in order.
func TestSchedules(t *testing.T) {
	commits, aborts, lists, parts := 0, 0, 0, 0
	for seed := range uint64(300) {
		w := newWorld(seed, Rules{})
		w.run(400)
		require.NoError(t, w.check(), "seed %d", seed)
		commits += strings.Count(w.log, " commit\n")
		aborts += strings.Count(w.log, " abort\n")
		lists += w.longLists
		parts += w.parts
	}
	t.Logf("%d commits, %d aborts, %d decisions with several transactions", commits, aborts, lists)
	require.Greater(t, commits, 1000)
	require.Greater(t, aborts, 500)
	require.Greater(t, lists, 100)
	require.Greater(t, parts, 200)
}

// TestSchedulesNoticeMissingRules proves that the check above can fail.
func TestSchedulesNoticeMissingRules(t *testing.T) {
	for _, rule := range []string{"R16/AckEarly", "R16/ListNewestOnly", "R18/OneTransaction", "R18/NoOrderWait", "R20/KeepEpoch", "R20/InitEarly"} {
		rules, err := Without(rule)
		require.NoError(t, err)
		found := slices.ContainsFunc(slices.Collect(seeds(400)), func(seed uint64) bool { return schedule(seed, rules) != nil })
		require.True(t, found, "without %s nothing goes wrong", rule)
	}
}

func TestScheduleIsDeterministic(t *testing.T) {
	log := func() string {
		w := newWorld(3, Rules{})
		w.run(400)
		return w.log
	}
	require.Equal(t, log(), log())
}

func seeds(n uint64) func(func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for s := range n {
			if !yield(s) {
				return
			}
		}
	}
}

func schedule(seed uint64, rules Rules) error {
	w := newWorld(seed, rules)
	w.run(400)
	return w.check()
}

// world is the instance's surroundings: control log, tasks and broker.
type world struct {
	r       *rand.Rand
	pool    *Pool
	now     time.Duration
	pending []Effect        // not yet carried out
	ghosts  []Effect        // answered with NoAnswer, carried out later
	logged  []Event         // control-log records on their way back
	dropped []ids.TxnHandle // batches in flight in these may be given up
	grouped bool            // two groups, which are rolled back apart
	waiting []*modelTask    // for their Start
	parts   int             // partial rollbacks and joins
	log     string
	problem error

	longLists int // decisions that list several transactions

	tasks     []*modelTask
	running   bool
	trigger   ids.CheckpointID // undecided, or NoCheckpoint
	ready     bool
	next      ids.CheckpointID
	completed ids.CheckpointID
	busy      bool // Committed of the last completed checkpoint not read back
	batch     uint64

	brokerIDs map[string]*modelID
	records   map[ids.TopicPartition][]modelRecord
	group     map[ids.TopicPartition]int64
}

type modelTask struct {
	id      ids.TaskID
	away    bool // not on this instance
	passed  ids.CheckpointID
	written []modelRecord
	marks   map[ids.CheckpointID]int // len(written) at a barrier
	input   map[ids.CheckpointID]int64
	next    int64
}

type modelRecord struct {
	to    ids.TopicPartition
	task  ids.TaskID
	batch uint64
	txn   *modelTxn
}

type modelID struct {
	epoch int16
	txn   *modelTxn // the last of this epoch
}

type modelTxn struct {
	open, committed bool
	parts           map[ids.TopicPartition]bool
	offsets         map[ids.TopicPartition]int64
}

func newWorld(seed uint64, rules Rules) *world {
	w := &world{
		r: rand.New(rand.NewPCG(seed, 1)), trigger: ids.NoCheckpoint, next: 1,
		brokerIDs: map[string]*modelID{}, records: map[ids.TopicPartition][]modelRecord{}, group: map[ids.TopicPartition]int64{},
		grouped: seed%2 == 1,
	}
	w.pool = NewPool(Config{Application: "A", Life: 1, Instance: ids.InstanceID{Name: "i"}, ToleratedAborts: 1, Ahead: 1, Rules: rules})
	count := int32(3)
	if w.grouped {
		count = 5
	}
	for i := range count {
		w.tasks = append(w.tasks, &modelTask{id: ids.TaskID{Partition: i}, away: i > 2, marks: map[ids.CheckpointID]int{0: 0}, input: map[ids.CheckpointID]int64{0: 0}})
	}
	w.step(Opened{})
	w.start()
	return w
}

func (w *world) chance(percent int) bool { return w.r.IntN(100) < percent }

func (w *world) step(ev Event) {
	w.log += fmt.Sprintf("%T%v\n", ev, ev)
	for _, e := range w.pool.Step(ev) {
		w.log += "  " + show(e) + "\n"
		switch e := e.(type) {
		case Register:
			w.logged = append(w.logged, Registered(e))
		case WriteCommitted:
			w.logged = append(w.logged, CommittedRead{N: e.N})
		case ReadLog:
			w.logged = append(w.logged, LogRead{Handle: e.Handle})
		case Prepared:
			w.ready = w.ready || e.N == w.trigger
		case Drop:
			w.dropped = append(w.dropped, e.Txns...)
		case Lost:
			w.problem = e.Err
		case Failed, Fatal, Warn:
		default:
			w.pending = append(w.pending, e)
		}
	}
}

func (w *world) run(steps int) {
	for range steps {
		w.now += time.Millisecond
		switch {
		case w.problem != nil:
			return
		case len(w.pending) > 0 && w.chance(50):
			w.carryOut(w.pickPending())
		case len(w.logged) > 0 && w.chance(30):
			w.readLog()
		case len(w.ghosts) > 0 && w.chance(10):
			i := w.r.IntN(len(w.ghosts))
			e := w.ghosts[i]
			w.ghosts = slices.Delete(w.ghosts, i, i+1)
			_, _ = w.atBroker(e, true)
		case !w.running:
			if !w.busy && w.chance(30) {
				w.start()
			}
		case w.r.IntN(300) == 0:
			w.rollback()
		case len(w.waiting) > 0 && !w.busy && w.chance(20):
			w.startWaiting()
		case w.grouped && w.r.IntN(60) == 0:
			w.rollbackSome()
		case w.trigger == ids.NoCheckpoint && len(w.waiting) == 0 && w.chance(20):
			w.trigger, w.ready = w.next, false
			w.next++
		case w.trigger != ids.NoCheckpoint && w.chance(2):
			w.abort()
		case w.ready && !w.busy && w.chance(40):
			w.complete()
		case w.trigger != ids.NoCheckpoint && w.chance(35):
			w.pass(w.anyTask())
		default:
			if t := w.anyTask(); t != nil {
				w.write(t)
			}
		}
	}
	w.settle()
}

// settle takes one last checkpoint, or gives up on what is open, and answers
// everything.
func (w *world) settle() {
	if w.running {
		w.abortIfUndecided()
		w.rollback()
	}
	for (len(w.pending) > 0 || len(w.logged) > 0 || len(w.ghosts) > 0) && w.problem == nil {
		for len(w.pending) > 0 {
			w.carryOut(w.pickPending())
		}
		for len(w.logged) > 0 {
			w.readLog()
		}
		for _, e := range w.ghosts {
			_, _ = w.atBroker(e, true)
		}
		w.ghosts = nil
	}
}

func (w *world) start() {
	w.running = true
	w.waiting = slices.DeleteFunc(slices.Clone(w.tasks), func(t *modelTask) bool { return t.away })
	w.startWaiting()
}

func (w *world) startWaiting() {
	ev := Started{From: w.completed}
	for _, t := range w.waiting {
		t.passed = w.completed
		t.next = t.input[w.completed]
		ev.Tasks = append(ev.Tasks, StartTask{Task: t.id, Inputs: true, Group: w.groupOf(t)})
	}
	w.waiting = nil
	w.step(ev)
}

func (w *world) groupOf(t *modelTask) int32 {
	if w.grouped {
		return t.id.Partition % 2
	}
	return 0
}

// rollbackSome rolls one group back, or takes a task of another instance over
// that was lost: both without a word to the other group.
func (w *world) rollbackSome() {
	w.abortIfUndecided()
	w.parts++
	for _, t := range w.tasks {
		if t.away && w.chance(30) {
			t.away = false
			w.waiting = append(w.waiting, t)
			return
		}
	}
	g := int32(w.r.IntN(2))
	var ev RolledBack
	for _, t := range w.tasks {
		if w.groupOf(t) == g && !t.away && !slices.Contains(w.waiting, t) {
			ev.Tasks = append(ev.Tasks, t.id)
			t.written = t.written[:t.marks[w.completed]]
			w.waiting = append(w.waiting, t)
		}
	}
	if len(ev.Tasks) > 0 {
		w.step(ev)
	}
}

// anyTask is one that runs.
func (w *world) anyTask() *modelTask {
	t := w.tasks[w.r.IntN(len(w.tasks))]
	if t.away || slices.Contains(w.waiting, t) {
		return nil
	}
	return t
}

func (w *world) rollback() {
	w.running, w.waiting = false, nil
	w.abortIfUndecided()
	w.step(RolledBack{})
	for _, t := range w.tasks {
		t.written = t.written[:t.marks[w.completed]]
	}
}

func (w *world) abortIfUndecided() {
	if w.trigger != ids.NoCheckpoint {
		w.abort()
	}
}

func (w *world) abort() {
	n := w.trigger
	w.trigger, w.ready = ids.NoCheckpoint, false
	w.step(Aborted{N: n})
}

func (w *world) complete() {
	n := w.trigger
	w.trigger, w.ready = ids.NoCheckpoint, false
	var handles []ids.TxnHandle
	for _, l := range w.pool.Ack(n, w.now) {
		handles = append(handles, l.Handle)
	}
	w.completed, w.busy = n, len(handles) > 0
	for _, t := range w.tasks {
		if t.away {
			t.marks[n], t.input[n] = len(t.written), t.next
		}
	}
	if len(handles) > 1 {
		w.longLists++
	}
	w.step(Completed{N: n, Handles: handles})
}

func (w *world) readLog() {
	ev := w.logged[0]
	w.logged = w.logged[1:]
	if _, ok := ev.(CommittedRead); ok {
		w.busy = false
	}
	w.step(ev)
}

func (w *world) pass(t *modelTask) {
	if t == nil || t.passed == w.trigger {
		return
	}
	t.passed = w.trigger
	t.marks[w.trigger], t.input[w.trigger] = len(t.written), t.next
	in := Offset{Partition: ids.TopicPartition{Topic: "in", Partition: t.id.Partition}, Next: t.next}
	w.step(TaskPassed{Now: w.now, Task: t.id, N: w.trigger, Offsets: []Offset{in}})
}

func (w *world) write(t *modelTask) {
	w.batch++
	t.next++
	rec := modelRecord{to: ids.TopicPartition{Topic: "out", Partition: int32(w.r.IntN(2))}, task: t.id, batch: w.batch}
	t.written = append(t.written, rec)
	w.step(Write{Now: w.now, Task: t.id, Partition: rec.to, Batch: rec.batch})
}

// pickPending takes a random request, but the first of its kind where the
// connection keeps the order: batches of one transaction and partition.
func (w *world) pickPending() Effect {
	i := w.r.IntN(len(w.pending))
	if s, ok := w.pending[i].(Send); ok {
		i = slices.IndexFunc(w.pending, func(e Effect) bool {
			o, ok := e.(Send)
			return ok && o.Txn == s.Txn && o.Partition == s.Partition
		})
	}
	e := w.pending[i]
	w.pending = slices.Delete(w.pending, i, i+1)
	return e
}

// carryOut executes a request and answers it, or loses the answer, or answers
// nothing and executes it later.
func (w *world) carryOut(e Effect) {
	if s, ok := e.(Send); ok {
		if slices.Contains(w.dropped, s.Handle) && w.chance(50) {
			w.answer(e, Abandoned, 0)
			return
		}
		code, _ := w.atBroker(s, false)
		w.answer(e, code, 0)
		return
	}
	switch {
	case w.chance(8):
		w.ghosts = append(w.ghosts, e)
		w.answer(e, NoAnswer, 0)
	case w.chance(8):
		_, _ = w.atBroker(e, false)
		w.answer(e, NoAnswer, 0)
	case w.chance(8):
		w.answer(e, ConcurrentTransactions, 0)
	default:
		code, epoch := w.atBroker(e, false)
		w.answer(e, code, epoch)
	}
}

func (w *world) answer(e Effect, code Code, epoch int16) {
	switch e := e.(type) {
	case InitProducer:
		w.step(InitAnswer{Now: w.now, ID: e.ID, Epoch: epoch, Code: code})
	case AddPartitions:
		w.step(PartitionsAnswer{Now: w.now, Txn: e.Txn, Code: code})
	case AddOffsets:
		w.step(OffsetsAnswer{Now: w.now, Txn: e.Txn, Code: code})
	case Send:
		w.step(BatchAnswer{Now: w.now, Txn: e.Txn, Task: e.Task, Partition: e.Partition, Code: code})
	case End:
		w.step(EndAnswer{Now: w.now, Handle: e.Handle, Commit: e.Commit, Code: code})
	case Describe:
		ev := Described{Handle: e.Handle, Code: code, State: StateCompleteAbort}
		if m := w.brokerIDs[e.Handle.TransactionalID]; m != nil {
			ev.Epoch = m.epoch
			if m.txn != nil && m.txn.open {
				ev.State = StateOngoing
			} else if m.txn != nil && m.txn.committed {
				ev.State = StateCompleteCommit
			}
		}
		w.step(ev)
	}
}

// atBroker is what Kafka does with a request. A late AddOffsets only begins an
// empty transaction: offsets are refused outside the one they were sent for.
func (w *world) atBroker(e Effect, late bool) (Code, int16) {
	switch e := e.(type) {
	case InitProducer:
		m := w.brokerIDs[e.ID]
		if m == nil {
			m = &modelID{epoch: -1}
			w.brokerIDs[e.ID] = m
		}
		if m.txn != nil {
			m.txn.open = false
		}
		m.epoch, m.txn = m.epoch+1, nil
		return OK, m.epoch
	case AddPartitions:
		return w.inTxn(e.Handle, func(x *modelTxn) {
			for _, p := range e.Partitions {
				x.parts[p] = true
			}
		}), 0
	case AddOffsets:
		return w.inTxn(e.Handle, func(x *modelTxn) {
			for _, o := range e.Offsets {
				if !late {
					x.offsets[o.Partition] = o.Next
				}
			}
		}), 0
	case Send:
		m := w.brokerIDs[e.Handle.TransactionalID]
		if m.epoch != e.Handle.ProducerEpoch {
			return ProducerFenced, 0
		}
		if m.txn == nil || !m.txn.open || !m.txn.parts[e.Partition] {
			return InvalidTxnState, 0
		}
		w.records[e.Partition] = append(w.records[e.Partition], modelRecord{to: e.Partition, task: e.Task, batch: e.Batch, txn: m.txn})
	case End:
		return w.end(e), 0
	}
	return OK, 0
}

func (w *world) inTxn(h ids.TxnHandle, do func(*modelTxn)) Code {
	m := w.brokerIDs[h.TransactionalID]
	if m.epoch != h.ProducerEpoch {
		return ProducerFenced
	}
	if m.txn == nil || !m.txn.open {
		m.txn = &modelTxn{open: true, parts: map[ids.TopicPartition]bool{}, offsets: map[ids.TopicPartition]int64{}}
	}
	do(m.txn)
	return OK
}

func (w *world) end(e End) Code {
	m := w.brokerIDs[e.Handle.TransactionalID]
	switch {
	case m.epoch != e.Handle.ProducerEpoch:
		return ProducerFenced
	case m.txn == nil || (!m.txn.open && m.txn.committed != e.Commit):
		return InvalidTxnState
	case !m.txn.open:
		return OK
	}
	m.txn.open, m.txn.committed = false, e.Commit
	if e.Commit {
		for p, next := range m.txn.offsets {
			if next < w.group[p] {
				w.problem = fmt.Errorf("offset of %s moved back from %d to %d", p, w.group[p], next)
			}
			w.group[p] = next
		}
	}
	return OK
}

// check compares what a read_committed consumer sees with what the tasks wrote
// before the last completed checkpoint.
func (w *world) check() error {
	if w.problem != nil {
		return w.problem
	}
	for _, t := range w.tasks {
		for p := range int32(2) {
			to := ids.TopicPartition{Topic: "out", Partition: p}
			var want, got []uint64
			for _, r := range t.written {
				if r.to == to {
					want = append(want, r.batch)
				}
			}
			for _, r := range w.records[to] {
				if r.task == t.id && r.txn.committed && !r.txn.open {
					got = append(got, r.batch)
				}
			}
			if !slices.Equal(want, got) {
				return fmt.Errorf("task %s in %s: visible %v, want %v", t.id, to, got, want)
			}
		}
		in := ids.TopicPartition{Topic: "in", Partition: t.id.Partition}
		if w.group[in] != t.input[w.completed] {
			return fmt.Errorf("offset of %s: %d, want %d", in, w.group[in], t.input[w.completed])
		}
	}
	if !w.pool.Idle() {
		return fmt.Errorf("the pool waits for something")
	}
	return nil
}
