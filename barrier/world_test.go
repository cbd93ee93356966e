package barrier

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/internal/ids"
)

// world runs several machines over one control log, with shells that answer
// at once unless a story holds an answer back. It is the stage of the stories
// in testdata/machine.
type world struct {
	now   int64
	cfg   Config
	log   []Record
	fold  *Log // for verdicts in the trace
	nodes []*node
	gen   int32
	dirty bool // the group must rebalance
	hold  map[string]bool
	trace strings.Builder
	quiet bool  // do not trace
	age   int64 // of transactions in acks
	mute  bool  // shells do not say what the oldest incarnation is

	// rnd, when set, delays appends and lets readers lag.
	rnd     *rand.Rand
	pending []pendingAppend

	trims []worldTrim

	txns map[ids.TxnHandle]*worldTxn
	bad  []string // violations
}

// worldTrim is a DoTrim.
type worldTrim struct{ at, below int64 }

// pendingAppend is a record on its way to the log.
type pendingAppend struct {
	at     int64
	record Record
}

// worldTxn is a transaction on the world's broker.
type worldTxn struct {
	owner              ids.InstanceID
	committed, aborted bool
}

type node struct {
	name    string
	stable  string // the stable name, if not name
	runs    int
	m       *Machine
	self    ids.InstanceID
	read    int
	queue   []Event
	held    []heldEvent
	member  bool
	leaving bool
	paused  bool
	deaf    bool // cannot read the log
	pid     int64
	txns    []Txn
}

type heldEvent struct {
	kind string
	ev   Event
}

func newWorld(tasks int, rules Rules) *world {
	w := &world{age: 100, fold: NewLog(rules), hold: map[string]bool{}, txns: map[ids.TxnHandle]*worldTxn{}}
	w.cfg = Config{
		App: "app", NewLife: 0xabc, Fingerprint: "f1", TxnIDs: 2, Interval: 1000, CheckpointTimeout: 2000,
		ToleratedAborts: 1, TransactionTimeout: 60_000, SessionTimeout: 500, ExpectedRestart: 1000,
		HandoverTimeout: 500, ReadyTimeout: 400, ShutdownDeadline: 5000, Settle: 20, LeaveGrace: 100, AppendRetry: 300, Retain: 2, Rules: rules,
	}
	for p := range tasks {
		w.cfg.Tasks = append(w.cfg.Tasks, ids.TaskID{Partition: int32(p)})
	}
	return w
}

func (w *world) printf(format string, args ...any) {
	if !w.quiet {
		fmt.Fprintf(&w.trace, format+"\n", args...)
	}
}

func (w *world) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	n := &node{name: name}
	w.nodes = append(w.nodes, n)
	return n
}

// boot starts a process (again).
func (w *world) boot(name string) {
	n := w.node(name)
	n.runs++
	n.self = ids.InstanceID{Name: name, Rand: uint64(n.runs)}
	if n.stable != "" {
		n.self = ids.InstanceID{Name: n.stable, Rand: 100 + uint64(n.runs)}
	}
	cfg := w.cfg
	cfg.Self = n.self
	m, err := NewMachine(cfg)
	if err != nil {
		panic(err)
	}
	n.m, n.read, n.queue, n.held, n.paused, n.txns, n.leaving = m, 0, nil, nil, false, nil, false
	w.step(n, EvLogOpened{Start: 0, End: int64(len(w.log))})
}

// crash ends a process.
func (w *world) crash(name string) {
	n := w.node(name)
	n.m = nil
	w.leave(n)
}

func (w *world) leave(n *node) {
	if n.member {
		n.member = false
		w.dirty = true
	}
}

func (w *world) step(n *node, ev Event) {
	if n.m == nil {
		return
	}
	effects := slices.Clone(n.m.Step(w.now, ev))
	for _, e := range effects {
		w.perform(n, e)
	}
}

// run lets time pass in steps of 10 ms.
func (w *world) run(ms int64) {
	for end := w.now + ms; w.now < end; w.now += 10 {
		w.pending = slices.DeleteFunc(w.pending, func(p pendingAppend) bool {
			if p.at <= w.now {
				w.land(p.record)
			}
			return p.at <= w.now
		})
		for _, n := range w.nodes {
			if n.m == nil || n.paused {
				continue
			}
			for n.m != nil && !n.deaf && n.read < len(w.log) && (w.rnd == nil || w.rnd.IntN(4) > 0) {
				i := n.read
				n.read++
				w.step(n, EvRecord{Offset: int64(i), Record: w.log[i]})
			}
			if !n.deaf && n.read == len(w.log) {
				w.step(n, EvLogRead{End: int64(n.read)})
			}
			queue := n.queue
			n.queue = nil
			for _, ev := range queue {
				w.step(n, ev)
			}
			if n.member {
				w.step(n, EvHeartbeat{SentAt: w.now, Generation: w.gen})
			}
			w.step(n, EvTick{})
		}
		if w.dirty {
			w.rebalance()
		}
	}
}

