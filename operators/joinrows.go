package operators

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
)

// rowStore keeps one side's records of a stream join: any number per key and
// timestamp. The segment comes first in the key, so that old segments are
// dropped by one range deletion, and then the record's key, so that a look-up
// reads only rows of that key.
type rowStore[K, V any] struct {
	name    string
	kv      state.KV
	ks      serde.Serde[K]
	vs      serde.Serde[V]
	segment int64

	// The record in hand: its clamped time, serialised key and value; row is the
	// key under which put stored it.
	time            int64
	key, value, row []byte
	lo, hi, buf     []byte
}

// joinRow is a row that a scan found; its key and value bytes are valid until
// the next row.
type joinRow[V any] struct {
	key, enc []byte
	at, ts   int64
	alone    bool
	v        V
}

const (
	timeSize = 8
	seqSize  = 8
	// rowHead is the timestamp and the flag before a row's value.
	rowHead = stampSize + 1
	// rowAlone flags a row of an outer side that met no partner.
	rowAlone = 1
)

var errRowKey = errors.New("the key of a join's row is cut short or malformed")

func openRows[K, V any](b *Build, name string, ks serde.Serde[K], vs serde.Serde[V], segment int64) (rowStore[K, V], error) {
	kv, err := b.g.env.Store(name)
	if err != nil {
		return rowStore[K, V]{}, fmt.Errorf("open store %q: %w", name, err)
	}
	return rowStore[K, V]{
		name: name, kv: kv, ks: ks, vs: vs, segment: segment,
	}, nil
}

func appendTime(dst []byte, t int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(t)^(1<<63))
}

func timeOf(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ (1 << 63)) }

// appendRowKey appends the key of a row up to the sequence number.
func appendRowKey(dst []byte, segment int64, key []byte, at int64) []byte {
	dst = appendTime(dst, segment)
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	return appendTime(dst, at)
}

// splitRowKey returns the parts of a row's key.
func splitRowKey(b []byte) (key []byte, at int64, seq uint64, err error) {
	if len(b) < timeSize {
		return nil, 0, 0, errRowKey
	}
	b = b[timeSize:]
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)) || uint64(len(b)-w) != n+timeSize+seqSize {
		return nil, 0, 0, errRowKey
	}
	key, b = b[w:w+int(n)], b[w+int(n):]
	return key, timeOf(b), binary.BigEndian.Uint64(b[timeSize:]), nil
}

// encode makes a record with a clamped time the one in hand.
func (s *rowStore[K, V]) encode(k K, v V, at int64) (err error) {
	s.time = at
	if s.key, err = s.ks.Append(s.key[:0], k); err != nil {
		return err
	}
	s.value, err = s.vs.Append(s.value[:0], v)
	return err
}

// put stores the record in hand.
func (s *rowStore[K, V]) put(ts int64, alone bool) error {
	prefix := appendRowKey(s.row[:0], floor(s.time, s.segment), s.key, s.time)
	s.row = binary.BigEndian.AppendUint64(prefix, 0)
	// Rows are dropped by segments only, so the first of its time is there if
	// any is.
	_, taken, err := s.kv.Get(s.row)
	if err == nil && taken {
		err = s.lastSeq(len(prefix))
	}
	if err != nil {
		return s.fail("look for rows of the same time", err)
	}
	flag := byte(0)
	if alone {
		flag = rowAlone
	}
	s.buf = append(binary.BigEndian.AppendUint64(s.buf[:0], uint64(ts)), flag)
	s.buf = append(s.buf, s.value...)
	if err := s.kv.Set(s.row, s.buf); err != nil {
		return s.fail("put", err)
	}
	return nil
}

// lastSeq sets the sequence number behind the prefix of s.row to that after the
// last row of the prefix.
func (s *rowStore[K, V]) lastSeq(prefix int) (err error) {
	s.lo = append(s.lo[:0], s.row...)
	s.hi = binary.BigEndian.AppendUint64(append(s.hi[:0], s.row[:prefix]...), math.MaxUint64)
	it := s.kv.Scan(s.lo, s.hi, true)
	defer closeIterator(it, &err)
	if !it.Next() {
		return it.Err()
	}
	_, _, seq, err := splitRowKey(it.Key())
	if err == nil {
		binary.BigEndian.PutUint64(s.row[prefix:], seq+1)
	}
	return err
}

// scan calls f for the rows of a serialised key with times in [from, to], by
// time and then in the order of their arrival. f may change the store.
func (s *rowStore[K, V]) scan(key []byte, from, to int64, f func(joinRow[V]) error) error {
	if from > to {
		return nil
	}
	for seg := floor(from, s.segment); seg <= to; seg += s.segment {
		if err := s.scanSegment(seg, key, from, to, f); err != nil {
			return err
		}
	}
	return nil
}

func (s *rowStore[K, V]) scanSegment(seg int64, key []byte, from, to int64, f func(joinRow[V]) error) (err error) {
	s.lo = appendRowKey(s.lo[:0], seg, key, from)
	s.hi = appendRowKey(s.hi[:0], seg, key, to+1)
	it := s.kv.Scan(s.lo, s.hi, false)
	defer closeIterator(it, &err)
	for it.Next() {
		row := joinRow[V]{key: it.Key(), enc: it.Value()}
		if _, row.at, _, err = splitRowKey(row.key); err == nil {
			err = s.decode(&row)
		}
		if err != nil {
			return s.fail("decode a row", err)
		}
		if err := f(row); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return s.fail("scan", err)
	}
	return nil
}

