package sim

import (
	"slices"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/transactions"
)

// finisher commits the transactions of another instance.
type finisher struct {
	n     ids.CheckpointID
	owner ids.InstanceID
	f     *transactions.Finisher
}

func (p *process) commit(e barrier.DoCommit) {
	if e.Owner == p.id {
		var hs []ids.TxnHandle
		for _, t := range e.Txns {
			hs = append(hs, t.Handle)
		}
		p.poolStep(transactions.Completed{N: e.N, Handles: hs})
		return
	}
	var list []transactions.Listed
	for _, t := range e.Txns {
		list = append(list, transactions.Listed{Handle: t.Handle, Topics: t.Topics})
	}
	p.finishers = slices.DeleteFunc(p.finishers, func(f *finisher) bool { return f.owner == e.Owner })
	f := &finisher{n: e.N, owner: e.Owner, f: transactions.NewFinisher(e.N, e.Owner, list)}
	p.finishers = append(p.finishers, f)
	p.performTxn(f.f.Start(), func(ev transactions.Event) { p.finisherStep(f, ev) })
	if len(list) == 0 {
		p.step(barrier.EvCommitted{N: e.N, Owner: e.Owner})
	}
}

func (p *process) finisherStep(f *finisher, ev transactions.Event) {
	if slices.Contains(p.finishers, f) {
		p.performTxn(f.f.Step(ev), func(ev transactions.Event) { p.finisherStep(f, ev) })
	}
}

// poolStep hands an event to the pool. Events for the pool that come up while
// its effects are performed wait, and so do those for the machine.
func (p *process) poolStep(ev transactions.Event) {
	if p.pool == nil {
		return
	}
	p.txnEvents = append(p.txnEvents, ev)
	if p.txnBusy {
		return
	}
	outer := p.busy
	p.txnBusy, p.busy = true, true
	for len(p.txnEvents) > 0 {
		next := p.txnEvents[0]
		p.txnEvents = p.txnEvents[1:]
		p.performTxn(p.pool.Step(next), p.poolStep)
	}
	p.txnBusy = false
	if !outer {
		p.drain()
	}
}

// performTxn carries out effects of a pool or a finisher; answers go to back.
func (p *process) performTxn(effects []transactions.Effect, back func(transactions.Event)) {
	for _, e := range effects {
		if p.w.tracing {
			p.w.tracef("%s txn: %T%+v", p.name, e, e)
		}
		p.performTxnEffect(e, back)
	}
}

func (p *process) performTxnEffect(e transactions.Effect, back func(transactions.Event)) {
	switch e := e.(type) {
	case transactions.Register:
		p.asked += len(e.IDs)
		p.step(barrier.EvWantIDs{Count: p.asked})
	case transactions.InitProducer:
		p.askInit(e)
	case transactions.AddPartitions:
		p.retry(e.Attempt, func() {
			parts := slices.Clone(e.Partitions)
			callAs(p, p.w.otherFate(), func() transactions.Code { return p.w.txns.addPartitions(e.Handle, parts) }, func(c transactions.Code, ok bool) {
				back(transactions.PartitionsAnswer{Now: p.monotonic(), Txn: e.Txn, Code: codeOf(c, ok)})
			})
		})
	case transactions.AddOffsets:
		p.retry(e.Attempt, func() { p.askOffsets(e, back) })
	case transactions.Send:
		p.send(e)
	case transactions.Drop:
		p.drop(e)
	case transactions.End:
		p.retry(e.Attempt, func() {
			callAs(p, p.w.endFate(), func() transactions.Code { return p.w.txns.endTxn(e.Handle, e.Commit) }, func(c transactions.Code, ok bool) {
				back(transactions.EndAnswer{Now: p.monotonic(), Handle: e.Handle, Commit: e.Commit, Code: codeOf(c, ok)})
			})
		})
	case transactions.Describe:
		p.retry(e.Attempt, func() {
			callAs(p, p.w.otherFate(), func() transactions.Described { return p.w.txns.describe(e.Handle) }, func(d transactions.Described, ok bool) {
				if !ok {
					d = transactions.Described{Handle: e.Handle, Code: transactions.NoAnswer}
				}
				back(d)
			})
		})
	case transactions.ReadLog:
		p.askLogEnd(e, back)
	case transactions.Prepared:
		p.poolPrepared(e.N)
	case transactions.WriteCommitted:
		p.step(barrier.EvCommitted{N: e.N, Owner: e.Owner})
	case transactions.Lost:
		p.lost(e)
	case transactions.Failed:
		p.failTasks(func(t *task) bool { return slices.Contains(e.Tasks, t.id) }, e.Err.Error())
	case transactions.Fatal:
		p.w.oracle.fatal(p, e.Err)
	case transactions.Warn:
	}
}

