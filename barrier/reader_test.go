package barrier

import (
	"fmt"
	"strings"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

// reader is a task's input loop around an Aligner, over partitions that are
// slices of segments: what package tasks does with batches and queues.
type reader struct {
	a          *Aligner
	inputs     []AlignInput
	partitions [][]Segment // all that was written
	at         []int       // next segment to fetch, per input
	queue      [][]Segment // put back, before what is fetched
	held       [][]Segment
	deliver    func(input int, s Segment)
	trace      *strings.Builder
}

func newReader(inputs []AlignInput) *reader {
	n := len(inputs)
	return &reader{inputs: inputs, partitions: make([][]Segment, n), at: make([]int, n), queue: make([][]Segment, n), held: make([][]Segment, n)}
}

// open makes an aligner that goes on at the positions.
func (r *reader) open(cfg AlignConfig) error {
	cfg.Inputs = r.inputs
	a, err := NewAligner(cfg)
	if err != nil {
		return err
	}
	r.a = a
	for i := range r.inputs {
		r.queue[i], r.held[i] = nil, nil
		for _, p := range cfg.Positions {
			if p.Partition == r.inputs[i].Partition {
				r.seek(i, p.Next)
			}
		}
	}
	return nil
}

func (r *reader) seek(input int, offset int64) {
	r.at[input] = 0
	for r.at[input] < len(r.partitions[input]) && r.partitions[input][r.at[input]].Last < offset {
		r.at[input]++
	}
}

// write appends a segment to a partition; data has one record per offset.
func (r *reader) write(input int, s Segment, records int) {
	p := r.partitions[input]
	if len(p) > 0 {
		s.First = p[len(p)-1].Last + 1
	}
	s.Last = s.First
	if s.Kind == HeaderData {
		s.Last = s.First + int64(records) - 1
		for k := range records {
			s.Records = append(s.Records, record.Raw{Offset: s.First + int64(k), Timestamp: s.MinTime})
		}
		s.MaxTime, s.Bytes = s.MinTime, records*100
	}
	r.partitions[input] = append(p, s)
}

// take offers the head of an input; it reports whether it was taken, and
// whether the task is to take its snapshot.
func (r *reader) take(input int) (moved, aligned bool) {
	var s Segment
	put := len(r.queue[input]) > 0
	switch {
	case put:
		s = r.queue[input][0]
	case r.at[input] < len(r.partitions[input]):
		s = r.partitions[input][r.at[input]]
	default:
		return false, false
	}
	v, aligned := r.a.Offer(input, &s)
	if r.trace != nil {
		fmt.Fprintf(r.trace, "%d %s: %s\n", input, segmentString(s), v)
	}
	if v == Stop {
		return false, false
	}
	if put {
		r.queue[input] = r.queue[input][1:]
	} else {
		r.at[input]++
	}
	switch v {
	case Deliver:
		if r.deliver != nil {
			r.deliver(input, s)
		}
	case Hold:
		r.held[input] = append(r.held[input], s)
	}
	return true, aligned
}

// release puts held segments back and seeks, as Snapshotted asks.
func (r *reader) release(again []Reread) {
	for i := range r.inputs {
		r.queue[i] = append(r.held[i], r.queue[i]...)
		r.held[i] = nil
	}
	for _, g := range again {
		// What is queued behind the held ones is read again.
		q := r.queue[g.Input][:0]
		for _, s := range r.queue[g.Input] {
			if s.First < g.Offset {
				q = append(q, s)
			}
		}
		r.queue[g.Input] = q
		r.seek(g.Input, g.Offset)
	}
}

func segmentString(s Segment) string {
	where := fmt.Sprintf("@%d", s.First)
	if s.Last != s.First {
		where = fmt.Sprintf("@%d-%d", s.First, s.Last)
	}
	switch s.Kind {
	case HeaderBarrier:
		return fmt.Sprintf("%s barrier %d of %s/%d", where, s.N, s.Channel.Task, s.Channel.Inc)
	case HeaderTime:
		return fmt.Sprintf("%s time %d of %s/%d", where, s.Time, s.Channel.Task, s.Channel.Inc)
	}
	return fmt.Sprintf("%s data of %s/%d", where, s.Channel.Task, s.Channel.Inc)
}

func partitionOf(i int) ids.TopicPartition {
	return ids.TopicPartition{Topic: "r", Partition: int32(i)}
}
