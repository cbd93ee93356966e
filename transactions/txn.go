package transactions

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/ids"
)

type txnState uint8

const (
	opened   txnState = iota // tasks may write, or it is closing
	prepared                 // nothing is in doubt and nothing further comes
	decided                  // a Complete lists it
	broken                   // the broker refused something; waits for a Rollback
	aborting                 // End(abort) is or will be asked
)

type offsetState uint8

const (
	none offsetState = iota
	due
	asked
	added
)

// txn is one transaction; see the package comment for its states.
type txn struct {
	num    TxnNumber
	g      *group           // whose tasks write it; nil: nobody any more
	start  int              // tells a joiner's from its group's
	after  ids.CheckpointID // the last barrier its writers passed
	id     *txnID           // nil while it waits for one
	handle ids.TxnHandle
	state  txnState
	closed bool // every task has passed a later barrier
	listed bool // some Ack lists it
	doubt  bool // some request of it never got a definite answer

	begun bool
	began time.Duration // before the request that began it

	wanted  []ids.TopicPartition // to be added
	asking  []ids.TopicPartition // in AddPartitions now
	joined  map[ids.TopicPartition]bool
	attempt int

	held     int // batches not sent yet
	inFlight int // batches sent and not answered

	offsetState offsetState
	offsetsFor  ids.CheckpointID
	offsets     []Offset
	offsetTry   int

	ending    bool // End(abort) is asked
	endTry    int
	topics    []string
	firstTime int64
	lastTime  int64
	records   bool
}

// settled reports whether the transaction is prepared by R18.
func (t *txn) settled() bool {
	return t.closed && t.begun && t.held == 0 && t.inFlight == 0 && len(t.asking) == 0 && (t.offsetState == none || t.offsetState == added)
}

func (t *txn) list(now time.Duration) Listed {
	return Listed{Handle: t.handle, Age: now - t.began, Topics: slices.Clone(t.topics), FirstTime: t.firstTime, LastTime: t.lastTime}
}

func (t *txn) begin(now time.Duration) {
	if !t.begun {
		t.begun, t.began = true, now
	}
}

func (t *txn) note(w Write) {
	if !t.records {
		t.records, t.firstTime, t.lastTime = true, w.FirstTime, w.LastTime
	}
	t.firstTime, t.lastTime = min(t.firstTime, w.FirstTime), max(t.lastTime, w.LastTime)
	if i, found := slices.BinarySearch(t.topics, w.Partition.Topic); !found {
		t.topics = slices.Insert(t.topics, i, w.Partition.Topic)
	}
}

// laneKey names the batches whose order the transactions must keep.
type laneKey struct {
	task      ids.TaskID
	partition ids.TopicPartition
}

// lane holds the batches of one task for one partition. Two transactions have
// two producer ids, between which the broker keeps no order, so the lane goes
// to the next transaction only when nothing of the previous is in doubt.
type lane struct {
	laneKey
	queue    []heldBatch
	inFlight []*txn // the transaction of each batch sent and not answered
}

type heldBatch struct {
	txn   *txn
	batch uint64
}

// txnAfter returns a group's transaction behind a barrier, made if need be.
func (p *Pool) txnAfter(g *group, start int, after ids.CheckpointID) *txn {
	at := len(p.txns)
	for i, t := range p.txns {
		if t.g == nil {
			continue
		}
		if t.g == g && t.start == start && t.after == after {
			return t
		}
		if t.after > after {
			at = i
			break
		}
	}
	p.nextTxn++
	t := &txn{num: p.nextTxn, g: g, start: start, after: after, offsetsFor: ids.NoCheckpoint, joined: map[ids.TopicPartition]bool{}}
	p.txns = slices.Insert(p.txns, at, t)
	return t
}

func (p *Pool) byNumber(n TxnNumber) *txn {
	for _, t := range p.txns {
		if t.num == n {
			return t
		}
	}
	return nil
}

func (p *Pool) byHandle(h ids.TxnHandle) *txn {
	for _, t := range p.txns {
		if t.id != nil && t.handle == h {
			return t
		}
	}
	return nil
}

func (p *Pool) remove(t *txn) {
	p.txns = slices.DeleteFunc(p.txns, func(o *txn) bool { return o == t })
}

