package transactions

import (
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
)

type idState uint8

const (
	registering idState = iota
	idle
	initialising
	ready
	used
	dead
)

// txnID is one transactional id; see the package comment for its states.
type txnID struct {
	name    string
	state   idState
	handle  ids.TxnHandle
	attempt int
}

// kill takes an id out of use for ever.
func (x *txnID) kill() { x.state = dead }

// first is the number of ids registered at first: more are when checkpoints are
// aborted, and each group leaves a prepared transaction behind.
func (p *Pool) first() int {
	return p.cfg.InFlight + p.cfg.ToleratedAborts + 2*p.cfg.Groups
}

// comfortable is the number of ids that should do (R20).
func (p *Pool) comfortable() int {
	return (p.cfg.InFlight + p.cfg.ToleratedAborts + 2) * p.cfg.Groups
}

// register asks for count new ids.
func (p *Pool) register(count int) {
	names := make([]string, 0, count)
	for range count {
		x := &txnID{name: TransactionalID(p.cfg.Application, p.cfg.Life, p.cfg.Instance, len(p.ids))}
		p.ids = append(p.ids, x)
		names = append(names, x.name)
	}
	p.emit(Register{IDs: names})
	alive := 0
	for _, x := range p.ids {
		if x.state != dead {
			alive++
		}
	}
	if alive > p.comfortable() && alive > p.warnedAt {
		p.warnedAt = alive
		p.emit(Warn{Text: fmt.Sprintf("%d transactional ids in use, %d were expected: checkpoints are aborted or commits are not answered, and transactions pile up", alive, p.comfortable())})
	}
}

func (p *Pool) registered(ev Registered) {
	for _, x := range p.ids {
		for _, name := range ev.IDs {
			if x.name == name && x.state == registering {
				x.state = idle
			}
		}
	}
	p.refill()
}

// refill initialises idle ids ahead of need, and registers more when there are
// none.
func (p *Pool) refill() {
	if p.closing {
		return
	}
	want := p.cfg.Ahead
	for _, t := range p.txns {
		if t.id == nil && t.state == opened {
			want++
		}
	}
	for _, x := range p.ids {
		if x.state == ready || x.state == initialising {
			want--
		}
	}
	for _, x := range p.ids {
		if want > 0 && x.state == idle {
			want--
			x.state, x.attempt = initialising, p.inDoubt
			p.emit(InitProducer{ID: x.name, Attempt: x.attempt})
		}
	}
	for _, x := range p.ids {
		if x.state == registering {
			want--
		}
	}
	if want > 0 && len(p.ids) > 0 {
		p.register(want)
	}
}

func (p *Pool) initAnswered(ev InitAnswer) {
	x := p.idNamed(ev.ID)
	if x == nil || x.state != initialising {
		return
	}
	switch Classify(ev.Code) {
	case Done:
		x.state, p.inDoubt = ready, 0
		x.handle = ids.TxnHandle{TransactionalID: x.name, ProducerID: ev.ProducerID, ProducerEpoch: ev.Epoch}
		p.assign()
	case Retry:
		x.attempt++
		p.emit(InitProducer{ID: x.name, Attempt: x.attempt})
	case Denied, Refused:
		x.state = idle
		p.emit(Fatal{Err: fmt.Errorf("InitProducerId for %s: %w: grant Write and Describe on transactional ids with this prefix, and keep WithTransactionTimeout within the broker's transaction.max.timeout.ms", x.name, ev.Code)})
	default:
		// It may still arrive, and would then abort whatever is open. The next
		// id is tried ever later, or a coordinator that does not answer would
		// use up ids as fast as they can be registered.
		if x.kill(); p.cfg.Rules.ReuseInDoubt {
			x.state = idle
		}
		p.inDoubt++
		p.refill()
	}
}

func (p *Pool) idNamed(name string) *txnID {
	for _, x := range p.ids {
		if x.name == name {
			return x
		}
	}
	return nil
}

// assign gives ready ids to the transactions that wait for one, oldest first.
func (p *Pool) assign() {
	for _, t := range p.txns {
		if t.id != nil || t.state != opened {
			continue
		}
		x := p.readyID()
		if x == nil {
			break
		}
		x.state = used
		t.id, t.handle = x, x.handle
		p.askPartitions(t)
	}
	p.askOffsets()
	p.refill()
}

func (p *Pool) readyID() *txnID {
	for _, x := range p.ids {
		if x.state == ready {
			return x
		}
	}
	return nil
}

// giveBack returns the id of a transaction that was never begun: its handle is
// still unused.
func (p *Pool) giveBack(t *txn) {
	if t.id != nil {
		t.id.state = ready
	}
}

// release frees the id of a transaction that ended, unless it is dead.
func (p *Pool) release(t *txn) {
	if t.id == nil || t.id.state == dead {
		p.refill()
		return
	}
	if t.id.state == used && t.id.handle == t.handle {
		t.id.state = idle
		if p.cfg.Rules.KeepEpoch {
			t.id.state = ready
		}
	}
	p.assign()
}
