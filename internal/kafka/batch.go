package kafka

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

// Batch is what one answer holds for one partition. One comes when there are
// records, when the position or an end moved, on the first answer after
// Subscribe or SeekTo, after Want, and with Err.
//
// The receiver owns it until Release. Keys, values and headers alias the
// answer's buffer, which the garbage collector owns: they stay valid after
// Release; Records, Skipped and BatchStarts do not.
type Batch struct {
	// Sub is where it came from.
	Sub *Subscription
	// TP is the partition.
	TP ids.TopicPartition
	// Generation is that of the Subscribe or SeekTo it answers. Drop (Release)
	// what is older than the last SeekTo.
	Generation uint64
	// FirstOffset is the position before the batch and NextOffset the one
	// after it, which is also past Kafka's markers and aborted records.
	FirstOffset, NextOffset int64
	// Records are the visible records in offset order.
	Records []record.Raw
	// BatchStarts are the indices in Records at which a Kafka record batch
	// begins, ascending. The first is 0 unless the position was in the middle
	// of a record batch: then Skipped holds that batch's records before
	// FirstOffset, for what their headers say about the rest.
	BatchStarts []int32
	Skipped     []record.Raw
	// End is where a reader of this isolation level is caught up: the last
	// stable offset for ReadCommitted, the high watermark otherwise.
	End int64
	// LastStableOffset, HighWatermark and LogStart are as in the answer.
	LastStableOffset, HighWatermark, LogStart int64
	// Aborted counts records left out because their transaction was aborted.
	Aborted int
	// AskedAt is when the request was sent, FetchedAt when the answer was in.
	AskedAt, FetchedAt time.Time
	// Bytes is what the batch costs of the subscription's MaxBytes: keys,
	// values, headers and the space of the records themselves.
	Bytes int
	// Err is set when fetching stopped until SeekTo: *OffsetOutOfRangeError, or
	// *Error for a topic that is gone or not readable. The batch has no
	// records then.
	Err error

	credited bool
}

// CaughtUp reports whether the position after the batch is the end.
func (b *Batch) CaughtUp() bool { return b.Err == nil && b.NextOffset >= b.End }

// Credit gives the batch's bytes back before Release: records that wait for a
// barrier do not count against the fetch bound (R9). The caller then bounds
// what it keeps itself.
func (b *Batch) Credit() {
	if b.credited {
		return
	}
	b.credited = true
	if b.Bytes > 0 {
		b.Sub.credit(b.Generation, b.Bytes)
	}
}

// Release gives the bytes back and recycles the Batch.
func (b *Batch) Release() {
	b.Credit()
	b.recycle()
}

// recycle is Release without giving back what was never counted.
func (b *Batch) recycle() {
	recs, starts, skipped := b.Records, b.BatchStarts, b.Skipped
	clear(recs) // let go of the answer's buffer
	clear(skipped)
	*b = Batch{Records: recs[:0], BatchStarts: starts[:0], Skipped: skipped[:0]}
	batchPool.Put(b)
}

// NewBatch takes an empty Batch; Release gives it back. Without Bytes it counts
// against no subscription.
func NewBatch() *Batch { return batchPool.Get().(*Batch) }

var batchPool = sync.Pool{New: func() any { return new(Batch) }}

// OffsetOutOfRangeError says that a position is not in the partition any more,
// or not yet.
type OffsetOutOfRangeError struct {
	TP ids.TopicPartition
	// Offset is the position asked for, LogStart and End what there is.
	Offset, LogStart, End int64
}

// Error names the position and what there is.
func (e *OffsetOutOfRangeError) Error() string {
	return fmt.Sprintf("%s: offset %d is out of range: the partition holds offsets %d to %d", e.TP, e.Offset, e.LogStart, e.End)
}

// Unwrap returns Kafka's OFFSET_OUT_OF_RANGE.
func (e *OffsetOutOfRangeError) Unwrap() error { return sarama.ErrOffsetOutOfRange }

// TopicRemadeError says that a topic is not the one that was read before.
type TopicRemadeError struct {
	Topic    string
	Had, Has [16]byte
}

// Error names the topic and both ids.
func (e *TopicRemadeError) Error() string {
	return fmt.Sprintf("topic %s was deleted and made anew while the application ran (its id was %x and is %x)", e.Topic, e.Had, e.Has)
}

// recordCost is what a record costs in memory beyond its bytes: a record.Raw
// and sarama's Record, which lives about as long.
const recordCost = 200

var errOldFormat = errors.New("the topic holds messages of format 0 or 1 (before Kafka 0.11), which tidegate does not read: copy it to a new topic")

// decoder turns the blocks of fetch answers into Batches. It belongs to one
// fetch loop.
type decoder struct {
	keys map[string]string // header keys seen, to share their strings
	pids map[int64]bool    // producers with an aborted transaction in the block
}

func newDecoder() *decoder {
	return &decoder{keys: map[string]string{}, pids: map[int64]bool{}}
}

