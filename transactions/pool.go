package transactions

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

// Config is what a Pool needs to know.
type Config struct {
	Application string
	Life        ids.Life
	Instance    ids.InstanceID
	// InFlight is the number of checkpoints that may be undecided at once;
	// 0 means 1.
	InFlight int
	// ToleratedAborts is the number of aborted checkpoints in a row that the
	// application bears; each may leave a prepared transaction waiting.
	ToleratedAborts int
	// Ahead is the number of transactional ids kept initialised for the next
	// transactions; 0 means 2.
	Ahead int
	// Rules is for tests only.
	Rules Rules
}

// Pool is the state machine of one instance's transactions; see the package
// comment for its states and invariants. It is not safe for concurrent use.
type Pool struct {
	cfg Config
	now time.Duration // the latest clock value that an event carried

	ids      []*txnID // in order of k
	warnedAt int      // pool size of the last warning
	inDoubt  int      // ids in a row whose InitProducerId got no definite answer

	tasks []*poolTask // sorted; those of the latest Started
	byID  map[ids.TaskID]*poolTask
	keys  []ids.CheckpointID // From and the barriers passed since, ascending
	open  []*barrier         // barriers not yet reported as Prepared, ascending
	gone  ids.CheckpointID   // the largest id known to be decided

	txns    []*txn // not ended, oldest first
	nextTxn TxnNumber
	start   int // number of the present Start: what older ones left is aborting or decided

	lanes  []*lane // in order of first use
	byLane map[laneKey]*lane

	finisher *Finisher
	queued   []Completed
	failed   bool // a Failed was reported and no Rollback came yet
	closing  bool

	eff []Effect
}

type poolTask struct {
	id     ids.TaskID
	inputs bool
	passed ids.CheckpointID
}

// barrier is a checkpoint that some task passed and that is not yet Prepared.
type barrier struct {
	n       ids.CheckpointID
	passed  int
	offsets []Offset
	full    bool
}

// NewPool returns a pool without ids and tasks; its first event is Opened.
func NewPool(cfg Config) *Pool {
	if cfg.InFlight == 0 {
		cfg.InFlight = 1
	}
	if cfg.Ahead == 0 {
		cfg.Ahead = 2
	}
	return &Pool{cfg: cfg, gone: ids.NoCheckpoint, byID: map[ids.TaskID]*poolTask{}, byLane: map[laneKey]*lane{}}
}

// Step advances the machine by one event and returns what to do, in order.
func (p *Pool) Step(ev Event) []Effect {
	p.eff = nil // the caller may keep what it got
	switch ev := ev.(type) {
	case Opened:
		p.register(p.comfortable())
	case Registered:
		p.registered(ev)
	case Started:
		p.started(ev)
	case Moved:
		p.moved(ev)
	case Write:
		p.tick(ev.Now)
		p.write(ev)
	case BatchAnswer:
		p.tick(ev.Now)
		p.batchAnswered(ev)
	case TaskPassed:
		p.tick(ev.Now)
		p.taskPassed(ev)
	case InitAnswer:
		p.tick(ev.Now)
		p.initAnswered(ev)
	case PartitionsAnswer:
		p.tick(ev.Now)
		p.partitionsAnswered(ev)
	case OffsetsAnswer:
		p.tick(ev.Now)
		p.offsetsAnswered(ev)
	case EndAnswer:
		p.tick(ev.Now)
		p.endAnswered(ev)
	case LogRead, Described:
		p.finish(ev)
	case Completed:
		p.completed(ev)
	case Aborted:
		p.aborted(ev.N)
	case CommittedRead:
		p.committedRead(ev.N)
	case RolledBack:
		p.stop(func(*txn) bool { return true })
	case Shutdown:
		p.closing = true
		p.stop(func(t *txn) bool { return !t.listed })
	}
	return p.eff
}

func (p *Pool) tick(now time.Duration) { p.now = max(p.now, now) }

func (p *Pool) emit(e Effect) { p.eff = append(p.eff, e) }

func (p *Pool) started(ev Started) {
	p.start++
	p.failed = false
	p.tasks, p.open = nil, nil
	p.keys = []ids.CheckpointID{ev.From}
	clear(p.byID)
	for _, t := range ev.Tasks {
		pt := &poolTask{id: t.Task, inputs: t.Inputs, passed: ev.From}
		p.tasks = append(p.tasks, pt)
		p.byID[t.Task] = pt
	}
	slices.SortFunc(p.tasks, func(a, b *poolTask) int { return a.id.Compare(b.id) })
}

