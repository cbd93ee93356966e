package sim

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/transactions"
)

// coordinator is the broker's transaction coordinator. Its answers are those
// of the table in the project's facts, tried on Kafka 4.4.
type coordinator struct {
	w        *World
	ids      []*brokerTxn // in order of first use
	appended int64        // offset commits: the log of the group's offsets
}

type brokerTxn struct {
	id      string
	pid     int64
	epoch   int16
	state   transactions.TxnState
	round   int // of this transaction, for the timeout
	parts   []*sinkPartition
	offsets []groupOffset
	metas   []string // of offset commits so far, in any transaction of the id
	pending int      // markers not written yet
}

func (c *coordinator) find(id string) *brokerTxn {
	for _, t := range c.ids {
		if t.id == id {
			return t
		}
	}
	return nil
}

func (t *brokerTxn) preparing() bool {
	return t.state == transactions.StatePrepareCommit || t.state == transactions.StatePrepareAbort
}

// initProducer is InitProducerId.
func (c *coordinator) initProducer(id string) (h ids.TxnHandle, code transactions.Code) {
	t := c.find(id)
	switch {
	case t == nil:
		c.w.nextPID++
		t = &brokerTxn{id: id, pid: c.w.nextPID, state: transactions.StateEmpty}
		c.ids = append(c.ids, t)
	case t.state == transactions.StateOngoing:
		t.epoch++ // fences whoever writes
		c.end(t, false)
		return h, transactions.ConcurrentTransactions
	case t.preparing():
		return h, transactions.ConcurrentTransactions
	default:
		t.epoch++
		t.state = transactions.StateEmpty
	}
	c.w.tracef("broker: %s gets (%d,%d)", id, t.pid, t.epoch)
	return ids.TxnHandle{TransactionalID: id, ProducerID: t.pid, ProducerEpoch: t.epoch}, transactions.OK
}

func (c *coordinator) check(h ids.TxnHandle) (*brokerTxn, transactions.Code) {
	t := c.find(h.TransactionalID)
	switch {
	case t == nil || t.pid != h.ProducerID:
		return nil, transactions.InvalidProducerIDMapping
	case t.epoch != h.ProducerEpoch:
		return nil, transactions.ProducerFenced
	}
	return t, transactions.OK
}

// begin makes the transaction ongoing.
func (c *coordinator) begin(h ids.TxnHandle) (*brokerTxn, transactions.Code) {
	t, code := c.check(h)
	if code != transactions.OK {
		return nil, code
	}
	if t.preparing() {
		return nil, transactions.ConcurrentTransactions
	}
	if t.state != transactions.StateOngoing {
		t.state = transactions.StateOngoing
		t.round++
		round := t.round
		c.w.after(c.w.plan.transactionTimeout, func() {
			if t.round == round && t.state == transactions.StateOngoing {
				c.w.stats.TxnTimeouts++
				c.w.tracef("broker: %s times out", t.id)
				c.w.oracle.timesOut(ids.TxnHandle{TransactionalID: t.id, ProducerID: t.pid, ProducerEpoch: t.epoch})
				t.epoch++
				c.end(t, false)
			}
		})
	}
	return t, transactions.OK
}

func (c *coordinator) addPartitions(h ids.TxnHandle, tps []ids.TopicPartition) transactions.Code {
	t, code := c.begin(h)
	if code != transactions.OK {
		return code
	}
	for _, tp := range tps {
		if s := c.w.sinks[tp.Partition]; !slices.Contains(t.parts, s) {
			t.parts = append(t.parts, s)
		}
	}
	return transactions.OK
}

// addOffsets is AddOffsetsToTxn and TxnOffsetCommit.
func (c *coordinator) addOffsets(h ids.TxnHandle, offs []groupOffset) transactions.Code {
	t, code := c.begin(h)
	if code != transactions.OK {
		return code
	}
	again := false
	if len(offs) > 0 {
		again = slices.Contains(t.metas, offs[0].meta)
		t.metas = append(t.metas, offs[0].meta)
	}
	for _, o := range offs {
		c.appended++
		o.at, o.again = c.appended, again
		if i := slices.IndexFunc(t.offsets, func(x groupOffset) bool { return x.tp == o.tp }); i >= 0 {
			t.offsets[i] = o
		} else {
			t.offsets = append(t.offsets, o)
		}
	}
	return transactions.OK
}

