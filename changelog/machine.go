package changelog

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/restart"
)

// Config of a Machine; times in milliseconds.
type Config struct {
	Self     ids.InstanceID
	Interval int64
	// IdleInterval is when an interval ends in which nothing seemed to happen.
	IdleInterval     int64
	ShutdownDeadline int64
	// GenerationTimeout is how long a commit waits for the group's next generation
	// when its offsets were refused for want of it; 0: for ever. After it the
	// transaction has timed out anyway, or the coordinator's answer was wrong.
	GenerationTimeout int64
	// Restart says whether and when tasks start again after a failure.
	Restart restart.Strategy
}

// phase is where the commit cycle stands.
type phase uint8

const (
	open       phase = iota // tasks process; records are sent
	collecting              // tasks pass the commit point, one by one
	flushing                // the last records are acknowledged
	offsets                 // offsets are added, as a member of a generation
	waiting                 // for a generation in which they can be added
	ending                  // the commit is on its way
)

// runState is where a task stands.
type runState uint8

const (
	starting runState = iota // restoring
	running
	draining // to be closed behind the next commit
	closing
)

// task is one task that this instance has something of.
type task struct {
	run       ids.Incarnation
	state     runState
	triggered bool // its commit point is on the way
	stopped   bool // with the order to stop there
	passed    bool
}

// Machine decides what one instance does in changelog mode. It has no clock, no
// I/O and no goroutine: Step takes an event and the time and returns effects.
//
// The commit cycle of an interval n:
//
//	       interval over, hurry            all passed          acknowledged
//	open ───────────────────────► collecting ───────► flushing ───────────► offsets
//	 ▲                                  │                        next       │  ▲ │
//	 │  nothing written or moved        │                 generation? ─► waiting │
//	 ├──────────────────────────────────┘                                        │
//	 └──────────────────────────────────────────────────────────── ending ◄──────┘
//	      committed: apply, open n+1                    any failure: drop, start again
//
// A task:
//
//	assigned       running            not assigned, or stop   committed      closed
//	────► starting ────────► running ─────────────────► draining ───► closing ───►
//	         └─────────────────┴─── not assigned (starting), failure ──► ▲
//
// Invariants:
//
//	M1  A run of a task is started once, and another one of the task only when
//	    the one before is closed.
//	M2  Offsets of n are sent when all its records are acknowledged, the end when
//	    the offsets were taken, interval n+1 when the end was answered.
//	M3  Offsets name the member under which every task of the interval was
//	    assigned. With another member id all tasks are dropped: in between they
//	    may have been somebody else's.
//	M4  What the group is told to be owned holds every task that is not closed
//	    or that may be started.
type Machine struct {
	cfg Config

	member     string
	generation int32
	assigned   []ids.TaskID // sorted
	instances  []ids.InstanceID
	tasks      map[ids.TaskID]*task
	nextRun    ids.Incarnation

	n          ids.CheckpointID // the open interval
	phase      phase
	began      int64
	hurry      bool
	wrote      bool
	moved      bool
	usedGen    int32
	waitsSince int64 // in phase waiting
	restarts   *restart.Policy
	startAgain int64 // not before; 0: at any time
	setBack    bool  // a failure closed all tasks, and none was started since
	released   bool  // a task was closed that is not ours any more: join again

	stopping bool
	stopBy   int64
	result   error
	exited   bool
	reported DoReport
	owned    []ids.TaskID

	out []Effect
}

// NewMachine returns the machine of an instance that is not in the group yet.
func NewMachine(cfg Config) *Machine {
	return &Machine{cfg: cfg, restarts: restart.NewPolicy(cfg.Restart), tasks: map[ids.TaskID]*task{}, n: 1, nextRun: 1}
}

// Joins returns the interval of which a task is that begins to run now. The
// shell asks just before EvRunning and hands the task to its worker in between,
// so that a commit point sent because of EvRunning finds it there.
func (m *Machine) Joins() ids.CheckpointID {
	if m.phase != open {
		return m.n + 1 // the commit point of n was sent without it
	}
	return m.n
}

