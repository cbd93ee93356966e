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
	// Groups is how many groups of tasks the instance may have, each with
	// transactions of its own; 0 means 1.
	Groups int
	// Ahead is the number of transactional ids kept initialised for the next
	// transactions; 0 means one more than Groups.
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

	groups []*group // with tasks, by number
	byID   map[ids.TaskID]*poolTask
	gone   ids.CheckpointID // the largest id known to be decided

	txns    []*txn // not ended, oldest first
	nextTxn TxnNumber
	start   int // counts Started

	lanes  []*lane // in order of first use
	byLane map[laneKey]*lane

	finisher *Finisher
	queued   []Completed
	closing  bool

	eff []Effect
}

// NewPool returns a pool without ids and tasks; its first event is Opened.
func NewPool(cfg Config) *Pool {
	if cfg.InFlight == 0 {
		cfg.InFlight = 1
	}
	cfg.Groups = max(cfg.Groups, 1)
	if cfg.Ahead == 0 {
		cfg.Ahead = cfg.Groups + 1
	}
	return &Pool{cfg: cfg, gone: ids.NoCheckpoint, byID: map[ids.TaskID]*poolTask{}, byLane: map[laneKey]*lane{}}
}

// Step advances the machine by one event and returns what to do, in order.
func (p *Pool) Step(ev Event) []Effect {
	p.eff = nil // the caller may keep what it got
	switch ev := ev.(type) {
	case Opened:
		p.register(p.first())
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
	case Carried:
		for _, id := range ev.Tasks {
			if t := p.byID[id]; t != nil {
				t.carried = ev.N
			}
		}
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
		p.rolledBack(ev.Tasks)
	case Shutdown:
		p.closing = true
		p.stop(p.allTasks(), func(t *txn) bool { return !t.listed })
	}
	return p.eff
}

func (p *Pool) tick(now time.Duration) { p.now = max(p.now, now) }

func (p *Pool) emit(e Effect) { p.eff = append(p.eff, e) }

// started adds the tasks of a Start to those that go on.
func (p *Pool) started(ev Started) {
	p.start++
	for _, t := range ev.Tasks {
		p.add(t, ev.From, p.start)
	}
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
		return t.g.slowest(), true
	}
	return t.passed, true
}

// taskPassed notes a snapshot. When the last task of a group passed barrier n,
// the transactions that only it still wrote into are closed, and the offsets at
// n go into the transaction behind the barrier before n: that one was begun
// after the previous barrier whatever became of the earlier ones.
func (p *Pool) taskPassed(ev TaskPassed) {
	t := p.byID[ev.Task]
	if t == nil || ev.N <= t.passed {
		return
	}
	g := t.g
	t.passed, t.start = ev.N, g.start
	g.note(ev.N)
	if b := p.barrierFor(g, ev.N); b != nil {
		b.passed++
		b.offsets = append(b.offsets, ev.Offsets...)
		if b.passed == g.takesPart(ev.N) {
			b.full = true
			p.offsetsDue(g, b)
		}
	}
	p.closePassed(g, ev.N)
	p.settle()
}

// barrierFor returns the undecided barrier n, or nil if n was aborted before
// this task passed it: then nobody waits for it.
func (p *Pool) barrierFor(g *group, n ids.CheckpointID) *barrier {
	if n <= p.gone {
		return nil
	}
	return g.barrier(n)
}

// offsetsDue gives the offsets of a barrier that all tasks of a group passed to
// its transaction of the interval that the barrier ends, begun for them if need
// be. A group with inputs does so at every barrier, changed or not (R18).
func (p *Pool) offsetsDue(g *group, b *barrier) {
	if !g.readsInputs() || len(b.offsets) == 0 {
		return
	}
	slices.SortFunc(b.offsets, func(x, y Offset) int { return x.Partition.Compare(y.Partition) })
	i, _ := slices.BinarySearch(g.keys, b.n)
	t := p.txnAfter(g, g.start, g.keys[i-1])
	t.offsetsFor, t.offsets, t.offsetState = b.n, b.offsets, due
	p.assign()
	p.refill()
}

