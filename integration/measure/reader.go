package measure

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/tidegate/tidegate/integration/servers"
)

// Reader reads partitions of one topic from one broker with isolation
// read_committed, by Kafka's Fetch request version 11. It decodes records in
// place; compressed batches are refused.
type Reader struct {
	topic   string
	conn    net.Conn
	next    map[int32]int64
	order   []int32
	request []byte
	buf     []byte
	id      int32
}

const (
	readerWait  = 100 * time.Millisecond
	readerBytes = 2 << 20 // per partition and request
)

// NewReader begins at the start of every partition.
func NewReader(ctx context.Context, addr, topic string, partitions []int32) (*Reader, error) {
	conn, err := servers.LoopbackDialer{}.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	r := &Reader{topic: topic, conn: conn, order: partitions, next: map[int32]int64{}}
	for _, p := range partitions {
		r.next[p] = 0
	}
	return r, nil
}

// Each takes a record; its timestamp is in milliseconds.
type Each func(partition int32, timestamp int64, key, value []byte)

// Poll makes one request and calls each for every committed record in it.
// key and value are valid until each returns.
func (r *Reader) Poll(each Each) error {
	if err := r.send(); err != nil {
		return err
	}
	if err := r.receive(); err != nil {
		return err
	}
	d := &wire{b: r.buf}
	if id := d.int32(); id != r.id {
		return fmt.Errorf("answer %d to request %d", id, r.id)
	}
	d.int32() // throttle time
	if code := d.int16(); code != 0 {
		return fmt.Errorf("fetch %s: error code %d", r.topic, code)
	}
	d.int32() // session
	for range d.int32() {
		d.bytes(int(d.int16())) // topic
		for range d.int32() {
			if err := r.partition(d, each); err != nil {
				return err
			}
		}
	}
	return d.err
}

func (r *Reader) send() error {
	r.id++
	b := r.request[:0]
	b = binary.BigEndian.AppendUint32(b, 0) // length, below
	b = binary.BigEndian.AppendUint16(b, 1) // Fetch
	b = binary.BigEndian.AppendUint16(b, 11)
	b = binary.BigEndian.AppendUint32(b, uint32(r.id))
	b = appendText(b, "bench-Reader")
	b = appendInt32(b, -1) // replica
	b = appendInt32(b, int32(readerWait.Milliseconds()))
	b = appendInt32(b, 1) // least bytes
	b = appendInt32(b, int32(len(r.order))*readerBytes)
	b = append(b, 1)       // read_committed
	b = appendInt32(b, 0)  // session
	b = appendInt32(b, -1) // session epoch: none
	b = appendInt32(b, 1)
	b = appendText(b, r.topic)
	b = appendInt32(b, int32(len(r.order)))
	for _, p := range r.order {
		b = appendInt32(b, p)
		b = appendInt32(b, -1) // leader epoch
		b = binary.BigEndian.AppendUint64(b, uint64(r.next[p]))
		b = binary.BigEndian.AppendUint64(b, ^uint64(0)) // log start
		b = appendInt32(b, readerBytes)
	}
	b = appendInt32(b, 0) // forgotten topics
	b = appendText(b, "") // rack
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	r.request = b
	if err := r.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return fmt.Errorf("fetch %s: %w", r.topic, err)
	}
	if _, err := r.conn.Write(b); err != nil {
		return fmt.Errorf("fetch %s: %w", r.topic, err)
	}
	return nil
}

