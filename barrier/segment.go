package barrier

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

// Segment is a run of consecutive data records of one channel in a record
// batch, or one entry of a barrier or time record.
type Segment struct {
	Kind    HeaderKind
	Life    ids.Life
	Channel Channel
	N       ids.CheckpointID // barrier
	Time    int64            // time
	Idle    bool             // time
	Current bool             // time
	// Records are the data records, without our header; nil for barriers and
	// times.
	Records []record.Raw
	// First and Last are the offsets of the first and last record.
	First, Last int64
	// More: further entries of the same barrier or time record follow.
	More bool
	// MinTime and MaxTime are the smallest and largest timestamp of data.
	MinTime, MaxTime int64
	// Bytes is the approximate size of data: keys, values and headers.
	Bytes int
}

// segmentRecordOverhead is what a held record costs beside its bytes.
const segmentRecordOverhead = 96

// ErrNoHeader says that a record in a repartition topic is not one of ours.
var ErrNoHeader = errors.New("a record batch in a repartition topic begins without a channel header: somebody else writes to this internal topic")

// SegmentReader cuts record batches into segments.
//
// A batch is one or several runs of records, each built by one task, so only the
// first data record of a run carries a header; records without one inherit it
// from the data record before. Barrier and time records stand between them and do
// not interrupt inheritance.
type SegmentReader struct {
	batch []record.Raw
	head  Header   // of the entries being handed out
	life  ids.Life // of the data header in force
	data  Channel
	have  bool // a data header is in force
	entry int  // next entry of head, -1 when there is none
	at    int64
}

// Reset begins with a record batch (the records of one Kafka batch, in order).
func (r *SegmentReader) Reset(batch []record.Raw) {
	r.batch, r.have, r.entry = batch, false, -1
}

// Next returns the next segment; ok is false at the end of the batch. An error
// says that a record is not one of ours. Records alias the batch, from which
// our headers are taken.
func (r *SegmentReader) Next() (s Segment, ok bool, err error) {
	for {
		if r.entry >= 0 {
			if s, ok := r.nextEntry(); ok {
				return s, true, nil
			}
			r.entry = -1
		}
		if len(r.batch) == 0 {
			return Segment{}, false, nil
		}
		if err := r.open(); err != nil {
			return Segment{}, false, err
		}
		if r.entry < 0 {
			return r.run(), true, nil
		}
	}
}

// open looks at the record at the head of the batch. It takes a barrier or
// time record off the batch and leaves a data record there.
func (r *SegmentReader) open() error {
	raw := &r.batch[0]
	value, ok := channelHeader(raw)
	if !ok {
		if !r.have {
			return fmt.Errorf("offset %d: %w", raw.Offset, ErrNoHeader)
		}
		return nil
	}
	if err := r.head.Decode(value); err != nil {
		return fmt.Errorf("offset %d: %w", raw.Offset, err)
	}
	if r.head.Kind == HeaderData {
		r.life, r.data, r.have = r.head.Life, r.head.Channel, true
		return nil
	}
	r.entry, r.at, r.batch = 0, raw.Offset, r.batch[1:]
	return nil
}

// nextEntry returns the next entry of the barrier or time record in head.
func (r *SegmentReader) nextEntry() (Segment, bool) {
	s := Segment{Kind: r.head.Kind, Life: r.head.Life, First: r.at, Last: r.at}
	switch {
	case r.head.Kind == HeaderBarrier && r.entry < len(r.head.Channels):
		s.Channel, s.N = r.head.Channels[r.entry], r.head.N
	case r.head.Kind == HeaderTime && r.entry < len(r.head.Times):
		t := r.head.Times[r.entry]
		s.Channel, s.Time, s.Idle, s.Current = t.Channel, t.Time, t.Idle, t.Current
	default:
		return Segment{}, false
	}
	r.entry++
	s.More = r.entry < len(r.head.Channels) || r.entry < len(r.head.Times)
	return s, true
}

// run takes data records off the batch up to the next one with a header.
func (r *SegmentReader) run() Segment {
	s := Segment{
		Kind: HeaderData, Life: r.life, Channel: r.data, First: r.batch[0].Offset,
		MinTime: r.batch[0].Timestamp, MaxTime: r.batch[0].Timestamp,
	}
	if _, ok := channelHeader(&r.batch[0]); ok {
		// It is ours alone: sent on, it would be taken for the next hop's.
		r.batch[0].Headers = r.batch[0].Headers[1:]
	}
	n := 0
	for n < len(r.batch) {
		raw := &r.batch[n]
		if n > 0 {
			if _, ok := channelHeader(raw); ok {
				break
			}
		}
		s.MinTime, s.MaxTime = min(s.MinTime, raw.Timestamp), max(s.MaxTime, raw.Timestamp)
		s.Bytes += rawSize(raw)
		n++
	}
	s.Records, s.Last = r.batch[:n:n], r.batch[n-1].Offset
	r.batch = r.batch[n:]
	return s
}

// Tail returns the part of a data segment whose offsets are above offset; ok
// is false when nothing is left.
func (s Segment) Tail(offset int64) (Segment, bool) {
	if s.Last <= offset {
		return Segment{}, false
	}
	n := 0
	for n < len(s.Records) && s.Records[n].Offset <= offset {
		n++
	}
	if n == 0 {
		return s, true
	}
	s.Records = s.Records[n:]
	s.First, s.Bytes = s.Records[0].Offset, 0
	s.MinTime, s.MaxTime = s.Records[0].Timestamp, s.Records[0].Timestamp
	for i := range s.Records {
		raw := &s.Records[i]
		s.MinTime, s.MaxTime = min(s.MinTime, raw.Timestamp), max(s.MaxTime, raw.Timestamp)
		s.Bytes += rawSize(raw)
	}
	return s, true
}

func rawSize(raw *record.Raw) int {
	n := segmentRecordOverhead + len(raw.Key) + len(raw.Value)
	for i := range raw.Headers {
		n += len(raw.Headers[i].Key) + len(raw.Headers[i].Value)
	}
	return n
}

// channelHeader finds our header, which is always the first: a user's header of
// the same key stands behind it.
func channelHeader(raw *record.Raw) ([]byte, bool) {
	if len(raw.Headers) > 0 && raw.Headers[0].Key == HeaderKey {
		return raw.Headers[0].Value, true
	}
	return nil, false
}