// retry sends the first attempt of a request at once: it is on its way even if
// the process ends with the next effect.
func (p *process) retry(attempt int, send func()) {
	if attempt == 0 {
		send()
		return
	}
	p.later(p.w.backoff(attempt), send)
}

func codeOf(c transactions.Code, ok bool) transactions.Code {
	if !ok {
		return transactions.NoAnswer
	}
	return c
}

func (p *process) askInit(e transactions.InitProducer) {
	type answer struct {
		h ids.TxnHandle
		c transactions.Code
	}
	p.retry(e.Attempt, func() {
		callAs(p, p.w.initFate(), func() answer {
			h, c := p.w.txns.initProducer(e.ID)
			return answer{h, c}
		}, func(a answer, ok bool) {
			p.poolStep(transactions.InitAnswer{
				Now: p.monotonic(), ID: e.ID, ProducerID: a.h.ProducerID, Epoch: a.h.ProducerEpoch, Code: codeOf(a.c, ok),
			})
		})
	})
}

func (p *process) askOffsets(e transactions.AddOffsets, back func(transactions.Event)) {
	var offs []groupOffset
	for _, o := range e.Offsets {
		offs = append(offs, groupOffset{tp: o.Partition, next: o.Next, meta: e.Metadata})
	}
	callAs(p, p.w.otherFate(), func() transactions.Code { return p.w.txns.addOffsets(e.Handle, offs) }, func(c transactions.Code, ok bool) {
		back(transactions.OffsetsAnswer{Now: p.monotonic(), Txn: e.Txn, Code: codeOf(c, ok)})
	})
}

// askLogEnd notes the end of the control log; the machine reads to it before
// it judges a loss (R23).
func (p *process) askLogEnd(e transactions.ReadLog, back func(transactions.Event)) {
	call(p, func() int64 { return int64(len(p.w.log.records)) }, func(end int64, ok bool) {
		if !ok {
			p.askLogEnd(e, back)
			return
		}
		p.logEnds = append(p.logEnds, handleEnd{e.Handle, end})
		back(transactions.LogRead{Handle: e.Handle})
	})
}

func (p *process) lost(e transactions.Lost) {
	err, end := e.Err, int64(0)
	for _, h := range p.logEnds {
		if h.handle == err.Txn.Handle {
			end = max(end, h.end)
		}
	}
	p.w.oracle.lostIn = err.N
	p.step(barrier.EvCommitLost{N: err.N, Owner: err.Owner, Handle: err.Txn.Handle, Of: e.Of, LogEnd: end, Detail: err.Error()})
}

// sinkWriter writes the batches of one transaction to one partition in order.
type sinkWriter struct {
	p      *process
	handle ids.TxnHandle
	part   *sinkPartition
	sequencer
}

func (p *process) send(e transactions.Send) {
	var wr *sinkWriter
	for _, x := range p.writers {
		if x.handle == e.Handle && x.part.tp == e.Partition {
			wr = x
		}
	}
	if wr == nil {
		wr = &sinkWriter{p: p, handle: e.Handle, part: p.w.sinks[e.Partition.Partition]}
		wr.sequencer.p = p
		p.writers = append(p.writers, wr)
	}
	recs := p.batches[e.Batch]
	delete(p.batches, e.Batch)
	handle, part := e.Handle, wr.part
	wr.add(func(seq int32) transactions.Code { return part.produce(handle, seq, recs) }, func(c transactions.Code) {
		p.poolStep(transactions.BatchAnswer{Now: p.monotonic(), Txn: e.Txn, Task: e.Task, Partition: e.Partition, Code: c})
	})
}

// drop forgets unsent batches and gives up those in doubt.
func (p *process) drop(e transactions.Drop) {
	for _, b := range e.Batches {
		delete(p.batches, b)
	}
	p.writers = slices.DeleteFunc(p.writers, func(wr *sinkWriter) bool {
		given := slices.Contains(e.Txns, wr.handle)
		if given {
			wr.giveUp()
		}
		return given
	})
}
