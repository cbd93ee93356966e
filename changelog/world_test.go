package changelog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/restart"
)

// world is instances, a group, a broker and tasks in one goroutine. Each task
// reads an endless input; an interval's transaction notes from where to where
// each task read. What is committed must cover the input once, without gaps.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	now  int64
	all  []ids.TaskID

	offsets map[ids.TaskID]int64 // committed
	pending map[string]*txn      // open transactions with offsets, by owner
	gen     int32
	members []*actor // of the group, by the newest generation
	joining bool
	joined  map[*actor][]ids.TaskID // while a rebalance goes on
	actors  []*actor
	names   int
	commits int
}

type txn struct {
	ends    map[ids.TaskID]int64
	decided bool // EndTxn was sent
}

type run struct {
	TaskRun
	begun   bool
	from    int64 // since the last commit point
	read    int64
	passing []reading
}

type reading struct {
	n        ids.CheckpointID
	from, to int64
}

// actor is an instance.
type actor struct {
	w      *world
	id     ids.InstanceID
	member string
	m      *Machine
	runs   map[ids.Incarnation]*run
	events []Event // to be delivered
	owned  []ids.TaskID
	given  [][]ids.TaskID
	away   int64 // stalled until then
	dead   bool
	open   *txn
}

func (w *world) spawn() *actor {
	w.names++
	a := &actor{w: w, id: ids.InstanceID{Name: fmt.Sprintf("i%d", w.names)}, runs: map[ids.Incarnation]*run{}}
	a.m = NewMachine(Config{Self: a.id, Interval: 10, IdleInterval: 10, ShutdownDeadline: 1000, GenerationTimeout: 200, Restart: restart.FixedDelay(-1, 50*time.Millisecond)})
	w.actors = append(w.actors, a)
	w.joining = true
	return a
}

// join lets every member that is there join the group with what it says it has;
// complete makes the generation, as loggroup's leader does. In between, members
// go on.
func (w *world) join() {
	w.joining = false
	w.joined = map[*actor][]ids.TaskID{}
	for _, a := range w.actors {
		if a.dead || a.away > w.now {
			continue
		}
		owned := slices.Clone(a.owned)
		for _, list := range a.given { // not seen by the machine yet
			owned = append(owned, list...)
		}
		w.joined[a] = owned
	}
}

func (w *world) complete() {
	w.gen++
	w.members = w.members[:0]
	owners := map[ids.TaskID][]*actor{}
	for _, a := range w.actors {
		owned, ok := w.joined[a]
		if !ok || a.dead {
			a.member = "" // a later join makes it another member
			continue
		}
		if a.member == "" {
			a.member = fmt.Sprintf("%s-%d", a.id.Name, w.gen)
		}
		w.members = append(w.members, a)
		for _, t := range owned {
			owners[t] = append(owners[t], a)
		}
	}
	w.joined = nil
	if len(w.members) == 0 {
		return
	}
	lists := map[*actor][]ids.TaskID{}
	for k, t := range w.all {
		target := w.members[(k+int(w.gen)/3)%len(w.members)]
		held := slices.ContainsFunc(owners[t], func(o *actor) bool { return o != target })
		if !held {
			lists[target] = append(lists[target], t)
		}
	}
	var everybody []ids.InstanceID
	for _, a := range w.members {
		everybody = append(everybody, a.id)
	}
	for _, a := range w.members {
		a.given = append(a.given, lists[a])
		a.events = append(a.events, EvAssigned{Member: a.member, Generation: w.gen, Tasks: lists[a], Instances: everybody})
	}
}

// kick drops a member from the group without its knowing.
func (w *world) kick(a *actor) {
	w.members = slices.DeleteFunc(w.members, func(b *actor) bool { return a == b })
	a.member = ""
	w.joining = true
}

func (a *actor) step(ev Event) {
	if a.dead {
		return
	}
	effects := append([]Effect(nil), a.m.Step(a.w.now, ev)...)
	if _, ok := ev.(EvAssigned); ok {
		a.given = a.given[1:]
	}
	for _, e := range effects {
		a.perform(e)
	}
}