// rebalance gives the tasks round robin to the members in order of name; those
// that leave get none unless all do.
func (w *world) rebalance() {
	w.dirty = false
	w.gen++
	var members []*node
	takers := 0
	for _, n := range w.nodes {
		if n.member {
			members = append(members, n)
			if !n.leaving {
				takers++
			}
		}
	}
	all := takers == 0
	var get []*node
	var list []ids.InstanceID
	for _, n := range members {
		list = append(list, n.self)
		if all || !n.leaving {
			get = append(get, n)
		}
	}
	for _, n := range members {
		var tasks TaskSet
		for i, t := range w.cfg.Tasks {
			if get[i%len(get)] == n {
				tasks = append(tasks, t)
			}
		}
		n.queue = append(n.queue, EvGeneration{Generation: w.gen, Members: list, Tasks: tasks, SentAt: w.now})
	}
}

// answer queues an event, or holds it back.
func (w *world) answer(n *node, kind string, ev Event) {
	if w.hold[kind] {
		n.held = append(n.held, heldEvent{kind, ev})
		return
	}
	n.queue = append(n.queue, ev)
}

func (w *world) release(kind string) {
	delete(w.hold, kind)
	for _, n := range w.nodes {
		n.held = slices.DeleteFunc(n.held, func(h heldEvent) bool {
			if h.kind == kind {
				n.queue = append(n.queue, h.ev)
			}
			return h.kind == kind
		})
	}
}

func (w *world) perform(n *node, e Effect) {
	if s := describeEffect(e); s != "" {
		w.printf("%5d %s: %s", w.now, n.name, s)
	}
	switch e := e.(type) {
	case DoAppend:
		w.append(n, e.Record)
	case DoJoinGroup:
		n.member, n.leaving, w.dirty = true, e.Leaving, true
	case DoLeaveGroup:
		w.leave(n)
	case DoStopTasks:
		for h, t := range w.txns {
			if t.owner == n.self && !slices.Contains(e.Keep, h) {
				w.abort(h, t)
			}
		}
	case DoStartTasks:
		n.txns = nil
		if len(e.Tasks) > 0 {
			w.answer(n, "running", EvTaskRunning{Incarnation: e.Incarnation, Tasks: e.Tasks})
		}
	case DoPrefetch:
		if len(e.Tasks) > 0 {
			w.answer(n, "prefetched", EvPrefetched{N: e.From.N, Tasks: e.Tasks})
		}
	case DoMoveTasks:
		if len(e.Come) > 0 {
			w.answer(n, "running", EvTaskRunning{Incarnation: e.Incarnation, Tasks: e.Come})
		}
	case DoTrigger:
		w.answer(n, "passed", EvPassed{N: e.N, Tasks: w.fold.start.tasksOf(n.self)})
		n.pid++
		h := ids.TxnHandle{TransactionalID: n.name, ProducerID: n.pid}
		w.txns[h] = &worldTxn{owner: n.self}
		n.txns = append(n.txns, Txn{Handle: h, Age: w.age, Topics: []string{"out"}})
		done := EvPrepared{N: e.N, Part: fmt.Sprintf("part-%d-%s", e.N, n.name), Oldest: e.Incarnation, Txns: slices.Clone(n.txns)}
		if w.mute {
			done.Oldest = 0
		}
		w.answer(n, "prepared", done)
	case DoDecided:
		if e.Completed {
			n.txns = nil
		}
	case DoCommit:
		for _, t := range e.Txns {
			if wt := w.txns[t.Handle]; wt.aborted {
				w.bad = append(w.bad, fmt.Sprintf("decided transaction %v was aborted", t.Handle))
			} else {
				wt.committed = true
			}
		}
		w.answer(n, "committed", EvCommitted{N: e.N, Owner: e.Owner})
	case DoStoreManifest:
		w.answer(n, "manifest", EvManifestStored{N: e.N, Term: e.Term, Key: fmt.Sprintf("m%d.%d", e.N, e.Term)})
	case DoMark:
		w.answer(n, "marked", EvMarked{N: e.Ref.N})
	case DoFence:
		for h, t := range w.txns {
			if t.owner == e.Instance {
				w.abort(h, t)
			}
		}
		w.answer(n, "fenced", EvFenced{Instance: e.Instance})
	case DoCheckOffsets:
		w.answer(n, "offsets", EvOffsetsChecked{N: e.Ref.N})
	case DoWriteOffsets:
		w.answer(n, "offsets", EvOffsetsWritten{N: e.Ref.N})
	case DoLookForLoss:
		w.answer(n, "loss", EvLossLooked{})
	case DoStoreZero:
		w.answer(n, "zero", EvZeroStored{Term: e.Term, Key: "m0"})
	case DoClean:
		w.answer(n, "cleaned", EvCleaned{})
	case DoTrim:
		w.trims = append(w.trims, worldTrim{w.now, e.Below})
	case DoBecomeNew:
		w.leave(n)
		w.boot(n.name)
	case DoFatal, DoExit:
		w.leave(n)
		n.m = nil
	}
}