// Step takes an event at a time in milliseconds of a clock that does not go
// back. The effects are valid until the next call.
func (m *Machine) Step(now int64, ev Event) []Effect {
	m.out = m.out[:0]
	if m.exited {
		return nil
	}
	switch ev := ev.(type) {
	case EvTick:
		m.tick(now, ev.Dirty)
	case EvHurry:
		m.hurry = true
		m.maybeCommit(now, true)
	case EvAssigned:
		m.assign(now, ev)
	case EvDropped:
		m.dropped(now, "the consumer group dropped this instance: it was silent for longer than the session timeout")
	case EvRunning:
		if t := m.find(ev.TaskRun); t != nil && t.state == starting {
			t.state = running
		}
	case EvClosed:
		m.closed(now, ev.TaskRun)
	case EvPassed:
		m.passed(now, ev)
	case EvWrote:
		m.wrote = m.wrote || ev.N == m.n
	case EvFlushed:
		m.flushed(now, ev)
	case EvOffsets:
		m.offsetsAnswered(now, ev)
	case EvEnded:
		m.ended(now, ev)
	case EvFailed:
		if !m.setBack { // else it is part of what was answered
			m.failed(now, ev.Err)
		}
	case EvFatal:
		m.fatal(now, ev.Err)
	case EvShutdown:
		m.shutdown(now)
	}
	m.settle(now)
	return m.out
}

func (m *Machine) do(e Effect) { m.out = append(m.out, e) }

func (m *Machine) find(r TaskRun) *task {
	if t := m.tasks[r.Task]; t != nil && t.run == r.Run {
		return t
	}
	return nil
}

// sorted lists the tasks at hand in order.
func (m *Machine) sorted() []ids.TaskID {
	list := make([]ids.TaskID, 0, len(m.tasks))
	for id := range m.tasks {
		list = append(list, id)
	}
	slices.SortFunc(list, ids.TaskID.Compare)
	return list
}

func (m *Machine) tick(now int64, dirty bool) {
	if m.stopping && now >= m.stopBy && len(m.tasks) > 0 {
		m.stopBy = now + m.cfg.ShutdownDeadline
		m.do(DoWarn{Text: "the last commit did not end within the shutdown deadline; it is given up, and its input processed by the next owners"})
		m.drop(now)
	}
	if g := m.cfg.GenerationTimeout; m.phase == waiting && g > 0 && now-m.waitsSince >= g {
		m.failed(now, fmt.Errorf("commit offsets: the consumer group refused generation %d as not its present one, and named no other within %v", m.usedGen, time.Duration(g)*time.Millisecond))
	}
	m.maybeCommit(now, dirty)
}

// maybeCommit begins a commit when the interval is over.
func (m *Machine) maybeCommit(now int64, dirty bool) {
	if m.phase != open {
		return
	}
	over := now-m.began >= m.cfg.Interval && dirty || now-m.began >= max(m.cfg.IdleInterval, m.cfg.Interval)
	if over || m.hurry {
		m.commit(now)
	}
}

// commit sends the commit point to the tasks.
func (m *Machine) commit(now int64) {
	m.began, m.hurry = now, false
	tr := DoTrigger{N: m.n}
	for _, id := range m.sorted() {
		t := m.tasks[id]
		if t.state != running && t.state != draining {
			continue
		}
		t.triggered, t.passed = true, false
		run := TaskRun{id, t.run}
		if t.state == draining {
			t.stopped = true
			tr.Stop = append(tr.Stop, run)
		} else {
			tr.Tasks = append(tr.Tasks, run)
		}
	}
	if len(tr.Tasks)+len(tr.Stop) == 0 {
		return
	}
	m.phase, m.moved = collecting, false
	m.do(tr)
}

func (m *Machine) passed(now int64, ev EvPassed) {
	t := m.find(ev.TaskRun)
	if t == nil || m.phase != collecting || ev.N != m.n {
		return
	}
	t.passed = true
	m.moved = m.moved || ev.Moved
	for _, t := range m.tasks {
		if t.triggered && !t.passed {
			return
		}
	}
	if !m.wrote && !m.moved {
		m.finish(now, false)
		return
	}
	m.phase = flushing
	m.do(DoFlush{m.n})
}