// Writes returns the last barrier that the task passed: its output goes into
// the transaction behind that barrier. ok is false for a task that this
// instance does not run.
func (p *Pool) Writes(task ids.TaskID) (after ids.CheckpointID, ok bool) {
	t := p.byID[task]
	if t == nil {
		return ids.NoCheckpoint, false
	}
	if p.cfg.Rules.OneTransaction {
		return p.slowest(), true
	}
	return t.passed, true
}

// slowest returns the smallest barrier among those the tasks passed last.
func (p *Pool) slowest() ids.CheckpointID {
	low := p.tasks[0].passed
	for _, t := range p.tasks[1:] {
		low = min(low, t.passed)
	}
	return low
}

// taskPassed notes a snapshot. When the last task passed barrier n, the
// transactions that only it still wrote into are closed, and the offsets at n
// go into the transaction behind the barrier before n: that one was begun
// after the previous barrier whatever became of the earlier ones.
func (p *Pool) taskPassed(ev TaskPassed) {
	t := p.byID[ev.Task]
	if t == nil || ev.N <= t.passed {
		return
	}
	t.passed = ev.N
	if i, found := slices.BinarySearch(p.keys, ev.N); !found {
		p.keys = slices.Insert(p.keys, i, ev.N)
	}
	if b := p.barrierFor(ev.N); b != nil {
		b.passed++
		b.offsets = append(b.offsets, ev.Offsets...)
		if b.passed == len(p.tasks) {
			b.full = true
			p.offsetsDue(b)
		}
	}
	p.closePassed()
	p.settle()
}

// barrierFor returns the undecided barrier n, or nil if n was aborted before
// this task passed it: then nobody waits for it.
func (p *Pool) barrierFor(n ids.CheckpointID) *barrier {
	if n <= p.gone {
		return nil
	}
	i, found := slices.BinarySearchFunc(p.open, n, func(b *barrier, n ids.CheckpointID) int { return int(b.n - n) })
	if !found {
		p.open = slices.Insert(p.open, i, &barrier{n: n})
	}
	return p.open[i]
}

// offsetsDue gives the offsets of a barrier that all tasks passed to the
// transaction of the interval it ends, begun for them if need be. An instance
// with inputs does so at every barrier, changed or not (R18).
func (p *Pool) offsetsDue(b *barrier) {
	if !slices.ContainsFunc(p.tasks, func(t *poolTask) bool { return t.inputs }) || len(b.offsets) == 0 {
		return
	}
	slices.SortFunc(b.offsets, func(x, y Offset) int { return x.Partition.Compare(y.Partition) })
	i, _ := slices.BinarySearch(p.keys, b.n)
	t := p.txnAfter(p.keys[i-1])
	t.offsetsFor, t.offsets, t.offsetState = b.n, b.offsets, due
	p.assign()
	p.refill()
}

// closePassed closes the transactions that no task can write into any more.
func (p *Pool) closePassed() {
	low := p.slowest()
	for _, t := range p.txns {
		if t.start == p.start && t.after < low {
			t.closed = true
		}
	}
	i, _ := slices.BinarySearch(p.keys, low)
	p.keys = slices.Delete(p.keys, 0, i)
}

// settle moves every transaction as far as it can go by itself and reports
// barriers that became ready.
func (p *Pool) settle() {
	p.askOffsets()
	for _, t := range p.txns {
		if t.state == opened && t.settled() {
			t.state = prepared
		}
	}
	for len(p.open) > 0 && p.open[0].full && (p.cfg.Rules.AckEarly || p.allPrepared(p.open[0].n)) {
		n := p.open[0].n
		p.open = slices.Delete(p.open, 0, 1)
		p.emit(Prepared{N: n})
	}
}

func (p *Pool) allPrepared(n ids.CheckpointID) bool {
	for _, t := range p.txns {
		if t.start == p.start && t.after < n && (t.state == opened || t.state == broken) {
			return false
		}
	}
	return true
}