func (r *Reader) receive() error {
	var size [4]byte
	if _, err := io.ReadFull(r.conn, size[:]); err != nil {
		return fmt.Errorf("fetch %s: %w", r.topic, err)
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n > 1<<30 {
		return fmt.Errorf("fetch %s: answer of %d bytes", r.topic, n)
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:n]
	if _, err := io.ReadFull(r.conn, r.buf); err != nil {
		return fmt.Errorf("fetch %s: %w", r.topic, err)
	}
	return nil
}

// partition reads one partition of an answer. Batches of a producer id are
// skipped from the first offset of its aborted transaction to the marker.
func (r *Reader) partition(d *wire, each Each) error {
	p := d.int32()
	if code := d.int16(); code != 0 {
		return fmt.Errorf("fetch %s-%d: error code %d", r.topic, p, code)
	}
	d.bytes(24) // high watermark, last stable offset, log start
	type abort struct{ pid, first int64 }
	var aborts []abort
	for range d.int32() {
		aborts = append(aborts, abort{d.int64(), d.int64()})
	}
	slices.SortFunc(aborts, func(a, b abort) int { return cmp.Compare(a.first, b.first) })
	d.int32() // preferred replica
	set := &wire{b: d.bytes(int(max(d.int32(), 0)))}
	skip := map[int64]bool{}
	for len(set.b) >= 12 {
		base := set.int64()
		size := int(set.int32())
		if size > len(set.b) {
			break // cut off by the size limit: comes again
		}
		b, err := readBatch(base, &wire{b: set.bytes(size)})
		if err != nil {
			return fmt.Errorf("%s-%d: %w", r.topic, p, err)
		}
		for len(aborts) > 0 && aborts[0].first <= b.last {
			skip[aborts[0].pid] = true
			aborts = aborts[1:]
		}
		switch {
		case b.control:
			delete(skip, b.pid)
		case b.transactional && skip[b.pid]:
		default:
			if err := b.records(r.next[p], p, each); err != nil {
				return fmt.Errorf("%s-%d: %w", r.topic, p, err)
			}
		}
		r.next[p] = max(r.next[p], b.last+1)
	}
	return nil
}

type batch struct {
	base, last, pid, first int64
	control, transactional bool
	count                  int32
	body                   wire
}

func readBatch(base int64, d *wire) (batch, error) {
	d.int32() // leader epoch
	if magic := d.byte(); magic != 2 {
		return batch{}, fmt.Errorf("record batch at offset %d has format %d, want 2", base, magic)
	}
	d.int32() // checksum
	attributes := d.int16()
	if attributes&7 != 0 {
		return batch{}, fmt.Errorf("record batch at offset %d is compressed", base)
	}
	b := batch{base: base, transactional: attributes&16 != 0, control: attributes&32 != 0}
	b.last = base + int64(d.int32())
	b.first = d.int64()
	d.bytes(8) // largest timestamp
	b.pid = d.int64()
	d.bytes(6) // epoch and sequence
	b.count = d.int32()
	b.body = *d
	return b, d.err
}

// records calls each for the records from offset from on.
func (b *batch) records(from int64, partition int32, each Each) error {
	d := &b.body
	for range b.count {
		rec := wire{b: d.bytes(int(d.varint()))}
		rec.byte()
		timestamp := b.first + rec.varint()
		offset := b.base + rec.varint()
		key := rec.bytes(int(max(rec.varint(), 0)))
		value := rec.bytes(int(max(rec.varint(), 0)))
		if d.err != nil || rec.err != nil {
			return fmt.Errorf("record batch at offset %d: %w", b.base, io.ErrUnexpectedEOF)
		}
		if offset >= from {
			each(partition, timestamp, key, value)
		}
	}
	return nil
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// wire reads Kafka's types; after its first error everything is zero.
type wire struct {
	b   []byte
	err error
}

func (d *wire) bytes(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.b, d.err = nil, io.ErrUnexpectedEOF
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *wire) byte() byte {
	if v := d.bytes(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *wire) int16() int16 {
	if v := d.bytes(2); v != nil {
		return int16(binary.BigEndian.Uint16(v))
	}
	return 0
}

func (d *wire) int32() int32 {
	if v := d.bytes(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (d *wire) int64() int64 {
	if v := d.bytes(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (d *wire) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.b, d.err = nil, io.ErrUnexpectedEOF
		return 0
	}
	d.b = d.b[n:]
	return v
}
