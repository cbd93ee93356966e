package barrier

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// applyForfeit counts a lost transaction as committed: said by its owner, or by
// the coordinator. The Committed that follows says so of the owner's others.
func (l *Log) applyForfeit(in *instance, b Forfeit) string {
	c, why := l.uncommitted(in, b.N, b.Owner, b.Term)
	if why != "" {
		return why
	}
	a, _ := ackOf(c.acks, b.Owner)
	switch {
	case !slices.ContainsFunc(a.Ack.Txns, func(t Txn) bool { return t.Handle == b.Handle }):
		return "the owner does not list the transaction"
	case slices.Contains(c.forfeited, b.Handle):
		return "given up before"
	}
	c.forfeited = append(c.forfeited, b.Handle)
	return ""
}

// noteLost takes in that a decided transaction is lost. A repetition of the
// commit, by another DoCommit, says it again.
func (p *participant) noteLost(e EvCommitLost) {
	p.lost = slices.DeleteFunc(p.lost, func(o EvCommitLost) bool {
		return o.N == e.N && o.Owner == e.Owner && o.Handle == e.Handle
	})
	p.lost = append(p.lost, e)
}

// judgeLost decides about decided transactions that the broker ended (R23). The
// log is read to an end taken after the broker's answer; if there is no Committed
// by then, the output is lost: an error, unless the user gives such output up.
func (p *participant) judgeLost(m *Machine) {
	for i := 0; i < len(p.lost); {
		e := p.lost[i]
		c := m.log.last()
		switch {
		case m.log.end < e.LogEnd:
			i++
		case c == nil || c.ref.N != e.N || !slices.Contains(c.uncommitted(), e.Owner):
			p.lost = slices.Delete(p.lost, i, i+1) // it was committed before
		case slices.Contains(c.forfeited, e.Handle) || m.cfg.mayForfeit(e.N) || m.cfg.Rules.SkipR23:
			i++
		default:
			m.fatal(fmt.Errorf("output of completed checkpoint %d is lost: transaction %s of instance %s was not committed in time (%s)%s; the checkpoint's other transactions were committed; raise WithTransactionTimeout and shorten restarts; to go on without that output say AllowLostOutput(%d), to write it again say RestoreFrom(an older checkpoint, AllowDuplicates) as well",
				e.N, e.Handle, e.Owner, e.Detail, describeLost(c, e), e.N))
			return
		}
	}
	p.settleLost(m)
}

// settleLost goes on as if the owner's commit had been answered, once all that
// it lost is given up.
func (p *participant) settleLost(m *Machine) {
	for len(p.lost) > 0 {
		i := slices.IndexFunc(p.lost, func(e EvCommitLost) bool { return p.allForfeited(m, e) })
		if i < 0 {
			return
		}
		e := p.lost[i]
		if e.Owner == m.cfg.Self {
			p.committed = p.committed || p.committing == e.N
		} else if t := m.coord.takeover(e.N, e.Owner); t != nil {
			t.done = true
		}
		p.lost = slices.DeleteFunc(p.lost, func(o EvCommitLost) bool { return o.N == e.N && o.Owner == e.Owner })
	}
}

// allForfeited reports whether all lost transactions of an owner are given up,
// as far as the log was read.
func (p *participant) allForfeited(m *Machine, e EvCommitLost) bool {
	c := m.log.last()
	if c == nil || c.ref.N != e.N {
		return false
	}
	given := 0
	for _, o := range p.lost {
		if o.N == e.N && o.Owner == e.Owner && (m.cfg.Rules.SkipR23 || slices.Contains(c.forfeited, o.Handle)) {
			given++
		}
	}
	return given >= max(e.Of, 1)
}

// wantForfeit gives lost output up, where this instance may say so.
func (p *participant) wantForfeit(m *Machine) Body {
	c := m.log.last()
	for _, e := range p.lost {
		if m.log.end < e.LogEnd || c == nil || c.ref.N != e.N || !m.cfg.mayForfeit(e.N) || slices.Contains(c.forfeited, e.Handle) {
			continue
		}
		switch {
		case e.Owner == m.cfg.Self:
			return Forfeit{N: e.N, Owner: e.Owner, Handle: e.Handle}
		case m.coord.leading(m):
			return Forfeit{Term: m.coord.term, N: e.N, Owner: e.Owner, Handle: e.Handle}
		}
	}
	return nil
}

func describeLost(c *completed, e EvCommitLost) string {
	a, _ := ackOf(c.acks, e.Owner)
	for _, t := range a.Ack.Txns {
		if t.Handle == e.Handle {
			return fmt.Sprintf(", with output to topics %v of the %d ms before the checkpoint", t.Topics, t.Age)
		}
	}
	return ""
}

// mayForfeit reports whether the user gives up lost output of a checkpoint.
func (c *Config) mayForfeit(n ids.CheckpointID) bool {
	return c.ForfeitAll || slices.Contains(c.Forfeit, n)
}
