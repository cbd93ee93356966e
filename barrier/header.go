package barrier

import (
	"errors"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
)

// HeaderKey is the key of the record header that marks a repartition record.
// It is removed before user code sees the headers.
const HeaderKey = "tg"

// HeaderKind says what a repartition record is.
type HeaderKind uint8

// The kinds of repartition records.
const (
	HeaderData    HeaderKind = 1
	HeaderBarrier HeaderKind = 2
	HeaderTime    HeaderKind = 3
)

// Channel names the writer of a repartition record: an incarnation of an
// upstream task.
type Channel struct {
	Task ids.TaskID
	Inc  ids.Incarnation
}

// ChannelTime is an entry of a time record (R13).
type ChannelTime struct {
	Channel
	Time int64 // stream time, milliseconds since the epoch; NoTime if none yet
	Idle bool
}

// Header is a decoded channel header. A data header has one Channel; a barrier
// has N and Channels; a time record has Times.
type Header struct {
	Kind     HeaderKind
	Life     ids.Life
	Channel  Channel          // data
	N        ids.CheckpointID // barrier
	Channels []Channel        // barrier
	Times    []ChannelTime    // time
}

// AppendDataHeader appends the header value of data records. Only the first
// data record of a record batch needs it: later ones inherit it.
func AppendDataHeader(dst []byte, life ids.Life, c Channel) []byte { return dst }

// AppendBarrierHeader appends the header value of a barrier record, whose key
// and value are null.
func AppendBarrierHeader(dst []byte, life ids.Life, n ids.CheckpointID, cs []Channel) []byte {
	return dst
}

// AppendTimeHeader appends the header value of a time record, whose key and
// value are null.
func AppendTimeHeader(dst []byte, life ids.Life, ts []ChannelTime) []byte { return dst }

// Decode decodes a header value into h, reusing its slices. It does not keep b.
func (h *Header) Decode(b []byte) error { return errors.ErrUnsupported }

// Segment is a run of consecutive data records of one channel in a record
// batch, or one entry of a barrier or time record.
type Segment struct {
	Kind    HeaderKind
	Life    ids.Life
	Channel Channel
	N       ids.CheckpointID // barrier
	Time    int64            // time
	Idle    bool             // time
	// Records are the data records; nil for barriers and times.
	Records []record.Raw
	// First and Last are the offsets of the first and last record.
	First, Last int64
	// MinTime and MaxTime are the smallest and largest timestamp of data.
	MinTime, MaxTime int64
	// Bytes is the approximate size of data: keys, values and headers.
	Bytes int
}

// SegmentReader cuts record batches into segments.
type SegmentReader struct{ _ Header }

// Reset begins with a record batch (the records of one Kafka batch, in order).
func (r *SegmentReader) Reset(batch []record.Raw) {}

// Next returns the next segment; ok is false at the end of the batch. An error
// says that a record is not one of ours.
func (r *SegmentReader) Next() (s Segment, ok bool, err error) { return Segment{}, false, nil }
