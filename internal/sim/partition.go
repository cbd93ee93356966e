package sim

import (
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/transactions"
)

// outOfOrder is Kafka's OUT_OF_ORDER_SEQUENCE_NUMBER.
const outOfOrder transactions.Code = 45

// batch is a record batch in a repartition partition.
type batch struct {
	first, last int64
	records     []record.Raw
	writer      ids.Incarnation // for the zombie counter
}

// repPartition is a partition of a repartition topic.
type repPartition struct {
	w         *World
	tp        ids.TopicPartition
	batches   []batch
	start     int64 // log start
	end       int64
	producers []producerState
	consumed  int64 // the furthest read position, for the R29 mutant
}

// producerState is what a partition knows of a producer id.
type producerState struct {
	pid   int64
	epoch int16
	next  int32 // sequence number of the next batch
}

func findProducer(ps []producerState, pid int64) *producerState {
	for i := range ps {
		if ps[i].pid == pid {
			return &ps[i]
		}
	}
	return nil
}

// produce appends a batch of an idempotent producer. A partition that does not
// know the producer id accepts any first sequence, as Kafka does.
func (r *repPartition) produce(pid int64, seq int32, inc ids.Incarnation, recs []record.Raw) transactions.Code {
	ps := findProducer(r.producers, pid)
	if ps == nil {
		r.producers = append(r.producers, producerState{pid: pid, next: seq})
		ps = &r.producers[len(r.producers)-1]
	}
	switch {
	case seq < ps.next && seq >= ps.next-5:
		return transactions.OK // a repetition
	case seq != ps.next:
		return outOfOrder
	}
	ps.next++
	own := make([]record.Raw, len(recs))
	copy(own, recs)
	for i := range own {
		own[i].Offset = r.end + int64(i)
	}
	r.batches = append(r.batches, batch{first: r.end, last: r.end + int64(len(own)) - 1, records: own, writer: inc})
	r.end += int64(len(own))
	if inc < r.w.oracle.newestStart {
		r.w.stats.ZombieWrites++
	}
	return transactions.OK
}

// read returns the batches that hold offsets from a position on, like a fetch:
// a batch is whole even where the position is in its middle.
func (r *repPartition) read(from int64, most int) (out []batch, below bool) {
	if from < r.start {
		return nil, true
	}
	lo, hi := 0, len(r.batches)
	for lo < hi {
		mid := (lo + hi) / 2
		if r.batches[mid].last < from {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return r.batches[lo:min(len(r.batches), lo+most)], false
}

// purge is DeleteRecords.
func (r *repPartition) purge(below int64) {
	if below = min(below, r.end); below > r.start {
		r.start = below
		r.w.oracle.purged(r)
	}
}

func (w *World) partition(tp ids.TopicPartition) *repPartition {
	for _, r := range w.parts {
		if r.tp == tp {
			return r
		}
	}
	return nil
}
