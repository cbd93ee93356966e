package sim

import (
	"time"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/transactions"
)

// process is a slot in which one instance after the other runs: the shell
// around the machines.
type process struct {
	w    *World
	slot int
	name string

	epoch    int // counts runs; what belongs to an older one is dropped
	up       bool
	stalled  int64 // until when
	parked   []func()
	hanging  int64 // tasks process nothing before this time
	lagging  int64 // the control log is not read before this time
	crashIn  int   // effects until a crash; 0: none planned
	retired  bool  // its name was taken over
	stopping bool  // asked to stop
	exited   bool  // ended by itself, after a clean stop

	id        ids.InstanceID
	m         *barrier.Machine
	life      ids.Life
	pool      *transactions.Pool
	asked     int // transactional ids the pool asked for
	events    []barrier.Event
	busy      bool // machine effects are being performed
	txnEvents []transactions.Event
	txnBusy   bool // pool effects are being performed
	logPos    int64
	begun     int64 // where the log began that it reads, if not at 0 and not folded yet

	member  membership
	load    int // counts DoStartTasks and DoStopTasks
	tasks   []*task
	jobs    []*producer // of the starts since the last one of all tasks
	cp      *checkpoint
	pre     barrier.DoPrefetch // the latest one
	fetched barrier.DoPrefetch // the latest one that was answered

	starting barrier.TaskSet // given, and not running yet
	checks   int             // DoCheckOffsets so far

	writers   []*sinkWriter
	batches   map[uint64][]output
	nextBatch uint64
	finishers []*finisher
	logEnds   []handleEnd
}

// handleEnd remembers the end of the control log for R23.
type handleEnd struct {
	handle ids.TxnHandle
	end    int64
}

// later plans fn in the present run of the process.
func (p *process) later(d int64, fn func()) { p.laterAs(p.epoch, d, fn) }

// laterAs plans fn in a run of the process: nothing happens if that run ended,
// and it waits while the process is stalled.
func (p *process) laterAs(epoch int, d int64, fn func()) {
	p.w.after(d, func() {
		switch {
		case p.epoch != epoch:
		case p.w.now < p.stalled:
			p.parked = append(p.parked, fn)
		default:
			p.run(fn)
		}
	})
}

// ended unwinds what a process was doing when its run ended in the middle of
// it: a crash between two effects leaves nothing of the rest undone or done.
type ended struct{}

// run does something in the process.
func (p *process) run(fn func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(ended); ok {
				return
			}
			if p.w.rules == (Rules{}) {
				panic(r)
			}
			p.w.fail("without the rule it panics: %v", r)
		}
	}()
	fn()
}

// stall stops the process, like SIGSTOP.
func (p *process) stall(d int64) {
	w := p.w
	w.tracef("%s stalls for %d", p.name, d)
	w.stats.Stalls++
	p.stalled = w.now + d
	epoch := p.epoch
	w.after(d, func() {
		if p.epoch != epoch {
			return
		}
		w.tracef("%s goes on", p.name)
		parked := p.parked
		p.parked = nil
		for i, fn := range parked {
			if p.epoch != epoch {
				return
			}
			if w.now < p.stalled {
				p.parked = append(p.parked, parked[i:]...)
				return
			}
			p.run(fn)
		}
	})
}

// crash ends the run at once; requests under way stay under way.
func (p *process) crash() {
	p.w.tracef("%s crashes", p.name)
	p.w.stats.Crashes++
	p.end()
}

// close ends a run that the machine ended: what no ack lists is aborted. The
// requests are sent once; what gets lost of them waits for a fence.
func (p *process) close() {
	p.dropTasks()
	p.poolStep(transactions.Shutdown{})
	p.end()
}

func (p *process) end() {
	p.epoch++
	p.up = false
	p.stalled, p.parked, p.crashIn = 0, nil, 0
	p.m, p.pool, p.events, p.busy = nil, nil, nil, false
	p.txnEvents, p.txnBusy = nil, false
	p.dropTasks()
	p.writers, p.batches, p.finishers, p.logEnds = nil, nil, nil, nil
	p.member, p.pre, p.fetched = membership{}, barrier.DoPrefetch{}, barrier.DoPrefetch{}
}