// closePassed closes the transactions of a group that no task can write into
// any more, now that one passed barrier n.
func (p *Pool) closePassed(g *group, n ids.CheckpointID) {
	for _, t := range p.txns {
		if t.g == g && t.after < g.writes(t.start, n) {
			t.closed = true
		}
	}
	i, _ := slices.BinarySearch(g.keys, g.slowest())
	g.keys = slices.Delete(g.keys, 0, i)
}

// settle moves every transaction as far as it can go by itself and reports
// barriers that became ready: those that all groups are ready for of which tasks
// pass them.
func (p *Pool) settle() {
	p.askOffsets()
	for _, t := range p.txns {
		if t.state == opened && t.settled() {
			t.state = prepared
		}
	}
	for {
		n, ok := p.firstOpen()
		waits := func(g *group) bool { return !g.ready(n) && g.takesPart(n) > 0 }
		if !ok || slices.ContainsFunc(p.groups, waits) || !p.cfg.Rules.AckEarly && !p.allPrepared(n) {
			return
		}
		for _, g := range p.groups {
			if g.ready(n) {
				g.open = slices.Delete(g.open, 0, 1)
			}
		}
		p.emit(Prepared{N: n})
	}
}

// firstOpen returns the smallest barrier that some group waits for.
func (p *Pool) firstOpen() (n ids.CheckpointID, ok bool) {
	for _, g := range p.groups {
		if len(g.open) > 0 && (!ok || g.open[0].n < n) {
			n, ok = g.open[0].n, true
		}
	}
	return n, ok
}

func (p *Pool) allPrepared(n ids.CheckpointID) bool {
	for _, t := range p.txns { // one that is not closed is of carried tasks
		if t.g != nil && t.after < n && t.closed && (t.state == opened || t.state == broken) {
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
		if t.g == nil || t.after >= n || !t.begun || (t.state != prepared && !p.cfg.Rules.AckEarly) || t.state == decided {
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
	for _, g := range p.groups {
		g.open = slices.DeleteFunc(g.open, func(b *barrier) bool { return b.n == n })
	}
	p.settle()
}

// completed begins to commit exactly what the decision lists (R19). Barriers up
// to n are decided now, one way or the other (R3).
func (p *Pool) completed(ev Completed) {
	p.gone = max(p.gone, ev.N)
	for _, g := range p.groups {
		g.open = slices.DeleteFunc(g.open, func(b *barrier) bool { return b.n <= ev.N })
	}
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
	p.finisher.rules = p.cfg.Rules
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

// rolledBack stops tasks; none means all of them.
func (p *Pool) rolledBack(list []ids.TaskID) {
	if list == nil {
		list = p.allTasks()
	}
	p.stop(list, func(*txn) bool { return true })
}

func (p *Pool) allTasks() []ids.TaskID {
	var out []ids.TaskID
	for _, g := range p.groups {
		for _, t := range g.tasks {
			out = append(out, t.id)
		}
	}
	return out
}

// stop ends the writing of tasks, which are whole groups, and aborts the
// transactions of their groups: all of them that are undecided, or those that
// which chooses.
func (p *Pool) stop(list []ids.TaskID, which func(*txn) bool) {
	groups := p.removeTasks(list)
	p.dropLanes(list)
	for _, t := range slices.Clone(p.txns) {
		if t.g == nil || !slices.Contains(groups, t.g) {
			continue
		}
		if t.state == decided || !which(t) {
			t.g = nil
			continue
		}
		t.g = nil
		if !t.begun {
			p.remove(t)
			p.giveBack(t)
			continue
		}
		t.state = aborting
		p.abort(t)
	}
	for _, g := range groups {
		g.failed = false
	}
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