func (a *actor) later(ev Event) { a.events = append(a.events, ev) }

func (a *actor) perform(e Effect) {
	w := a.w
	switch e := e.(type) {
	case DoStart:
		for _, t := range e.Tasks {
			for _, r := range a.runs {
				if r.Task == t.Task {
					w.fail("%s: task %s started while run %d is not closed (M1)", a.id, t.Task, r.Run)
				}
			}
			a.runs[t.Run] = &run{TaskRun: t}
		}
	case DoClose:
		for _, t := range e.Tasks {
			delete(a.runs, t.Run)
			a.later(EvClosed{t})
		}
	case DoTrigger:
		for _, t := range append(slices.Clone(e.Tasks), e.Stop...) {
			r := a.runs[t.Run]
			r.passing = append(r.passing, reading{e.N, r.from, r.read})
			moved := r.from != r.read
			r.from = r.read
			if slices.Contains(e.Stop, t) {
				r.begun = false
			}
			if moved {
				a.later(EvWrote{e.N})
			}
			a.later(EvPassed{TaskRun: t, N: e.N, Moved: moved})
		}
	case DoFlush:
		v := Done
		if w.rng.IntN(40) == 0 {
			v = Lost
		}
		a.later(EvFlushed{N: e.N, Verdict: v, Err: fmt.Errorf("produce")})
	case DoOffsets:
		a.offsets(e)
	case DoEnd:
		a.end(e.N)
	case DoApply, DoOpen, DoReport, DoSetback, DoWarn:
	case DoDrop:
		a.open = nil
		delete(w.pending, a.id.Name) // its id is drawn again
	case DoFence:
		for _, i := range e.Instances {
			if p := w.pending[i.Name]; p != nil && !p.decided {
				delete(w.pending, i.Name)
			}
		}
	case DoOwned:
		a.owned = slices.Clone(e.Tasks)
	case DoRejoin:
		w.joining = true
	case DoExit:
		a.dead = true
		w.kick(a)
		if e.Err != nil {
			w.fail("%s: %v", a.id, e.Err)
		}
	}
}

// offsets is TxnOffsetCommit.
func (a *actor) offsets(e DoOffsets) {
	w := a.w
	ev := EvOffsets{N: e.N, Generation: e.Generation}
	switch {
	case !slices.Contains(w.members, a) || a.member != e.Member:
		ev.Verdict = NotMember
	case e.Generation != w.gen, w.rng.IntN(80) == 0: // or the coordinator is wrong
		ev.Verdict = NextGeneration
	case w.rng.IntN(40) == 0:
		ev.Verdict, ev.Err = Lost, fmt.Errorf("offsets")
	default:
		t := &txn{ends: map[ids.TaskID]int64{}}
		for _, r := range a.runs {
			for _, p := range r.passing {
				if p.n == e.N {
					t.ends[r.Task] = p.to
					if have, ok := w.offsets[r.Task]; p.from != have && ok {
						w.fail("%s commits %s from %d, committed is %d", a.id, r.Task, p.from, have)
					}
				}
			}
		}
		w.pending[a.id.Name], a.open = t, t
	}
	a.later(ev)
}

// end is EndTxn: now or a little later, and its answer may be lost.
func (a *actor) end(n ids.CheckpointID) {
	w := a.w
	ev := EvEnded{N: n}
	if p := w.pending[a.id.Name]; p == nil || p != a.open {
		ev.Verdict, ev.Err = Lost, fmt.Errorf("fenced")
	} else {
		for t, to := range p.ends {
			w.offsets[t] = to
		}
		delete(w.pending, a.id.Name)
		w.commits++
		if w.rng.IntN(30) == 0 {
			ev.Verdict, ev.Err = Lost, fmt.Errorf("no answer")
		}
	}
	a.open = nil
	a.later(ev)
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d at %d: %s", w.seed, w.now, fmt.Sprintf(format, args...))
}