// Ack returns what the Ack of checkpoint n lists, oldest first: all prepared
// transactions that hold only output before n and that no completed checkpoint
// listed (R16). They count as listed from here on: a Shutdown leaves them
// alone. Call it when Prepared{n} was returned and the Ack is being made.
func (p *Pool) Ack(n ids.CheckpointID, now time.Duration) []Listed {
	p.tick(now)
	var list []Listed
	for _, t := range p.txns {
		if t.start != p.start || t.after >= n || !t.begun || (t.state != prepared && !p.cfg.Rules.AckEarly) || t.state == decided {
			continue
		}
		t.listed = true
		list = append(list, t.list(p.now))
	}
	if p.cfg.Rules.ListNewestOnly && len(list) > 1 {
		list = list[len(list)-1:]
	}
	return list
}

// aborted forgets that anybody waits for checkpoint n. Its transactions stay
// as they are (R21).
func (p *Pool) aborted(n ids.CheckpointID) {
	p.gone = max(p.gone, n)
	p.open = slices.DeleteFunc(p.open, func(b *barrier) bool { return b.n == n })
	p.settle()
}

// completed begins to commit exactly what the decision lists (R19). Barriers up
// to n are decided now, one way or the other (R3).
func (p *Pool) completed(ev Completed) {
	p.gone = max(p.gone, ev.N)
	p.open = slices.DeleteFunc(p.open, func(b *barrier) bool { return b.n <= ev.N })
	if p.finisher != nil {
		p.queued = append(p.queued, Completed{N: ev.N, Handles: slices.Clone(ev.Handles)})
		return
	}
	var list []Listed
	for _, h := range ev.Handles {
		t := p.byHandle(h)
		if t == nil {
			// Only possible if the caller passes another instance's list.
			p.emit(Warn{Text: fmt.Sprintf("checkpoint %d lists %s, which this instance does not hold", ev.N, h)})
			list = append(list, Listed{Handle: h})
			continue
		}
		t.state, t.listed = decided, true
		list = append(list, t.list(p.now))
	}
	p.finisher = NewFinisher(ev.N, p.cfg.Instance, list)
	p.eff = append(p.eff, p.finisher.Start()...)
	if p.finisher.Done() {
		p.finisher = nil
		return
	}
	if p.cfg.Rules.InitEarly {
		for _, t := range p.txns {
			if t.state == decided {
				p.release(t)
			}
		}
	}
}

func (p *Pool) finish(ev Event) {
	if p.finisher != nil {
		p.eff = append(p.eff, p.finisher.Step(ev)...)
	}
}

// committedRead frees the ids of checkpoint n's transactions: each has its
// definite answer, and the decision is known to be carried out (R20).
func (p *Pool) committedRead(n ids.CheckpointID) {
	if p.finisher == nil || p.finisher.N() != n {
		return
	}
	// The coordinator may have written it for us while we still ask: what has
	// no definite answer yet keeps its id for ever.
	answered := p.finisher.Done()
	gone := p.finisher.gone
	p.finisher = nil
	for _, t := range slices.Clone(p.txns) {
		if t.state != decided {
			continue
		}
		if !answered || slices.Contains(gone, t.handle) {
			t.id.kill()
		}
		p.remove(t)
		p.release(t)
	}
	if len(p.queued) > 0 {
		next := p.queued[0]
		p.queued = slices.Delete(p.queued, 0, 1)
		p.completed(next)
	}
}

// stop ends the tasks' writing and aborts their transactions: all of them that
// are undecided, or those that which chooses.
func (p *Pool) stop(which func(*txn) bool) {
	p.dropLanes()
	p.tasks, p.open, p.keys = nil, nil, nil
	clear(p.byID)
	for _, t := range slices.Clone(p.txns) {
		if t.state == decided || t.state == aborting || !which(t) {
			continue
		}
		if !t.begun {
			p.remove(t)
			p.giveBack(t)
			continue
		}
		t.state = aborting
		p.abort(t)
	}
	p.start++
	p.failed = false
}

// Idle reports whether no transaction is being ended: after a Shutdown, the
// instance may leave.
func (p *Pool) Idle() bool {
	if p.finisher != nil || len(p.queued) > 0 {
		return false
	}
	return !slices.ContainsFunc(p.txns, func(t *txn) bool { return t.state == aborting || t.state == decided })
}

// Undecided returns the number of transactions that were begun and not ended,
// and the age of the oldest: what R22 limits.
func (p *Pool) Undecided(now time.Duration) (count int, oldest time.Duration) {
	for _, t := range p.txns {
		if t.begun && t.state != aborting {
			count++
			oldest = max(oldest, now-t.began)
		}
	}
	return count, oldest
}
