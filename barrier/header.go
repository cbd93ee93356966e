package barrier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidegate/tidegate/internal/ids"
)

// HeaderKey is the key of the record header that marks a repartition record.
// It is removed before user code sees the headers.
const HeaderKey = "tg"

// HeaderKind says what a repartition record is.
type HeaderKind uint8

// The kinds of repartition records. The numbers are part of the format
// (docs/format/channel-header.md).
const (
	HeaderData    HeaderKind = 1
	HeaderBarrier HeaderKind = 2
	HeaderTime    HeaderKind = 3
)

// headerVersion is the upper half of a header's first byte; the kind is the
// lower half.
const headerVersion = 1

// maxHeaderEntries bounds the list of one barrier or time record.
const maxHeaderEntries = 1 << 16

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
	// Current: when the record was written, its writer had processed its inputs
	// to their ends.
	Current bool
}

// The flags of an entry of a time record.
const (
	flagIdle = 1 << iota
	flagCurrent
)

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
func AppendDataHeader(dst []byte, life ids.Life, c Channel) []byte {
	return appendChannel(appendHead(dst, HeaderData, life), c)
}

// AppendBarrierHeader appends the header value of a barrier record, whose key
// and value are null.
func AppendBarrierHeader(dst []byte, life ids.Life, n ids.CheckpointID, cs []Channel) []byte {
	dst = appendHead(dst, HeaderBarrier, life)
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = binary.AppendUvarint(dst, uint64(len(cs)))
	for _, c := range cs {
		dst = appendChannel(dst, c)
	}
	return dst
}

// AppendTimeHeader appends the header value of a time record, whose key and
// value are null.
func AppendTimeHeader(dst []byte, life ids.Life, ts []ChannelTime) []byte {
	dst = appendHead(dst, HeaderTime, life)
	dst = binary.AppendUvarint(dst, uint64(len(ts)))
	for _, t := range ts {
		dst = appendChannel(dst, t.Channel)
		dst = binary.AppendVarint(dst, t.Time)
		var flags byte
		if t.Idle {
			flags |= flagIdle
		}
		if t.Current {
			flags |= flagCurrent
		}
		dst = append(dst, flags)
	}
	return dst
}

func appendHead(dst []byte, kind HeaderKind, life ids.Life) []byte {
	return binary.BigEndian.AppendUint64(append(dst, headerVersion<<4|byte(kind)), uint64(life))
}

func appendChannel(dst []byte, c Channel) []byte {
	dst = binary.AppendUvarint(dst, uint64(uint32(c.Task.Sub)))
	dst = binary.AppendUvarint(dst, uint64(uint32(c.Task.Partition)))
	return binary.AppendUvarint(dst, uint64(c.Inc))
}

// Decode decodes a header value into h, reusing its slices; a data header
// costs no allocation. It does not keep b.
func (h *Header) Decode(b []byte) error {
	h.Channels, h.Times = h.Channels[:0], h.Times[:0]
	h.Channel, h.N = Channel{}, 0
	d := headerDecoder{b: b}
	head := d.byte()
	if d.bad == nil && head>>4 != headerVersion {
		return fmt.Errorf("channel header has version %d, this program reads %d: run the version of tidegate that wrote it", head>>4, headerVersion)
	}
	h.Kind = HeaderKind(head & 15)
	h.Life = d.life()
	switch h.Kind {
	case HeaderData:
		h.Channel = d.channel()
	case HeaderBarrier:
		h.N = ids.CheckpointID(d.offset())
		for range d.count() {
			h.Channels = append(h.Channels, d.channel())
		}
	case HeaderTime:
		for range d.count() {
			h.Times = append(h.Times, d.channelTime())
		}
	default:
		d.bad = errHeaderKind
	}
	if d.bad == nil && len(d.b) > 0 {
		d.bad = errHeaderLong
	}
	if d.bad != nil {
		return fmt.Errorf("channel header of %d bytes: %w", len(b), d.bad)
	}
	return nil
}

var (
	errHeaderKind  = errors.New("unknown kind")
	errHeaderLong  = errors.New("bytes behind the end")
	errHeaderRange = errors.New("number out of range")
	errHeaderFlags = errors.New("unknown flags in a time record: run the version of tidegate that wrote it")
)

// headerDecoder is kept on the stack: decoding a data header allocates nothing.
type headerDecoder struct {
	b   []byte
	bad error
}

func (d *headerDecoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = errShort
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *headerDecoder) life() ids.Life {
	if len(d.b) < 8 {
		d.bad, d.b = errShort, nil
		return 0
	}
	v := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return ids.Life(v)
}

func (d *headerDecoder) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = errShort, nil
		return 0
	}
	if v > limit {
		d.bad, d.b = errHeaderRange, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *headerDecoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = errShort, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *headerDecoder) offset() int64 { return int64(d.uvarint(math.MaxInt64)) }

func (d *headerDecoder) channel() Channel {
	return Channel{
		Task: ids.TaskID{Sub: int32(d.uvarint(math.MaxInt32)), Partition: int32(d.uvarint(math.MaxInt32))},
		Inc:  ids.Incarnation(d.offset()),
	}
}

func (d *headerDecoder) channelTime() ChannelTime {
	t := ChannelTime{Channel: d.channel(), Time: d.varint()}
	flags := d.byte()
	if flags&^(flagIdle|flagCurrent) != 0 {
		d.bad, d.b = errHeaderFlags, nil
	}
	t.Idle, t.Current = flags&flagIdle != 0, flags&flagCurrent != 0
	return t
}

// count reads a list's length; an entry takes at least three bytes.
func (d *headerDecoder) count() int {
	n := d.uvarint(maxHeaderEntries)
	if n > uint64(len(d.b)/3) {
		d.bad, d.b = errShort, nil
		return 0
	}
	return int(n)
}
