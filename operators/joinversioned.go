package operators

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// VersionedJoin joins records with the rows that a versioned table had at their
// timestamps. With a buffer, a record waits until stream time has reached its
// timestamp plus the grace, so that updates of the table that are late by no more
// than that are seen.
type VersionedJoin[K, V, VT, VR any] struct {
	Table  *topology.Node
	Joiner func(V, VT) VR
	// Alone makes the result of a record without a row; nil in an inner join.
	Alone func(V) VR
	// Buffer is the store of the records that wait, "" where none do.
	Buffer string
	Grace  int64
	Key    serde.Serde[K]
	Value  serde.Serde[V]
}

// Factory makes the join's step.
func (j VersionedJoin[K, V, VT, VR]) Factory() Factory {
	return func(b *Build, outs []any) (any, error) {
		get, err := asOf[K, VT](b, j.Table)
		if err != nil {
			return nil, err
		}
		r := &versionedJoin[K, V, VT, VR]{
			VersionedJoin: j, get: get, next: next[K, VR](outs), node: b.id(), m: b.g.env.Metrics(),
		}
		if j.Key != nil {
			r.keyNull = nullsOf(j.Key)
		}
		if j.Buffer == "" {
			return Next[K, V](r.take), nil
		}
		if r.buf, err = openBuffer(b, j, r.join); err != nil {
			return nil, err
		}
		b.g.timers.closeBefore(r.buf)
		return Next[K, V](r.take), nil
	}
}

type versionedJoin[K, V, VT, VR any] struct {
	VersionedJoin[K, V, VT, VR]
	get     AsOf[K, VT]
	keyNull nulls[K]
	next    Next[K, VR]
	node    int32
	m       *Metrics
	buf     *joinBuffer[K, V]
}

func (r *versionedJoin[K, V, VT, VR]) take(c *Context, k K, v V, n record.Null) error {
	noKey := n.Key() || r.keyNull.is(k)
	switch {
	case n.Value() || noKey && r.Alone == nil:
		r.m.NullDropped.Add(1)
		return nil
	case noKey:
		c.node = r.node
		return r.next(c, k, r.Alone(v), n)
	case r.buf == nil:
		return r.join(c, k, v, c.StreamTime)
	}
	// What waits for this time comes before the record.
	if err := c.sendWaiting(r.buf); err != nil {
		return err
	}
	if clampTime(c.Timestamp) <= clampTime(c.StreamTime)-r.Grace {
		return r.join(c, k, v, c.StreamTime)
	}
	return r.buf.put(c, k, v, r.node)
}

// join joins a record as of its timestamp; now is the stream time at which it is
// due, which is not later than the present one.
func (r *versionedJoin[K, V, VT, VR]) join(c *Context, k K, v V, now int64) error {
	c.node = r.node
	row, _, ok, err := r.get(k, c.Timestamp, now)
	switch {
	case err != nil:
		return err
	case ok:
		return r.next(c, k, r.Joiner(v, row), 0)
	case r.Alone != nil:
		return r.next(c, k, r.Alone(v), 0)
	}
	return nil
}

// joinBuffer keeps records in the order of their timestamps, and of arrival
// where these are equal, until stream time has reached them plus the grace. The
// format is in docs/format/stores.md.
type joinBuffer[K, V any] struct {
	name  string
	kv    state.KV
	ks    serde.Serde[K]
	vs    serde.Serde[V]
	grace int64
	out   func(c *Context, k K, v V, now int64) error
	// first is not above the time of the first record: math.MaxInt64 when there
	// is none.
	first        int64
	key, hi, buf []byte
	headers      record.Headers
}

func openBuffer[K, V, VT, VR any](
	b *Build, j VersionedJoin[K, V, VT, VR], out func(*Context, K, V, int64) error,
) (*joinBuffer[K, V], error) {
	kv, err := b.g.env.Store(j.Buffer)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", j.Buffer, err)
	}
	s := &joinBuffer[K, V]{name: j.Buffer, kv: kv, ks: j.Key, vs: j.Value, grace: j.Grace, out: out}
	return s, s.findFirst(nil)
}

// put stores the present record.
func (s *joinBuffer[K, V]) put(c *Context, k K, v V, node int32) (err error) {
	if s.buf, err = appendBuffered(s.buf[:0], c, k, v, s.ks, s.vs); err != nil {
		return c.failAt(node, KindEncode, err)
	}
	at := clampTime(c.Timestamp)
	s.key = binary.BigEndian.AppendUint64(appendTime(s.key[:0], at), 0)
	// Records leave in order, so the first of its time is there if any is.
	_, taken, err := s.kv.Get(s.key)
	if err == nil && taken {
		err = s.lastSeq()
	}
	if err != nil {
		return s.fail("look for records of the same time", err)
	}
	if err := s.kv.Set(s.key, s.buf); err != nil {
		return s.fail("put", err)
	}
	if at < s.first {
		s.first = at
		c.g.timers.findDue()
	}
	return nil
}

