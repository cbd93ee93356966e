package barrier

import (
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

// A record carries the barriers of several tasks, and a snapshot falls between two
// of its entries, as the other input was the last one owed and cycle channels are
// not awaited. A restore must meet the entries behind it again, or it takes records
// for valid that their writer's end barrier excludes.
func TestSnapshotWithinARecord(t *testing.T) {
	up, loop := ids.TaskID{}, []ids.TaskID{{Sub: 1}, {Sub: 1, Partition: 1}}
	inputs := []AlignInput{{Partition: partitionOf(0), Cycle: NewTaskSet(loop...)}, {Partition: partitionOf(1), Forward: NewTaskSet(up)}}
	lineages := Lineages{}.Restart(NewTaskSet(up, loop[0], loop[1]), 0, 3)
	first := []PartitionPosition{FirstPosition(partitionOf(0), 0), FirstPosition(partitionOf(1), 0)}
	open := func(l Lineages, at []PartitionPosition, log int64) *Aligner {
		a, err := NewAligner(AlignConfig{Life: testLife, Inputs: inputs, Lineages: l, Positions: at, LogEnd: log})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	channel := func(u ids.TaskID) Channel { return Channel{Task: u, Inc: 3} }
	// What the partition holds: barrier 10 of both, then a record of the second,
	// which is behind its barrier.
	read := func() (out []Segment) {
		var r SegmentReader
		r.Reset([]record.Raw{
			{Headers: record.Headers{{Key: HeaderKey, Value: AppendBarrierHeader(nil, testLife, 10, []Channel{channel(loop[0]), channel(loop[1])})}}},
			{Offset: 1, Headers: record.Headers{{Key: HeaderKey, Value: AppendDataHeader(nil, testLife, channel(loop[1]))}}},
		})
		for {
			s, ok, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return out
			}
			out = append(out, s)
		}
	}
	segments := read()
	if len(segments) != 3 || !segments[0].More || segments[1].More || segments[2].More {
		t.Fatalf("segments %+v", segments)
	}
	a := open(lineages, first, 11)
	a.Trigger(10)
	a.Offer(0, &segments[0])
	if v, aligned := a.Offer(1, &Segment{Kind: HeaderBarrier, Life: testLife, Channel: channel(up), N: 10}); v != Deliver || !aligned {
		t.Fatalf("the last barrier: %v, aligned %v", v, aligned)
	}
	at := a.Positions()
	if at[0].Next != 0 {
		t.Errorf("the partition is read on at %d, behind an entry that was not read", at[0].Next)
	}

	// All start again from 10 as incarnation 20: the record behind barrier 10 is
	// void.
	a = open(lineages.Restart(NewTaskSet(up, loop[0], loop[1]), 10, 20), at, 21)
	want := []Verdict{Skip, Deliver, Skip}
	for i, s := range read() {
		if s.Last < at[0].Next {
			continue
		}
		if v, _ := a.Offer(0, &s); v != want[i] {
			t.Errorf("segment %d after the restore: %v, want %v", i, v, want[i])
		}
	}
	if p := a.Positions(); p[0].Next != 2 {
		t.Errorf("all is read, and the position is %d", p[0].Next)
	}
}