func (m *Machine) flushed(now int64, ev EvFlushed) {
	switch {
	case m.phase != flushing || ev.N != m.n:
	case ev.Verdict != Done:
		m.failed(now, ev.Err)
	default:
		m.sendOffsets()
	}
}

func (m *Machine) sendOffsets() {
	m.phase, m.usedGen = offsets, m.generation
	m.do(DoOffsets{N: m.n, Member: m.member, Generation: m.generation})
}

func (m *Machine) offsetsAnswered(now int64, ev EvOffsets) {
	if m.phase != offsets || ev.N != m.n || ev.Generation != m.usedGen {
		return
	}
	switch ev.Verdict {
	case Done:
		m.phase = ending
		m.do(DoEnd{m.n})
	case NextGeneration:
		// The tasks are still ours: nobody gets them before they are closed
		// here, or this member is dropped.
		if m.phase, m.waitsSince = waiting, now; m.generation != m.usedGen {
			m.sendOffsets()
		}
	case NotMember:
		m.dropped(now, "the consumer group does not know this instance any more")
	default:
		m.failed(now, ev.Err)
	}
}

func (m *Machine) ended(now int64, ev EvEnded) {
	switch {
	case m.phase != ending || ev.N != m.n:
	case ev.Verdict != Done:
		m.failed(now, ev.Err)
	default:
		m.restarts.Progress()
		m.finish(now, true)
	}
}

// finish opens the next interval.
func (m *Machine) finish(now int64, committed bool) {
	m.do(DoApply{N: m.n, Committed: committed})
	var done []TaskRun
	for _, id := range m.sorted() {
		t := m.tasks[id]
		if t.stopped && t.passed {
			t.state = closing
			done = append(done, TaskRun{id, t.run})
		}
		t.triggered, t.passed, t.stopped = false, false, false
	}
	if len(done) > 0 {
		m.do(DoClose{done})
	}
	m.n++
	m.phase, m.began, m.wrote = open, now, false
	m.do(DoOpen{N: m.n, Fresh: committed})
}

// assign takes a new generation.
func (m *Machine) assign(now int64, ev EvAssigned) {
	if m.member != "" && ev.Member != m.member {
		m.dropped(now, "this instance was out of the consumer group for a while")
	}
	var gone []ids.InstanceID
	for _, i := range m.instances {
		if i != m.cfg.Self && !slices.Contains(ev.Instances, i) {
			gone = append(gone, i)
		}
	}
	m.instances = slices.Clone(ev.Instances)
	if len(gone) > 0 {
		m.do(DoFence{gone})
	}
	m.member, m.generation = ev.Member, ev.Generation
	m.assigned = slices.Clone(ev.Tasks)
	slices.SortFunc(m.assigned, ids.TaskID.Compare)
	if m.phase == waiting {
		m.sendOffsets()
	}
	m.revoke()
}

func (m *Machine) isAssigned(t ids.TaskID) bool {
	_, ok := slices.BinarySearchFunc(m.assigned, t, ids.TaskID.Compare)
	return ok
}

// revoke lets go of what is not assigned: running tasks behind a commit.
func (m *Machine) revoke() {
	var now []TaskRun
	for _, id := range m.sorted() {
		t := m.tasks[id]
		keep := m.isAssigned(id) && !m.stopping
		switch {
		case !keep && t.state == starting:
			t.state = closing
			now = append(now, TaskRun{id, t.run})
		case !keep && t.state == running:
			t.state, m.hurry = draining, true
		case keep && t.state == draining && !t.stopped:
			t.state = running // it is ours again
		}
	}
	if len(now) > 0 {
		m.do(DoClose{now})
	}
}

func (m *Machine) closed(now int64, r TaskRun) {
	t := m.find(r)
	if t == nil {
		return
	}
	delete(m.tasks, r.Task)
	if !m.isAssigned(r.Task) {
		m.released = true
	}
}

// dropped: the group gave the tasks away, or may have. Nothing of them counts.
func (m *Machine) dropped(now int64, why string) {
	if len(m.tasks) > 0 {
		m.do(DoWarn{Text: "dropping all tasks: " + why})
		m.drop(now)
	}
	m.member, m.generation, m.assigned = "", 0, nil
}