// start runs a new instance in the slot.
func (p *process) start() { p.run(p.boot) }

func (p *process) boot() {
	w := p.w
	if p.up || w.final {
		return
	}
	w.nextRun++
	p.up, p.exited, p.stopping = true, false, false
	p.id = ids.InstanceID{Name: p.name, Rand: w.nextRun}
	p.life, p.asked, p.logPos = 0, 0, 0
	p.batches = map[uint64][]output{}
	m, err := barrier.NewMachine(w.plan.config(w, p.id))
	if err != nil {
		w.fail("new machine: %v", err)
		return
	}
	w.tracef("%s starts as %d", p.name, w.nextRun)
	p.m = m
	w.stats.Starts++
	p.logPos, p.begun = w.log.start, w.log.start
	p.step(barrier.EvLogOpened{Start: w.log.start, End: int64(len(w.log.records))})
	p.tick()
	p.fetchLog()
}

// hasTwin reports whether another live process has the same stable name. The
// late first record of a dead one displaces its successor too, which then goes
// on as a new instance.
func (p *process) hasTwin() bool {
	for _, q := range p.w.procs {
		if q != p && q.name == p.name && !q.retired {
			return true
		}
	}
	return false
}

// shutdown asks the instance to stop cleanly.
func (p *process) shutdown() {
	p.stopping = true
	p.step(barrier.EvShutdown{})
}

func (p *process) tick() {
	p.step(barrier.EvTick{})
	if p.up {
		p.later(p.w.between(40, 90), p.tick)
	}
}

// monotonic is the process's clock as package transactions wants it.
func (p *process) monotonic() time.Duration { return time.Duration(p.w.now) * time.Millisecond }

// step hands an event to the machine and performs what it says. An event that
// comes up meanwhile waits for its turn.
func (p *process) step(ev barrier.Event) {
	if !p.up {
		return
	}
	p.events = append(p.events, ev)
	if !p.busy {
		p.drain()
	}
}

func (p *process) drain() {
	p.busy = true
	epoch := p.epoch
	for len(p.events) > 0 {
		next := p.events[0]
		p.events = p.events[1:]
		if p.w.tracing {
			p.traceEvent(next)
		}
		for _, e := range p.m.Step(p.w.now, next) {
			if p.w.tracing {
				p.w.tracef("%s: %T%+v", p.name, e, e)
			}
			p.perform(e)
			if p.epoch == epoch && p.crashIn > 0 {
				if p.crashIn--; p.crashIn == 0 {
					p.crash()
					p.w.restartLater(p)
				}
			}
			if p.epoch != epoch {
				panic(ended{})
			}
		}
		end := p.m.LogEnd()
		for _, t := range p.tasks {
			t.aligner.SetLog(end)
		}
	}
	p.busy = false
}

func (p *process) traceEvent(ev barrier.Event) {
	switch ev.(type) {
	case barrier.EvTick, barrier.EvLogRead, barrier.EvRecord, barrier.EvHeartbeat:
	default:
		p.w.tracef("%s < %T%+v", p.name, ev, ev)
	}
}

// perform carries out one effect of the machine.
func (p *process) perform(e barrier.Effect) {
	switch e := e.(type) {
	case barrier.DoAppend:
		p.append(e.Record)
	case barrier.DoJoinGroup:
		p.joinGroup(e.Leaving)
	case barrier.DoLeaveGroup:
		p.leaveGroup()
	case barrier.DoUseIDs:
		p.useIDs(e)
	case barrier.DoStartTasks:
		p.startTasks(e)
	case barrier.DoPrefetch:
		p.prefetch(e)
	case barrier.DoMoveTasks:
		p.moveTasks(e)
	case barrier.DoStopTasks:
		p.stopTasks(e)
	case barrier.DoTrigger:
		p.trigger(e)
	case barrier.DoDecided:
		p.decided(e)
	case barrier.DoCommit:
		p.commit(e)
	case barrier.DoRelease:
		p.poolStep(transactions.CommittedRead{N: e.N})
	case barrier.DoBecomeNew:
		p.w.tracef("%s becomes new: %s", p.name, e.Reason)
		p.leaveGroup()
		stopping := p.stopping
		p.close()
		switch {
		case !e.DisplacedBy.IsZero() && p.hasTwin():
			p.retired = true // another process has the name now
		case stopping:
			p.exited = true
		default:
			p.w.restartLater(p)
		}
	case barrier.DoState:
	case barrier.DoFatal:
		p.w.oracle.fatal(p, e.Err)
		p.leaveGroup()
		p.close()
		p.w.restartLater(p)
	case barrier.DoExit:
		p.w.tracef("%s exits", p.name)
		p.close()
		p.exited = true
	default:
		p.performCoordinator(e)
	}
}