func (p *Pool) write(ev Write) {
	after, ok := p.Writes(ev.Task)
	if !ok {
		p.emit(Drop{Batches: []uint64{ev.Batch}})
		return
	}
	task := p.byID[ev.Task]
	t := p.txnAfter(task.g, task.start, after)
	t.note(ev)
	t.held++
	key := laneKey{ev.Task, ev.Partition}
	l := p.byLane[key]
	if l == nil {
		l = &lane{laneKey: key}
		p.byLane[key] = l
		p.lanes = append(p.lanes, l)
	}
	l.queue = append(l.queue, heldBatch{t, ev.Batch})
	if _, known := t.joined[ev.Partition]; !known {
		t.joined[ev.Partition] = false
		t.wanted = append(t.wanted, ev.Partition)
	}
	if t.id == nil {
		p.assign()
		p.refill()
	}
	p.askPartitions(t)
	p.pump(l)
}

// pump sends what the head of a lane allows.
func (p *Pool) pump(l *lane) {
	for len(l.queue) > 0 {
		h := l.queue[0]
		if h.txn.id == nil || h.txn.state != opened || !h.txn.joined[l.partition] || p.mustWait(l, h.txn) {
			return
		}
		l.queue = l.queue[1:]
		l.inFlight = append(l.inFlight, h.txn)
		h.txn.held--
		h.txn.inFlight++
		p.emit(Send{Txn: h.txn.num, Handle: h.txn.handle, Task: l.task, Partition: l.partition, Batch: h.batch})
	}
	l.queue = nil
}

func (p *Pool) mustWait(l *lane, t *txn) bool {
	return !p.cfg.Rules.NoOrderWait && slices.ContainsFunc(l.inFlight, func(o *txn) bool { return o != t })
}

func (p *Pool) batchAnswered(ev BatchAnswer) {
	t := p.byNumber(ev.Txn)
	if t == nil || t.inFlight == 0 {
		return
	}
	t.inFlight--
	l := p.byLane[laneKey{ev.Task, ev.Partition}]
	if l != nil {
		if i := slices.Index(l.inFlight, t); i >= 0 {
			l.inFlight = slices.Delete(l.inFlight, i, i+1)
		}
	}
	if ev.Code != OK {
		t.doubt = t.doubt || ev.Code == Abandoned || Classify(ev.Code) == Unknown
		p.breakTxn(t, fmt.Sprintf("write a batch of task %s to %s", ev.Task, ev.Partition), ev.Code)
	}
	if l != nil {
		p.pump(l)
	}
	p.proceed(t)
}

// proceed is called after every answer for t.
func (p *Pool) proceed(t *txn) {
	if t.state == aborting {
		p.abort(t)
		return
	}
	p.settle()
}

// askPartitions sends AddPartitions for what t wants, one request at a time.
// It is the request that begins a transaction, so the clock is noted first.
func (p *Pool) askPartitions(t *txn) {
	if t.id == nil || t.state != opened || len(t.asking) > 0 || len(t.wanted) == 0 {
		return
	}
	t.begin(p.now)
	t.asking, t.wanted, t.attempt = t.wanted, nil, 0
	slices.SortFunc(t.asking, ids.TopicPartition.Compare)
	p.emit(AddPartitions{Txn: t.num, Handle: t.handle, Partitions: t.asking})
}

func (p *Pool) partitionsAnswered(ev PartitionsAnswer) {
	t := p.byNumber(ev.Txn)
	if t == nil || len(t.asking) == 0 {
		return
	}
	class := Classify(ev.Code)
	switch {
	case class == Done:
		for _, tp := range t.asking {
			t.joined[tp] = true
		}
		t.asking = nil
		p.askPartitions(t)
		for _, l := range p.lanes {
			p.pump(l)
		}
	case (class == Retry || class == Unknown) && t.state == opened:
		t.attempt++
		p.emit(AddPartitions{Txn: t.num, Handle: t.handle, Partitions: t.asking, Attempt: t.attempt})
		return
	default:
		t.doubt = t.doubt || class == Unknown
		t.asking = nil
		p.breakTxn(t, "add partitions to the transaction", ev.Code)
	}
	p.proceed(t)
}