// meet notes that a row found a partner.
func (s *rowStore[K, V]) meet(row joinRow[V]) error {
	s.buf = append(s.buf[:0], row.enc...)
	s.buf[stampSize] = 0
	if err := s.kv.Set(row.key, s.buf); err != nil {
		return s.fail("put", err)
	}
	return nil
}

// get returns the record of a row's key.
func (s *rowStore[K, V]) get(key []byte) (k K, row joinRow[V], err error) {
	enc, ok, err := s.kv.Get(key)
	if err == nil && !ok {
		err = errors.New("a pending row is not there")
	}
	if err == nil {
		row.enc = enc
		err = s.decode(&row)
	}
	var kb []byte
	if err == nil {
		kb, row.at, _, err = splitRowKey(key)
	}
	if err == nil {
		k, err = s.ks.Decode(kb)
	}
	if err != nil {
		return k, row, s.fail("get a row", err)
	}
	// What Get returned lasts until the next one.
	return serde.Clone(s.ks, k), s.own(row), nil
}

func (s *rowStore[K, V]) own(row joinRow[V]) joinRow[V] {
	row.v = serde.Clone(s.vs, row.v)
	return row
}

// decode takes row.enc apart. The value may alias it.
func (s *rowStore[K, V]) decode(row *joinRow[V]) (err error) {
	if len(row.enc) < rowHead {
		return fmt.Errorf("a row of %d bytes is shorter than its timestamp and flag", len(row.enc))
	}
	row.ts = int64(binary.BigEndian.Uint64(row.enc))
	row.alone = row.enc[stampSize] == rowAlone
	row.v, err = s.vs.Decode(row.enc[rowHead:])
	return err
}

func closeIterator(it state.Iterator, err *error) {
	if e := it.Close(); *err == nil {
		*err = e
	}
}

// dropBefore removes the segments that begin before start. A range deletion makes
// every read of the engine dearer until it is compacted away: where there is
// nothing to remove, as when an application starts, there is none.
func (s *rowStore[K, V]) dropBefore(start int64) error {
	s.hi = appendTime(s.hi[:0], start)
	it := s.kv.Scan(nil, s.hi, false)
	some := it.Next()
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return s.fail("look for old rows", err)
	}
	if !some {
		return nil
	}
	if err := s.kv.DeleteRange(nil, s.hi); err != nil {
		return s.fail("expire rows", err)
	}
	return nil
}

func (s *rowStore[K, V]) fail(what string, err error) error {
	return fmt.Errorf("store %q: %s: %w", s.name, what, err)
}

// pendingRows are the rows of outer sides that wait for a partner, ordered by
// the stream time up to which they wait.
type pendingRows struct {
	name string
	kv   state.KV
	out  func(c *Context, side byte, row []byte) error
	// first is not above the time of the first row: math.MaxInt64 when none
	// waits.
	first int64
	buf   []byte
	ready dueKeys
}

func openPending(b *Build, name string, out func(*Context, byte, []byte) error) (*pendingRows, error) {
	kv, err := b.g.env.Store(name)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", name, err)
	}
	p := &pendingRows{name: name, kv: kv, out: out}
	if p.first, err = p.ready.read(kv, math.MinInt64, math.MinInt64, 0, errRowKey); err != nil {
		return nil, p.fail("look for the first row", err)
	}
	return p, nil
}

// due is the stream time at which send has something to do.
func (p *pendingRows) due() int64 {
	if p.first == math.MaxInt64 {
		return p.first
	}
	return p.first + 1
}

func (p *pendingRows) key(until int64, side byte, row []byte) []byte {
	p.buf = append(append(appendTime(p.buf[:0], until), side), row...)
	return p.buf
}

// add lets a row wait until stream time passes a time.
func (p *pendingRows) add(until int64, side byte, row []byte, ts *timers) error {
	if err := p.kv.Set(p.key(until, side, row), nil); err != nil {
		return p.fail("put", err)
	}
	if until < p.first {
		p.first = until
		ts.findDue()
	}
	return nil
}

// remove forgets a row that met a partner.
func (p *pendingRows) remove(until int64, side byte, row []byte) error {
	if err := p.kv.Delete(p.key(until, side, row)); err != nil {
		return p.fail("delete", err)
	}
	return nil
}

// send sends the rows whose time has passed. A row is forgotten before it is
// sent, so that one that fails is not sent for ever. c's record is the same
// afterwards, also after a panic.
func (p *pendingRows) send(c *Context, streamTime int64) error {
	if streamTime = clampTime(streamTime); streamTime < p.due() {
		return nil
	}
	ts, h := c.Timestamp, c.Headers
	defer func() { c.Timestamp, c.Headers = ts, h }()
	for next := p.first; next < streamTime; {
		var err error
		if next, err = p.ready.read(p.kv, p.first, streamTime-1, mostDue, errRowKey); err != nil {
			return p.fail("scan", err)
		}
		if err := p.sendRows(c); err != nil {
			return err
		}
		p.first = next
	}
	c.g.timers.findDue()
	return nil
}

func (p *pendingRows) sendRows(c *Context) error {
	for i := range p.ready.ends {
		key := p.ready.key(i)
		if len(key) < timeSize+1 {
			return p.fail("decode a key", errRowKey)
		}
		if err := p.kv.Delete(key); err != nil {
			return p.fail("delete", err)
		}
		if err := p.out(c, key[timeSize], key[timeSize+1:]); err != nil {
			return err
		}
	}
	return nil
}

func (p *pendingRows) fail(what string, err error) error {
	return fmt.Errorf("store %q: %s: %w", p.name, what, err)
}