// decode fills b, whose FirstOffset is the position asked for. It returns false
// with a nil error if the answer held only the beginning of a record batch.
func (d *decoder) decode(b *Batch, block *sarama.FetchResponseBlock, iso Isolation) (whole bool, err error) {
	b.HighWatermark, b.LastStableOffset, b.LogStart = block.HighWaterMarkOffset, block.LastStableOffset, block.LogStartOffset
	b.End = b.HighWatermark
	aborted := block.AbortedTransactions
	clear(d.pids)
	if iso == ReadCommitted {
		b.End = b.LastStableOffset
		slices.SortFunc(aborted, func(x, y *sarama.AbortedTransaction) int { return cmp.Compare(x.FirstOffset, y.FirstOffset) })
	}
	b.NextOffset = b.FirstOffset
	whole = !block.Partial
	for _, set := range block.RecordsSet {
		if set.MsgSet != nil {
			return true, errOldFormat
		}
		rb := set.RecordBatch
		if rb == nil || rb.PartialTrailingRecord {
			whole = false
			break
		}
		last := rb.LastOffset()
		for len(aborted) > 0 && aborted[0].FirstOffset <= last {
			d.pids[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		b.NextOffset = max(b.NextOffset, last+1)
		switch {
		case rb.Control:
			if iso == ReadCommitted && isAbortMarker(rb) {
				delete(d.pids, rb.ProducerID)
			}
		case last < b.FirstOffset:
		case iso == ReadCommitted && rb.IsTransactional && d.pids[rb.ProducerID]:
			b.Aborted += len(rb.Records)
		default:
			d.take(b, rb)
		}
	}
	if b.NextOffset == b.FirstOffset && len(block.RecordsSet) == 0 && whole {
		if next, ok := emptyBatchesEnd(block); ok && next > b.FirstOffset {
			b.NextOffset = next
		}
	}
	return whole || b.NextOffset > b.FirstOffset, nil
}

// take appends the records of one record batch.
func (d *decoder) take(b *Batch, rb *sarama.RecordBatch) {
	var headers []record.Header // one allocation per record batch, if any
	if n := countHeaders(rb); n > 0 {
		headers = make([]record.Header, 0, n)
	}
	base := rb.FirstTimestamp.UnixMilli()
	if rb.FirstTimestamp.IsZero() {
		base = -1
	}
	before := len(b.Records)
	for i, r := range rb.Records {
		raw := record.Raw{Key: r.Key, Value: r.Value, Offset: rb.FirstOffset + r.OffsetDelta}
		if rb.LogAppendTime {
			raw.Timestamp = rb.MaxTimestamp.UnixMilli()
		} else {
			raw.Timestamp = base + int64(r.TimestampDelta/time.Millisecond)
		}
		raw.Headers, headers = d.headers(headers, r.Headers)
		if raw.Offset < b.FirstOffset {
			b.Skipped = append(b.Skipped, raw)
			continue
		}
		if i == 0 {
			b.BatchStarts = append(b.BatchStarts, int32(len(b.Records)))
		}
		b.Records = append(b.Records, raw)
		b.Bytes += len(raw.Key) + len(raw.Value) + recordCost
	}
	if len(b.Records) == before {
		b.Skipped = b.Skipped[:0] // nothing inherits from them
	}
	for _, h := range headers {
		b.Bytes += len(h.Value) + 40
	}
}

func countHeaders(rb *sarama.RecordBatch) int {
	n := 0
	for _, r := range rb.Records {
		n += len(r.Headers)
	}
	return n
}

func (d *decoder) headers(arena []record.Header, hs []*sarama.RecordHeader) (record.Headers, []record.Header) {
	if len(hs) == 0 {
		return nil, arena
	}
	at := len(arena)
	for _, h := range hs {
		arena = append(arena, record.Header{Key: d.key(h.Key), Value: h.Value})
	}
	return record.Headers(arena[at:len(arena):len(arena)]), arena
}

// key returns the header key as a string, sharing it with earlier ones. What is
// remembered is bounded: keys may come from the users' data.
func (d *decoder) key(k []byte) string {
	if s, ok := d.keys[string(k)]; ok {
		return s
	}
	s := string(k)
	if len(s) <= 64 {
		if len(d.keys) >= 256 {
			clear(d.keys)
		}
		d.keys[s] = s
	}
	return s
}

// isAbortMarker reads the control record: its key is version and type, type 0
// is abort.
func isAbortMarker(rb *sarama.RecordBatch) bool {
	if len(rb.Records) == 0 || len(rb.Records[0].Key) < 4 {
		return false
	}
	return binary.BigEndian.Uint16(rb.Records[0].Key[2:]) == 0
}

// emptyBatchesEnd returns the offset behind record batches that compaction left
// without records. sarama drops such batches and keeps where they end in a
// field that it does not export; without it the position would stay in front
// of them for ever when nothing comes behind.
func emptyBatchesEnd(block *sarama.FetchResponseBlock) (int64, bool) {
	f := reflect.ValueOf(block).Elem().FieldByName("recordsNextOffset")
	if !f.IsValid() || f.Kind() != reflect.Pointer || f.IsNil() {
		return 0, false
	}
	return f.Elem().Int(), true
}
