package kafka

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// block builds a fetch answer from instructions of two bytes: what a record
// batch is, and how many records, gaps and offsets it has.
func block(script []byte) (*sarama.FetchResponseBlock, int64) {
	b := &sarama.FetchResponseBlock{}
	next := int64(0)
	open := map[int64]int64{} // producer id → first offset of its transaction
	for len(script) >= 2 {
		op, arg := script[0], script[1]
		script = script[2:]
		pid := int64(op>>3) % 3
		rb := &sarama.RecordBatch{Version: 2, FirstOffset: next, ProducerID: pid, FirstTimestamp: time.UnixMilli(int64(arg))}
		n := int(arg%4) + 1
		rb.LastOffsetDelta = int32(n - 1)
		switch op & 7 {
		case 0, 1, 2: // plain
		case 3, 4: // transactional
			rb.IsTransactional = true
			if _, ok := open[pid]; !ok {
				open[pid] = next
			}
		case 5, 6: // marker: 5 aborts, 6 commits
			rb.Control, rb.IsTransactional = true, true
			n = 1
			rb.LastOffsetDelta = 0
			key := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(op&7-5))
			rb.Records = []*sarama.Record{{Key: key}}
			if first, ok := open[pid]; ok && op&7 == 5 {
				b.AbortedTransactions = append(b.AbortedTransactions, &sarama.AbortedTransaction{ProducerID: pid, FirstOffset: first})
			}
			delete(open, pid)
		case 7: // compacted: the last offsets have no record
			rb.LastOffsetDelta += int32(arg % 3)
		}
		if !rb.Control {
			for i := range n {
				r := &sarama.Record{OffsetDelta: int64(i), Value: []byte{op, arg}}
				if arg&1 == 1 {
					r.Headers = []*sarama.RecordHeader{{Key: []byte{'h', arg}, Value: []byte{op}}}
				}
				rb.Records = append(rb.Records, r)
			}
		}
		next = rb.LastOffset() + 1
		b.RecordsSet = append(b.RecordsSet, &sarama.Records{RecordBatch: rb})
	}
	b.HighWaterMarkOffset, b.LastStableOffset = next, next
	for _, first := range open {
		b.LastStableOffset = min(b.LastStableOffset, first)
	}
	return b, next
}

// abortedOffsets says by the definition which offsets were aborted: a record of
// a transaction that has an abort marker as its next marker of the producer.
func abortedOffsets(b *sarama.FetchResponseBlock) map[int64]bool {
	pending, out := map[int64][]int64{}, map[int64]bool{}
	for _, set := range b.RecordsSet {
		rb := set.RecordBatch
		if rb.Control {
			if isAbortMarker(rb) {
				for _, o := range pending[rb.ProducerID] {
					out[o] = true
				}
			}
			delete(pending, rb.ProducerID)
			continue
		}
		for _, r := range rb.Records {
			if rb.IsTransactional {
				pending[rb.ProducerID] = append(pending[rb.ProducerID], rb.FirstOffset+r.OffsetDelta)
			}
		}
	}
	return out
}

