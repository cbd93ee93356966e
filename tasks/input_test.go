package tasks

import (
	"testing"

	"github.com/tidegate/tidegate/barrier"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/record"
)

func tagged(offset int64, header []byte) record.Raw {
	r := record.Raw{Offset: offset, Value: []byte("v")}
	if header != nil {
		r.Headers = record.Headers{{Key: barrier.HeaderKey, Value: header}}
	}
	return r
}

// A position within a record batch: the records before it are not processed
// again, but say whose the ones behind it are.
func TestFetchWithinBatchInherits(t *testing.T) {
	c := barrier.Channel{Task: ids.TaskID{Sub: 0, Partition: 3}, Inc: 7}
	data := barrier.AppendDataHeader(nil, 1, c)
	other := barrier.Channel{Task: ids.TaskID{Sub: 0, Partition: 4}, Inc: 7}
	in := &input{spec: InputSpec{Internal: true}}
	b := &kafka.Batch{
		FirstOffset: 12, NextOffset: 17,
		Skipped: []record.Raw{tagged(10, data), tagged(11, nil)},
		Records: []record.Raw{
			tagged(12, nil), tagged(13, nil),
			tagged(14, barrier.AppendDataHeader(nil, 1, other)), tagged(15, nil),
		},
		BatchStarts: []int32{2},
	}
	var reader barrier.SegmentReader
	if err := in.add(b, &reader, 0); err != nil {
		t.Fatal(err)
	}
	if len(in.queue) != 2 {
		t.Fatalf("%d items", len(in.queue))
	}
	first, second := in.queue[0], in.queue[1]
	if first.seg.Channel != c || first.seg.First != 12 || first.seg.Last != 13 || first.last {
		t.Errorf("first segment %+v", first.seg)
	}
	if second.seg.Channel != other || second.seg.Last != 15 || !second.last {
		t.Errorf("second segment %+v", second.seg)
	}
}

// A batch of a generation before a seek is forgotten.
func TestStaleGeneration(t *testing.T) {
	in := &input{spec: InputSpec{Internal: true}, gen: 2}
	var reader barrier.SegmentReader
	b := &kafka.Batch{Generation: 1, NextOffset: 17, Records: []record.Raw{tagged(14, nil)}, BatchStarts: []int32{0}}
	if err := in.add(b, &reader, 0); err != nil || !in.empty() || in.fetched != 0 {
		t.Fatalf("%v, %d items, fetched %d", err, len(in.queue), in.fetched)
	}
}

// Pieces of a segment share its size: the bound on what waits counts each byte
// once.
func TestSplitSharesBytes(t *testing.T) {
	s := barrier.Segment{Kind: barrier.HeaderData, Bytes: 100, First: 5, Last: 8, Records: []record.Raw{tagged(5, nil), tagged(6, nil), tagged(7, nil), tagged(8, nil)}}
	head := split(&s, 1)
	if head.Bytes != 25 || s.Bytes != 75 || head.Last != 5 || s.First != 6 || len(s.Records) != 3 {
		t.Fatalf("head %+v, rest %+v", head, s)
	}
}
