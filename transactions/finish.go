package transactions

import (
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
)

// Finisher commits the transactions that one instance listed in a completed
// checkpoint, oldest first, and says what became of them (R19, R23). The owner
// uses it through its Pool; the coordinator makes one for each instance that
// is gone, from the acks in the control log. Both may run at once: committing
// a decided transaction twice is harmless.
//
//	   ┌──── again: no answer, or "retry" ────┐
//	   ▼                                      │
//	ending ── success ─► next          ┌──────┤
//	   │ 47, 48, 49, 90                │      │
//	   ▼                               │      │
//	reading ── Committed found ─► next │      │
//	   │ not there                     │      │
//	   ▼                               │      │
//	describing ── same handle, prepare- or complete-commit ─► next
//	   │     └─── same handle, ongoing ┘
//	   ▼
//	 lost: the others are committed, then Lost
type Finisher struct {
	n       ids.CheckpointID
	owner   ids.InstanceID
	txns    []Listed
	i       int
	phase   phase
	attempt int
	code    Code // the answer that made us read the log
	gone    []ids.TxnHandle
	lost    []*LostError
	rules   Rules
}

type phase uint8

const (
	ending phase = iota
	reading
	describing
	finished
)

// NewFinisher returns a Finisher for what owner's Ack of checkpoint n lists.
func NewFinisher(n ids.CheckpointID, owner ids.InstanceID, txns []Listed) *Finisher {
	return &Finisher{n: n, owner: owner, txns: txns}
}

// Start returns the first effects: End, or none if nothing was listed.
func (f *Finisher) Start() []Effect {
	if len(f.txns) == 0 {
		f.phase = finished
		return nil
	}
	return []Effect{f.end()}
}

// Done reports whether every listed transaction has its definite answer.
// WriteCommitted or Lost was among the last effects unless nothing was listed.
func (f *Finisher) Done() bool { return f.phase == finished }

// N returns the checkpoint.
func (f *Finisher) N() ids.CheckpointID { return f.n }

// Step takes EndAnswer, LogRead and Described. Answers that it does not wait
// for are ignored.
func (f *Finisher) Step(ev Event) []Effect {
	if f.phase == finished {
		return nil
	}
	h := f.txns[f.i].Handle
	switch ev := ev.(type) {
	case EndAnswer:
		if f.phase == ending && ev.Handle == h && ev.Commit {
			return f.ended(ev.Code)
		}
	case LogRead:
		if f.phase == reading && ev.Handle == h {
			if ev.Committed {
				return f.next()
			}
			f.phase, f.attempt = describing, 0
			return []Effect{Describe{Handle: h}}
		}
	case Described:
		if f.phase == describing && ev.Handle == h {
			return f.described(ev)
		}
	}
	return nil
}

// ended acts on the answer to a decided commit. A decision is never given up:
// whatever is not an end is asked again.
func (f *Finisher) ended(c Code) []Effect {
	class := Classify(c)
	if class == Unknown && f.rules.EndUnanswered || class == Gone && f.rules.GoneIsDone {
		class = Done
	}
	switch class {
	case Done:
		return f.next()
	case Gone:
		h := f.txns[f.i].Handle
		f.phase, f.code = reading, c
		f.gone = append(f.gone, h)
		return []Effect{ReadLog{N: f.n, Owner: f.owner, Handle: h}}
	case Denied, Refused:
		f.attempt++
		return []Effect{f.denied("EndTxn", c), f.end()}
	}
	f.attempt++
	return []Effect{f.end()}
}

func (f *Finisher) described(d Described) []Effect {
	h := f.txns[f.i].Handle
	switch class := Classify(d.Code); {
	case d.Code == TxnIDNotFound:
		return f.loseCurrent(d)
	case class == Done:
		break
	default:
		f.attempt++
		again := Describe{Handle: h, Attempt: f.attempt}
		if class == Denied || class == Refused {
			return []Effect{f.denied("DescribeTransactions", d.Code), again}
		}
		return []Effect{again}
	}
	if d.ProducerID == h.ProducerID && d.Epoch == h.ProducerEpoch {
		switch d.State {
		case StatePrepareCommit, StateCompleteCommit:
			return f.next()
		case StateOngoing:
			f.attempt++
			return []Effect{f.end()}
		}
	}
	return f.loseCurrent(d)
}

func (f *Finisher) loseCurrent(d Described) []Effect {
	f.lost = append(f.lost, &LostError{N: f.n, Owner: f.owner, Txn: f.txns[f.i], Code: f.code, Broker: d})
	return f.next()
}

// next goes on to the next transaction, or concludes: Committed is written
// only when none is lost.
func (f *Finisher) next() []Effect {
	f.i++
	f.attempt = 0
	if f.i < len(f.txns) {
		return []Effect{f.end()}
	}
	f.phase = finished
	if len(f.lost) == 0 {
		return []Effect{WriteCommitted{N: f.n, Owner: f.owner}}
	}
	eff := make([]Effect, 0, len(f.lost))
	for _, l := range f.lost {
		eff = append(eff, Lost{Err: l, Of: len(f.lost)})
	}
	return eff
}

func (f *Finisher) end() Effect {
	f.phase = ending
	return End{Handle: f.txns[f.i].Handle, Commit: true, Attempt: f.attempt}
}

func (f *Finisher) denied(request string, c Code) Effect {
	return Warn{Text: fmt.Sprintf("%s for %s, decided by checkpoint %d: %s; trying again until it is allowed", request, f.txns[f.i].Handle, f.n, c)}
}