func (p *process) append(r barrier.Record) {
	if p.m.Leading() && p.w.leaders() > 1 {
		p.w.stats.TwoLeaders++
	}
	if p.holdSnapshot(r) {
		return
	}
	call(p, func() int64 { return p.w.log.append(r) }, func(_ int64, ok bool) {
		if !ok {
			p.step(barrier.EvAppendFailed{Seq: r.Seq})
		}
	})
}

// leaders counts the instances that take themselves for the coordinator.
func (w *World) leaders() (n int) {
	for _, p := range w.procs {
		if p.up && p.m.Leading() {
			n++
		}
	}
	return n
}

// useIDs hands registered transactional ids to the pool, which is made with
// the first ones.
func (p *process) useIDs(e barrier.DoUseIDs) {
	if p.pool == nil {
		p.life = e.Life
		p.pool = transactions.NewPool(transactions.Config{
			Application: appID, Life: e.Life, Instance: p.id,
			ToleratedAborts: p.w.plan.toleratedAborts, Groups: 3, Rules: p.w.rules.Txn,
		})
		p.poolStep(transactions.Opened{})
	}
	p.poolStep(transactions.Registered{IDs: e.IDs})
}

// membership is the client side of the group.
type membership struct {
	wanted     bool
	leaving    bool
	round      int // of joins
	sentAt     int64
	generation int32 // -1: waits for one
	warm       barrier.TaskSet
}

func (p *process) joinGroup(leaving bool) {
	first := !p.member.wanted
	p.member.wanted, p.member.leaving = true, leaving
	p.sendJoin()
	if first {
		p.beat()
	}
}

func (p *process) sendJoin() {
	w, epoch, id, leaving, sent := p.w, p.epoch, p.id, p.member.leaving, p.w.now
	p.member.round++
	p.member.generation, p.member.sentAt = -1, sent
	round := p.member.round
	w.after(w.latency(), func() {
		if p.epoch != epoch || p.member.round > round {
			return // the connection went with the process, or keeps the order
		}
		w.group.join(id, leaving, sent, func(g barrier.EvGeneration) {
			p.laterAs(epoch, w.latency(), func() {
				if !p.member.wanted || p.member.round != round {
					return
				}
				p.member.generation, p.member.warm = g.Generation, g.Warm
				p.step(g)
			})
		})
	})
}

// beat sends a heartbeat from time to time.
func (p *process) beat() {
	p.later(p.w.between(60, 120), func() {
		if !p.member.wanted {
			return
		}
		switch {
		case p.member.generation < 0 && p.w.now-p.member.sentAt > 2*sessionTimeout:
			p.sendJoin() // thrown out while it waited
		case p.member.generation >= 0:
			sent, id, gen := p.w.now, p.id, p.member.generation
			call(p, func() beat { return p.w.group.heartbeat(id, gen) }, func(b beat, ok bool) {
				switch {
				case !ok || !p.member.wanted || p.member.generation != gen:
				case b == beatOK:
					p.step(barrier.EvHeartbeat{SentAt: sent, Generation: gen})
				default:
					p.sendJoin()
				}
			})
		}
		p.beat()
	})
}

func (p *process) leaveGroup() {
	if !p.member.wanted {
		return
	}
	p.member = membership{round: p.member.round + 1}
	w, id := p.w, p.id
	w.after(w.latency(), func() { w.group.leave(id) })
}