// askOffsets sends the offsets that are due, in each group those of one
// checkpoint at a time and in order: a later checkpoint's must never be followed
// by an earlier one's (R18). Groups read different partitions.
func (p *Pool) askOffsets() {
	var waiting []*group
	for _, t := range p.txns {
		if t.g == nil || t.offsetState == none || t.offsetState == added || slices.Contains(waiting, t.g) {
			continue
		}
		waiting = append(waiting, t.g)
		if t.offsetState == due && t.id != nil && t.state == opened {
			t.begin(p.now)
			t.offsetState, t.offsetTry = asked, 0
			p.emitOffsets(t)
		}
	}
}

func (p *Pool) emitOffsets(t *txn) {
	p.emit(AddOffsets{
		Txn: t.num, Handle: t.handle, N: t.offsetsFor, Metadata: OffsetMetadata(p.cfg.Life, t.offsetsFor),
		Offsets: t.offsets, Attempt: t.offsetTry,
	})
}

func (p *Pool) offsetsAnswered(ev OffsetsAnswer) {
	t := p.byNumber(ev.Txn)
	if t == nil || t.offsetState != asked {
		return
	}
	class := Classify(ev.Code)
	switch {
	case class == Done:
		t.offsetState = added
	case (class == Retry || class == Unknown) && t.state == opened:
		t.offsetTry++
		p.emitOffsets(t)
		return
	default:
		t.doubt = t.doubt || class == Unknown
		t.offsetState = due
		p.breakTxn(t, fmt.Sprintf("add the offsets of checkpoint %d to the transaction", t.offsetsFor), ev.Code)
	}
	p.proceed(t)
}

// breakTxn notes that a transaction can no longer be prepared. Every task of its
// group may have output in it, so all of them failed; the Rollback that follows aborts
// it. What is denied will be denied again after it: that stops the application.
func (p *Pool) breakTxn(t *txn, what string, c Code) {
	if t.state != opened && t.state != prepared {
		return
	}
	t.state = broken
	err := fmt.Errorf("transaction %s: %s: %w", t.handle, what, c)
	if Classify(c) == Denied {
		p.emit(Fatal{Err: err})
	}
	if t.g == nil || t.g.failed {
		return
	}
	t.g.failed = true
	tasks := make([]ids.TaskID, 0, len(t.g.tasks))
	for _, pt := range t.g.tasks {
		tasks = append(tasks, pt.id)
	}
	p.emit(Failed{Tasks: tasks, Err: err})
}

// dropLanes forgets the batches of tasks that were not sent, and says whose
// batches on the way are not to be repeated.
func (p *Pool) dropLanes(list []ids.TaskID) {
	var d Drop
	sent := false
	p.lanes = slices.DeleteFunc(p.lanes, func(l *lane) bool {
		if !slices.Contains(list, l.task) {
			return false
		}
		for _, h := range l.queue {
			h.txn.held--
			d.Batches = append(d.Batches, h.batch)
		}
		for _, t := range l.inFlight {
			sent = true
			if !slices.Contains(d.Txns, t.handle) {
				d.Txns = append(d.Txns, t.handle)
			}
		}
		delete(p.byLane, l.laneKey)
		return true
	})
	if sent || len(d.Batches) > 0 {
		p.emit(d)
	}
}

// abort ends an undecided transaction once nothing of it is under way: an
// EndTxn overtaken by a write of the same epoch would leave that write in a
// transaction that nobody ends.
func (p *Pool) abort(t *txn) {
	if t.ending || t.inFlight > 0 || len(t.asking) > 0 || t.offsetState == asked {
		return
	}
	t.ending = true
	p.emit(End{Handle: t.handle, Attempt: t.endTry})
	if p.cfg.Rules.InitEarly {
		p.release(t)
	}
}

func (p *Pool) endAnswered(ev EndAnswer) {
	if ev.Commit {
		p.finish(ev)
		return
	}
	i := slices.IndexFunc(p.txns, func(t *txn) bool { return t.handle == ev.Handle && t.ending })
	if i < 0 {
		return
	}
	t := p.txns[i]
	switch Classify(ev.Code) {
	case Done:
		if t.doubt {
			t.id.kill()
		}
	case Gone:
		// Ended by the broker's timeout or by a fence; the id may have got a
		// new owner in the coordinator's eyes, so it is not used again.
		t.id.kill()
	default:
		t.endTry++
		p.emit(End{Handle: t.handle, Attempt: t.endTry})
		return
	}
	p.remove(t)
	p.release(t)
}