// FuzzDecode checks a decoded answer against the definition, from any position.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 1, 3, 2, 5, 0, 7, 2, 6, 0}, byte(0), true)
	f.Add([]byte{3, 3, 11, 2, 5, 0, 3, 1, 13, 0, 6, 0, 4, 4}, byte(2), true)
	f.Add([]byte{7, 2, 7, 1, 0, 0}, byte(5), false)
	f.Fuzz(func(t *testing.T, script []byte, from byte, committed bool) {
		bl, end := block(script)
		aborted := abortedOffsets(bl)
		iso := ReadUncommitted
		if committed {
			iso = ReadCommitted
			// A broker sends nothing behind the last stable offset.
			bl.RecordsSet = slices.DeleteFunc(bl.RecordsSet, func(s *sarama.Records) bool { return s.RecordBatch.FirstOffset >= bl.LastStableOffset })
			end = bl.LastStableOffset
		}
		first := min(int64(from), end)
		b := &Batch{FirstOffset: first}
		whole, err := newDecoder().decode(b, bl, iso)
		if err != nil || !whole {
			t.Fatalf("whole %v, error %v", whole, err)
		}
		if b.NextOffset != end || b.End != end || b.CaughtUp() != (b.NextOffset >= b.End) {
			t.Fatalf("next %d, end %d, want %d", b.NextOffset, b.End, end)
		}
		var want []int64
		starts := map[int64]bool{}
		for _, s := range bl.RecordsSet {
			for i, r := range s.RecordBatch.Records {
				o := s.RecordBatch.FirstOffset + r.OffsetDelta
				if s.RecordBatch.Control || o < first || committed && aborted[o] {
					continue
				}
				want = append(want, o)
				if i == 0 {
					starts[o] = true
				}
			}
		}
		var got []int64
		for _, r := range b.Records {
			got = append(got, r.Offset)
			if len(r.Headers) != int(r.Value[1]&1) {
				t.Fatalf("headers %v of %v", r.Headers, r.Value)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("offsets %v, want %v", got, want)
		}
		if len(b.BatchStarts) != len(starts) {
			t.Fatalf("starts %v, want %v", b.BatchStarts, starts)
		}
		for _, i := range b.BatchStarts {
			if !starts[b.Records[i].Offset] {
				t.Fatalf("offset %d is not the beginning of a record batch", b.Records[i].Offset)
			}
		}
		if len(b.Skipped) > 0 && (len(b.Records) == 0 || len(b.BatchStarts) > 0 && b.BatchStarts[0] == 0) {
			t.Fatalf("skipped %v in front of a record batch that is not cut", b.Skipped)
		}
	})
}

// Record batches that compaction emptied move the position, though sarama drops
// them and keeps their end in a field that it does not export.
func TestTheEndOfEmptiedBatchesIsFound(t *testing.T) {
	f, ok := reflect.TypeFor[sarama.FetchResponseBlock]().FieldByName("recordsNextOffset")
	if !ok || f.Type != reflect.TypeFor[*int64]() {
		t.Fatal("sarama does not keep recordsNextOffset any more: find another way past record batches without records")
	}
	broker := sarama.NewMockBroker(t, 1)
	defer broker.Close()
	answer := &sarama.FetchResponse{Version: 12}
	answer.SetLastOffsetDelta("t", 0, 4) // one record batch, offsets 0 to 4, no records
	answer.Blocks["t"][0].HighWaterMarkOffset = 5
	broker.SetHandlerByMap(map[string]sarama.MockResponse{
		"ApiVersionsRequest": sarama.NewMockApiVersionsResponse(t).SetApiKeys([]sarama.ApiVersionsResponseKey{
			{ApiKey: 1, MaxVersion: 12}, {ApiKey: 3, MaxVersion: 8}, {ApiKey: 18, MaxVersion: 3},
		}),
		"MetadataRequest": sarama.NewMockMetadataResponse(t).SetBroker(broker.Addr(), 1).SetLeader("t", 0, 1),
		"FetchRequest":    sarama.NewMockWrapper(answer),
	})
	c, err := NewClient(Config{Brokers: []string{broker.Addr()}, Guard: Loopback})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make(chan int64, 100)
	_, err = c.NewFetcher(FetcherConfig{OnState: func(b string, err error) { t.Log(b, err) }}).Subscribe(SubscribeOptions{TP: ids.TopicPartition{Topic: "t"}, Sink: func(b *Batch) {
		select {
		case got <- b.NextOffset:
		default:
		}
		b.Release()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if next := <-got; next != 5 {
		t.Errorf("position %d, want 5", next)
	}
}

func TestOldMessageFormatsAreRefused(t *testing.T) {
	bl := &sarama.FetchResponseBlock{RecordsSet: []*sarama.Records{{MsgSet: &sarama.MessageSet{}}}}
	if _, err := newDecoder().decode(&Batch{}, bl, ReadUncommitted); !errors.Is(err, errOldFormat) {
		t.Errorf("error %v", err)
	}
}

func TestPartOfARecordBatchAsksForMore(t *testing.T) {
	bl := &sarama.FetchResponseBlock{RecordsSet: []*sarama.Records{{RecordBatch: &sarama.RecordBatch{PartialTrailingRecord: true, LastOffsetDelta: 9}}}}
	b := &Batch{FirstOffset: 3}
	if whole, err := newDecoder().decode(b, bl, ReadUncommitted); whole || err != nil || b.NextOffset != 3 {
		t.Errorf("whole %v, error %v, next %d", whole, err, b.NextOffset)
	}
}