// stable reports whether no open transaction holds offsets of the task.
func (w *world) stable(t ids.TaskID) bool {
	for _, p := range w.pending {
		if _, ok := p.ends[t]; ok {
			return false
		}
	}
	return true
}

// work lets tasks start and read.
func (a *actor) work() {
	w := a.w
	for _, n := range slices.Sorted(maps.Keys(a.runs)) {
		r := a.runs[n]
		switch {
		case !r.begun && r.passing == nil && w.rng.IntN(3) == 0 && w.stable(r.Task):
			r.begun, r.from = true, w.offsets[r.Task]
			r.read = r.from
			a.later(EvRunning{r.TaskRun})
		case r.begun && w.rng.IntN(2) == 0:
			r.read += w.rng.Int64N(5)
		}
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 2)), offsets: map[ids.TaskID]int64{}, pending: map[string]*txn{},
	}
	for p := range int32(5) {
		w.all = append(w.all, ids.TaskID{Partition: p})
		w.offsets[ids.TaskID{Partition: p}] = 0
	}
	return w
}

// chaos is one step of the world.
func (w *world) chaos(calm bool) {
	w.now++
	w.actors = slices.DeleteFunc(w.actors, func(a *actor) bool { return a.dead })
	a := w.actors[w.rng.IntN(len(w.actors))]
	k := w.rng.IntN(200)
	if k >= 190 && w.rng.IntN(12) > 0 {
		k = 0 // chaos is rarer than work
	}
	if a.away > w.now {
		return
	}
	if a.away != 0 {
		a.away, w.joining = 0, true
	}
	switch {
	case k < 90:
		if len(a.events) > 0 {
			ev := a.events[0]
			a.events = a.events[1:]
			a.step(ev)
		}
	case k < 150:
		a.work()
	case k < 185:
		a.step(EvTick{Dirty: true})
	case k < 190:
		if w.joined != nil {
			w.complete()
		} else if w.joining {
			w.join()
		}
	case calm:
	case k == 190: // stalls for longer than its session
		w.kick(a)
		a.away = w.now + w.rng.Int64N(1500)
	case k == 191:
		a.later(EvDropped{})
		w.kick(a)
	case k == 192:
		a.later(EvFailed{fmt.Errorf("task")})
	case k == 193:
		a.later(EvShutdown{})
		w.spawn()
	case k == 194: // killed; its transaction times out later
		a.dead = true
		w.kick(a)
		w.spawn()
	case k == 195:
		for _, name := range slices.Sorted(maps.Keys(w.pending)) { // transaction timeout
			if p := w.pending[name]; !p.decided {
				delete(w.pending, name)
				break
			}
		}
	case k == 196:
		a.later(EvHurry{})
	case k == 197:
		w.joining = true
	}
}

// Offsets and effects of committed transactions join without gap or overlap,
// whatever happens to instances, group and answers; and at quiet times all tasks
// go on.
func TestMachineWorld(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, seed)
		for range 3 {
			w.spawn()
		}
		for range 6000 {
			w.chaos(false)
		}
		w.joining = true
		for range 6000 { // nothing is done to anybody any more
			w.chaos(true)
		}
		if w.commits < 20 {
			w.fail("%d commits only", w.commits)
		}
		before := map[ids.TaskID]int64{}
		for k, v := range w.offsets {
			before[k] = v
		}
		clear(w.pending) // timeouts of the dead
		for range 20000 {
			w.chaos(true)
		}
		for _, id := range w.all {
			if w.offsets[id] == before[id] {
				w.fail("task %s does not go on from %d: %s", id, before[id], w.describe())
			}
		}
	}
}

func (w *world) describe() (s string) {
	for _, a := range w.actors {
		if !a.dead {
			s += fmt.Sprintf("\n%s member %q assigned %v tasks %v phase %d hurry %v events %d", a.id, a.m.member, a.m.assigned, a.m.sorted(), a.m.phase, a.m.hurry, len(a.events))
		}
	}
	return s
}