// abort ends a transaction if it is open, as InitProducerId or EndTxn does.
func (w *world) abort(h ids.TxnHandle, t *worldTxn) {
	if t.committed || t.aborted {
		return
	}
	t.aborted = true
	if c := w.fold.last(); c != nil {
		for _, a := range c.acks {
			for _, l := range a.Ack.Txns {
				if l.Handle == h {
					w.bad = append(w.bad, fmt.Sprintf("transaction %v, listed by completed checkpoint %d, is aborted", h, c.ref.N))
				}
			}
		}
	}
}

// append puts a record into the log, unless the story loses appends.
func (w *world) append(n *node, r Record) {
	if w.hold["append-"+n.name] {
		w.printf("%5d %s: lost %s", w.now, n.name, describeBody(r.Body))
		return
	}
	if w.rnd != nil {
		at := w.now + int64(w.rnd.IntN(40))
		if w.rnd.IntN(20) == 0 {
			at += int64(w.rnd.IntN(1500))
		}
		w.pending = append(w.pending, pendingAppend{at, r})
		return
	}
	w.land(r)
}

// land puts a record at the end of the log.
func (w *world) land(r Record) {
	b, err := AppendRecord(nil, r)
	if err != nil {
		panic(err)
	}
	if r, err = DecodeRecord(b); err != nil {
		panic(err)
	}
	offset := int64(len(w.log))
	w.log = append(w.log, r)
	out, err := w.fold.Apply(offset, r)
	if err != nil {
		panic(err)
	}
	note := ""
	if !out.Valid() {
		note = "   VOID: " + out.Void
	}
	for _, a := range out.Aborted {
		note += fmt.Sprintf("   aborts %d", a.N)
	}
	w.printf("%5d [%d] %s %s%s", w.now, offset, shortID(r.Instance), describeBody(r.Body), note)
}

func shortID(i ids.InstanceID) string { return i.Name + strconv.FormatUint(i.Rand, 10) }

func shortIDs(s []ids.InstanceID) string {
	out := make([]string, len(s))
	for i, id := range s {
		out[i] = shortID(id)
	}
	return strings.Join(out, ",")
}

func tasksString(s TaskSet) string {
	out := make([]string, len(s))
	for i, t := range s {
		out[i] = t.String()
	}
	return strings.Join(out, ",")
}

func ownersString(owners []Owner) string {
	var out []string
	for _, o := range owners {
		out = append(out, shortID(o.Instance)+"="+tasksString(o.Tasks))
	}
	return strings.Join(out, " ")
}

func movesString(moves []Move) string {
	var b strings.Builder
	for _, mv := range moves {
		fmt.Fprintf(&b, " %s->%s", mv.Task, shortID(mv.To))
	}
	return b.String()
}