// verify says whether a batch may be appended to a partition.
func (c *coordinator) verify(h ids.TxnHandle, tp ids.TopicPartition) bool {
	t, code := c.check(h)
	return code == transactions.OK && t.state == transactions.StateOngoing && slices.Contains(t.parts, c.w.sinks[tp.Partition])
}

// endTxn is EndTxn.
func (c *coordinator) endTxn(h ids.TxnHandle, commit bool) transactions.Code {
	t, code := c.check(h)
	if code != transactions.OK {
		return code
	}
	switch t.state {
	case transactions.StateOngoing:
		if commit {
			c.w.oracle.committing(h)
		}
		c.end(t, commit)
		return transactions.OK
	case transactions.StatePrepareCommit, transactions.StatePrepareAbort:
		if commit != (t.state == transactions.StatePrepareCommit) {
			return transactions.InvalidTxnState
		}
		return transactions.ConcurrentTransactions
	case transactions.StateCompleteCommit:
		if commit {
			return transactions.OK
		}
	case transactions.StateCompleteAbort:
		if !commit {
			return transactions.OK
		}
	}
	return transactions.InvalidTxnState
}

// end writes the markers, each in its own time.
func (c *coordinator) end(t *brokerTxn, commit bool) {
	w := c.w
	w.tracef("broker: end %s(%d,%d) commit %t", t.id, t.pid, t.epoch, commit)
	t.state = transactions.StatePrepareAbort
	if commit {
		t.state = transactions.StatePrepareCommit
		for _, s := range t.parts {
			s.decided(t.pid)
		}
	}
	t.pending = len(t.parts) + 1
	done := func() {
		if t.pending--; t.pending > 0 {
			return
		}
		t.parts, t.offsets = nil, nil
		t.state = transactions.StateCompleteAbort
		if commit {
			t.state = transactions.StateCompleteCommit
		}
	}
	epoch := t.epoch
	for _, s := range t.parts {
		w.after(w.latency(), func() {
			s.mark(t.pid, epoch, commit)
			done()
		})
	}
	w.after(w.latency(), func() {
		if commit {
			w.offsets.apply(w, t.offsets)
		}
		done()
	})
}

// describe is DescribeTransactions.
func (c *coordinator) describe(h ids.TxnHandle) transactions.Described {
	t := c.find(h.TransactionalID)
	if t == nil {
		return transactions.Described{Handle: h, Code: transactions.TxnIDNotFound}
	}
	return transactions.Described{Handle: h, ProducerID: t.pid, Epoch: t.epoch, State: t.state}
}

// groupOffset is a committed offset of the group.
type groupOffset struct {
	tp    ids.TopicPartition
	next  int64
	meta  string
	at    int64 // position of the commit in the log of offsets
	again bool  // a request that had been carried out before
}

// groupOffsets are the committed offsets, one per external partition.
type groupOffsets []groupOffset

func (g *groupOffsets) apply(w *World, offs []groupOffset) {
	for _, o := range offs {
		i := slices.IndexFunc(*g, func(x groupOffset) bool { return x.tp == o.tp })
		if i < 0 {
			*g = append(*g, o)
			continue
		}
		if o.at < (*g)[i].at {
			continue // the order of the commits counts, not that of the markers
		}
		w.oracle.offsetMoves((*g)[i], o)
		(*g)[i] = o
	}
}

func (g groupOffsets) find(tp ids.TopicPartition) (groupOffset, bool) {
	for _, o := range g {
		if o.tp == tp {
			return o, true
		}
	}
	return groupOffset{}, false
}

// unstable reports whether a transaction may still change the offsets: a
// fetch with RequireStable is then answered with code 88.
func (c *coordinator) unstable() bool {
	for _, t := range c.ids {
		if len(t.offsets) > 0 {
			return true
		}
	}
	return false
}
