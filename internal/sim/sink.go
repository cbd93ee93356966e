package sim

import (
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/transactions"
)

// output is a record in a sink topic.
type output struct {
	src, key  uint8
	loop      bool  // it went through the cycle
	hop1      uint8 // partition of the task that counted it first
	last      uint8 // partition of the task that wrote it
	off       int64 // of the input record
	idx       int32 // position of the input record among those of its key
	count1    int32
	count2    int32
	stream    int64 // stream time of the writer
	inc       ids.Incarnation
	committed bool
}

type entryState uint8

const (
	undecided entryState = iota
	committed
	aborted
)

// sinkEntry is a batch in a sink partition.
type sinkEntry struct {
	pid   int64
	state entryState
	recs  []output
}

// sinkPartition is a partition of the sink topic with its transactions.
type sinkPartition struct {
	w         *World
	tp        ids.TopicPartition
	entries   []sinkEntry
	stable    int // entries below it are read by a read-committed consumer
	producers []producerState
}

// produce appends a transactional batch.
func (s *sinkPartition) produce(h ids.TxnHandle, seq int32, recs []output) transactions.Code {
	ps := findProducer(s.producers, h.ProducerID)
	if ps != nil && h.ProducerEpoch < ps.epoch {
		return transactions.InvalidProducerEpoch
	}
	if ps != nil && h.ProducerEpoch == ps.epoch && seq < ps.next && seq >= ps.next-5 {
		return transactions.OK // a repetition
	}
	if !s.w.txns.verify(h, s.tp) {
		return transactions.InvalidTxnState
	}
	if ps == nil {
		s.producers = append(s.producers, producerState{pid: h.ProducerID, epoch: h.ProducerEpoch, next: seq})
		ps = &s.producers[len(s.producers)-1]
	}
	if h.ProducerEpoch > ps.epoch {
		ps.epoch, ps.next = h.ProducerEpoch, 0
	}
	if seq != ps.next {
		return outOfOrder
	}
	ps.next++
	s.entries = append(s.entries, sinkEntry{pid: h.ProducerID, recs: slices.Clone(recs)})
	if len(recs) > 0 && recs[0].inc < s.w.oracle.newestStart {
		s.w.stats.ZombieWrites++
	}
	return transactions.OK
}

// mark writes a transaction marker.
func (s *sinkPartition) mark(pid int64, epoch int16, commit bool) {
	if ps := findProducer(s.producers, pid); ps == nil {
		s.producers = append(s.producers, producerState{pid: pid, epoch: epoch})
	} else if epoch > ps.epoch {
		ps.epoch, ps.next = epoch, 0
	}
	for i := s.stable; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.pid == pid && e.state == undecided {
			e.state = aborted
			if commit {
				e.state = committed
			}
		}
	}
	for s.stable < len(s.entries) && s.entries[s.stable].state != undecided {
		e := &s.entries[s.stable]
		s.stable++
		if e.state == committed {
			for i := range e.recs {
				s.w.oracle.visible(s, &e.recs[i])
			}
		}
	}
}

// decided reports the outputs of a transaction whose commit is certain, before
// its markers are written.
func (s *sinkPartition) decided(pid int64) {
	for i := s.stable; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.pid == pid && e.state == undecided {
			for j := range e.recs {
				s.w.oracle.committedOutput(&e.recs[j])
			}
		}
	}
}