func describeBody(b Body) string {
	switch b := b.(type) {
	case Life:
		return "life"
	case Lead:
		return fmt.Sprintf("lead term=%d", b.Term)
	case Register:
		return fmt.Sprintf("register ids=%d", len(b.TxnIDs))
	case Assigned:
		return fmt.Sprintf("assigned gen=%d tasks=%s members=%s", b.Generation, tasksString(b.Tasks), shortIDs(b.Members))
	case Running:
		return fmt.Sprintf("running inc=%d", b.Incarnation)
	case Ready:
		return "ready " + tasksString(b.Tasks)
	case Leaving:
		return "leaving"
	case Start:
		return fmt.Sprintf("start term=%d from=%d %s", b.Term, b.N, ownersString(b.Owners))
	case Trigger:
		if b.Stop {
			return fmt.Sprintf("trigger term=%d stop", b.Term)
		}
		return fmt.Sprintf("trigger term=%d%s", b.Term, movesString(b.Moves))
	case Ack:
		return fmt.Sprintf("ack n=%d inc=%d txns=%d", b.N, b.Incarnation, len(b.Txns))
	case Decline:
		return fmt.Sprintf("decline n=%d reason=%d", b.N, b.Reason)
	case Complete:
		return fmt.Sprintf("complete term=%d n=%d%s", b.Term, b.N, movesString(b.Moves))
	case Abort:
		return fmt.Sprintf("abort term=%d n=%d reason=%d", b.Term, b.N, b.Reason)
	case Committed:
		return fmt.Sprintf("committed term=%d n=%d owner=%s", b.Term, b.N, shortID(b.Owner))
	case Failed:
		return fmt.Sprintf("failed inc=%d %s: %s", b.Incarnation, tasksString(b.Tasks), b.Error)
	case Rollback:
		return fmt.Sprintf("rollback term=%d n=%d tasks=%d dead=%s (%s)", b.Term, b.N, len(b.Tasks), shortIDs(b.Dead), b.Reason)
	case Restore:
		return fmt.Sprintf("restore n=%d", b.N)
	case Retire:
		return fmt.Sprintf("retire n=%d", b.N)
	case Fenced:
		return fmt.Sprintf("fenced %s", shortID(b.Instance))
	}
	return fmt.Sprintf("%T", b)
}

// describeEffect prints an effect for the trace; appends print as records.
func describeEffect(e Effect) string {
	switch e := e.(type) {
	case DoAppend, DoUseIDs:
		return ""
	case DoJoinGroup:
		if e.Leaving {
			return "join group, leaving"
		}
		return "join group"
	case DoLeaveGroup:
		return "leave group"
	case DoStartTasks:
		return fmt.Sprintf("start tasks inc=%d %s from %d lineage %v", e.Incarnation, tasksString(e.Tasks), e.From.N, e.Lineages.Of(ids.TaskID{}))
	case DoStopTasks:
		return fmt.Sprintf("stop tasks keep=%d", len(e.Keep))
	case DoPrefetch:
		return fmt.Sprintf("prefetch %s of %d", tasksString(e.Tasks), e.From.N)
	case DoMoveTasks:
		return fmt.Sprintf("move inc=%d gone=%s come=%s lineage %v", e.Incarnation, tasksString(e.Gone), tasksString(e.Come), e.Lineages.Groups)
	case DoTrigger:
		if len(e.Halt) > 0 {
			return fmt.Sprintf("trigger %d base=%d halt=%s", e.N, e.Base.N, tasksString(e.Halt))
		}
		return fmt.Sprintf("trigger %d base=%d stop=%v", e.N, e.Base.N, e.Stop)
	case DoDecided:
		if len(e.Stay) > 0 {
			return fmt.Sprintf("decided %d completed=%v stay=%s", e.N, e.Completed, tasksString(e.Stay))
		}
		return fmt.Sprintf("decided %d completed=%v reason=%d", e.N, e.Completed, e.Reason)
	case DoCommit:
		return fmt.Sprintf("commit %d of %s txns=%d", e.N, shortID(e.Owner), len(e.Txns))
	case DoRelease:
		return fmt.Sprintf("release %d", e.N)
	case DoStoreManifest:
		return fmt.Sprintf("store manifest %d acks=%d", e.N, len(e.Acks))
	case DoMark:
		return fmt.Sprintf("mark %d", e.Ref.N)
	case DoFence:
		return fmt.Sprintf("fence %s", shortID(e.Instance))
	case DoCheckOffsets:
		return fmt.Sprintf("check offsets against %d", e.Ref.N)
	case DoWriteOffsets:
		return fmt.Sprintf("write offsets of %d", e.Ref.N)
	case DoLookForLoss:
		return "look for loss"
	case DoStoreZero:
		return "store checkpoint 0"
	case DoClean:
		return fmt.Sprintf("clean below %d keep %v", e.Before, refs(e.Keep))
	case DoPurge:
		return fmt.Sprintf("purge for %d", e.Last.N)
	case DoBecomeNew:
		return "become new: " + e.Reason
	case DoState:
		return "state " + e.State.String()
	case DoFatal:
		return "FATAL " + e.Err.Error()
	case DoExit:
		return "exit"
	}
	return fmt.Sprintf("%T", e)
}

func refs(s []CheckpointRef) []int64 {
	var out []int64
	for _, r := range s {
		out = append(out, int64(r.N))
	}
	return out
}