// failed gives the interval up and starts the tasks again after a while.
func (m *Machine) failed(now int64, err error) {
	v := m.restarts.Failed(time.Duration(now) * time.Millisecond)
	wait := v.Wait.Milliseconds()
	m.do(DoSetback{Err: err, Attempt: v.Attempt, Wait: wait, GiveUp: v.GiveUp})
	if v.GiveUp {
		m.fatal(now, fmt.Errorf("gave up restarting failed tasks: %s; state and offsets are intact; the last failure: %w", v.Why, err))
		return
	}
	m.startAgain, m.setBack = now+wait, true
	m.drop(now)
}

// drop closes all tasks and gives the interval up.
func (m *Machine) drop(now int64) {
	m.do(DoDrop{})
	var list []TaskRun
	for _, id := range m.sorted() {
		t := m.tasks[id]
		t.triggered, t.passed, t.stopped = false, false, false
		if t.state != closing {
			t.state = closing
			list = append(list, TaskRun{id, t.run})
		}
	}
	if len(list) > 0 {
		m.do(DoClose{list})
	}
	m.n++
	m.phase, m.began, m.wrote, m.hurry = open, now, false, false
	m.do(DoOpen{N: m.n, Fresh: true})
}

func (m *Machine) fatal(now int64, err error) {
	if m.result == nil {
		m.result = err
	}
	m.stopping, m.stopBy = true, now+m.cfg.ShutdownDeadline
	m.drop(now)
}

func (m *Machine) shutdown(now int64) {
	if m.stopping {
		return
	}
	m.stopping, m.stopBy = true, now+m.cfg.ShutdownDeadline
	m.revoke()
}

// settle does what follows from where everything stands.
func (m *Machine) settle(now int64) {
	if m.hurry && m.phase == open {
		m.commit(now)
	}
	m.start(now)
	m.tellOwned()
	if m.stopping && len(m.tasks) == 0 && m.phase == open {
		m.exited = true
		m.do(DoExit{m.result})
		return
	}
	m.report()
}

// start starts assigned tasks that are not here.
func (m *Machine) start(now int64) {
	if m.stopping || m.member == "" || now < m.startAgain {
		return
	}
	var st DoStart
	for _, id := range m.assigned {
		if m.tasks[id] == nil {
			m.tasks[id] = &task{run: m.nextRun}
			st.Tasks = append(st.Tasks, TaskRun{id, m.nextRun})
			m.nextRun++
		}
	}
	if len(st.Tasks) > 0 {
		m.setBack = false
		m.do(st)
	}
}

// tellOwned tells the group what is here or may be started any moment, and joins
// again when something was let go.
func (m *Machine) tellOwned() {
	owned := m.sorted()
	for _, id := range m.assigned {
		if m.tasks[id] == nil && !m.stopping {
			owned = append(owned, id)
		}
	}
	slices.SortFunc(owned, ids.TaskID.Compare)
	if !slices.Equal(owned, m.owned) {
		m.owned = owned
		m.do(DoOwned{owned})
	}
	if !m.released || m.member == "" || m.stopping {
		return
	}
	for id := range m.tasks {
		if !m.isAssigned(id) {
			return // more is coming
		}
	}
	m.released = false
	m.do(DoRejoin{})
}

// report shows where the instance stands: one that ran goes on doing so while
// tasks come and go, as long as one of them runs.
func (m *Machine) report() {
	r := DoReport{State: Running, Tasks: m.owned}
	runs := false
	for _, id := range m.sorted() {
		if m.tasks[id].state == starting {
			r.Restoring = append(r.Restoring, id)
		} else {
			runs = runs || m.tasks[id].state != closing
		}
	}
	switch {
	case m.stopping:
		r.State = Stopping
	case m.member == "":
		r.State = Joining
	case len(r.Restoring) > 0 && (!runs || m.reported.State != Running):
		r.State = Restoring
	case len(m.tasks)+len(m.assigned) > 0 && !runs:
		r.State = Restoring // what is closed starts again, or elsewhere
	}
	if r.State != m.reported.State || !slices.Equal(r.Tasks, m.reported.Tasks) || !slices.Equal(r.Restoring, m.reported.Restoring) {
		m.reported = r
		m.do(r)
	}
}