// lastSeq sets the sequence number in s.key to that behind the last one.
func (s *joinBuffer[K, V]) lastSeq() (err error) {
	s.hi = binary.BigEndian.AppendUint64(append(s.hi[:0], s.key[:timeSize]...), math.MaxUint64)
	it := s.kv.Scan(s.key, s.hi, true)
	defer closeIterator(it, &err)
	if !it.Next() {
		return it.Err()
	}
	if len(it.Key()) != timeSize+seqSize {
		return errBuffered
	}
	binary.BigEndian.PutUint64(s.key[timeSize:], binary.BigEndian.Uint64(it.Key()[timeSize:])+1)
	return nil
}

// due is the stream time at which send has something to do.
func (s *joinBuffer[K, V]) due() int64 {
	if s.first == math.MaxInt64 {
		return s.first
	}
	return s.first + s.grace
}

// send joins the records whose time has come. A record is forgotten before it is
// joined, so that one that fails is not joined for ever. c's record is the same
// afterwards, also after a panic.
func (s *joinBuffer[K, V]) send(c *Context, streamTime int64) error {
	if streamTime = clampTime(streamTime); streamTime < s.due() {
		return nil
	}
	ts, h := c.Timestamp, c.Headers
	defer func() { c.Timestamp, c.Headers = ts, h }()
	upTo := appendTime(nil, streamTime-s.grace+1)
	if err := s.sendBefore(c, upTo); err != nil {
		return err
	}
	if err := s.findFirst(upTo); err != nil {
		return err
	}
	c.g.timers.findDue()
	return nil
}

func (s *joinBuffer[K, V]) sendBefore(c *Context, upTo []byte) (err error) {
	it := s.kv.Scan(appendTime(nil, s.first), upTo, false)
	defer closeIterator(it, &err)
	for it.Next() {
		if err := s.kv.Delete(it.Key()); err != nil {
			return s.fail("delete", err)
		}
		k, v, err := s.decode(c, it.Value())
		if err != nil {
			return s.fail("decode a record", err)
		}
		if err := s.out(c, k, v, clampTime(c.Timestamp)+s.grace); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return s.fail("scan", err)
	}
	return nil
}

// findFirst sets first from the records at and behind a key.
func (s *joinBuffer[K, V]) findFirst(from []byte) (err error) {
	s.first = math.MaxInt64
	it := s.kv.Scan(from, nil, false)
	defer closeIterator(it, &err)
	if it.Next() {
		if len(it.Key()) < timeSize {
			return s.fail("decode a key", errBuffered)
		}
		s.first = timeOf(it.Key())
	}
	if err := it.Err(); err != nil {
		return s.fail("look for the first record", err)
	}
	return nil
}

func (s *joinBuffer[K, V]) fail(what string, err error) error {
	return fmt.Errorf("store %q: %s: %w", s.name, what, err)
}

// appendBuffered appends the present record: timestamp, headers, key, value.
func appendBuffered[K, V any](dst []byte, c *Context, k K, v V, ks serde.Serde[K], vs serde.Serde[V]) ([]byte, error) {
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Timestamp))
	dst = binary.AppendUvarint(dst, uint64(len(c.Headers)))
	for _, h := range c.Headers {
		dst = binary.AppendUvarint(dst, uint64(len(h.Key)))
		dst = append(dst, h.Key...)
		if h.Value == nil {
			dst = binary.AppendUvarint(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(h.Value))+1)
		dst = append(dst, h.Value...)
	}
	// The key's length goes before it and is known only behind it.
	at := len(dst)
	dst, err := ks.Append(dst, k)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	n := len(dst) - at
	var length [binary.MaxVarintLen64]byte
	w := binary.PutUvarint(length[:], uint64(n))
	dst = append(dst, length[:w]...)
	copy(dst[at+w:], dst[at:at+n])
	copy(dst[at:], length[:w])
	if dst, err = vs.Append(dst, v); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return dst, nil
}

var errBuffered = errors.New("a buffered record is cut short or malformed")

// decode makes a stored record the present one; it is valid as long as b.
func (s *joinBuffer[K, V]) decode(c *Context, b []byte) (k K, v V, err error) {
	if len(b) < stampSize {
		return k, v, errBuffered
	}
	ts := int64(binary.BigEndian.Uint64(b))
	b = b[stampSize:]
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)) {
		return k, v, errBuffered
	}
	b = b[w:]
	s.headers = s.headers[:0]
	for range n {
		var name, value []byte
		var ok bool
		if name, b, ok = cut(b, 0); !ok {
			return k, v, errBuffered
		}
		if value, b, ok = cut(b, 1); !ok {
			return k, v, errBuffered
		}
		s.headers = append(s.headers, record.Header{Key: string(name), Value: value})
	}
	kb, b, ok := cut(b, 0)
	if !ok {
		return k, v, errBuffered
	}
	if k, err = s.ks.Decode(kb); err != nil {
		return k, v, fmt.Errorf("key: %w", err)
	}
	if v, err = s.vs.Decode(b); err != nil {
		return k, v, fmt.Errorf("value: %w", err)
	}
	c.Timestamp, c.Headers = ts, nil
	if n > 0 {
		// A step may keep or extend the headers during the call.
		c.Headers = append(record.Headers(nil), s.headers...)
	}
	return k, v, nil
}

// cut takes a part with its length plus extra off b; a length of 0 with extra is
// nil.
func cut(b []byte, extra uint64) (part, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 {
		return nil, nil, false
	}
	b = b[w:]
	if extra > 0 {
		if n == 0 {
			return nil, b, true
		}
		n -= extra
	}
	if n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}
