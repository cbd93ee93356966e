package operators

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// ErrBufferFull is wrapped by the error with which a suppressing step ends the
// task when its buffer is full.
var ErrBufferFull = errors.New("the buffer is full")

// Suppression says which updates a suppressing step holds back.
type Suppression struct {
	// Limit, in milliseconds, is how long after the first update of a row the
	// newest one is sent. It is 0 where rows wait for their windows.
	Limit int64
	// Closes: rows wait for their windows and are sent once, if they are there.
	Closes bool
	// MaxRecords and MaxBytes bound the buffer; 0 is no bound.
	MaxRecords, MaxBytes int64
	// EmitEarly: when the buffer is full, the oldest rows are sent; else the
	// task ends with ErrBufferFull.
	EmitEarly bool
}

func (o Suppression) bounded() bool { return o.MaxRecords > 0 || o.MaxBytes > 0 }

// TimesStore is the name of the store with the order of the rows of the store
// name.
func (Suppression) TimesStore(name string) string { return name + "-times" }

// TimesFormat is the format of that store.
func (o Suppression) TimesFormat() string {
	if o.Closes {
		return FormatSuppressCloses
	}
	return FormatSuppressFirsts
}

// Suppress holds updates of a table back. Every row is in the store of rows, by
// its key; the store of times has an entry for each, so that the rows that are
// due are one range. closeAt is that of the table, where o.Closes.
//
// Both together are the state: what the step holds in memory (the first time,
// the count and the bytes) is found in them when it is made.
func Suppress[K, V any](
	name string, o Suppression, closeAt func(K) int64, ks serde.Serde[K], vs serde.Serde[V],
) Factory {
	return func(b *Build, outs []any) (any, error) {
		rows, err := openHeld(b, name, vs)
		if err != nil {
			return nil, err
		}
		times, err := b.g.env.Store(o.TimesStore(name))
		if err != nil {
			return nil, fmt.Errorf("open store %q: %w", o.TimesStore(name), err)
		}
		s := &suppressor[K, V]{
			name: name, o: o, closeAt: closeAt, ks: ks, rows: rows, times: times, enc: heldSerde[V]{vs},
			cloneK: serde.CloneFunc(ks), next: nextChange[K, V](outs), node: b.id(),
			clean: b.g.env.MaySkip(),
		}
		if s.first, err = s.ready.read(s.times, math.MinInt64, math.MinInt64, 0, errHeldRow); err != nil {
			return nil, err
		}
		if err := s.measure(); err != nil {
			return nil, err
		}
		b.g.timers.closeBefore(s)
		return NextChange[K, V](s.process), nil
	}
}

func openHeld[V any](b *Build, name string, vs serde.Serde[V]) (*state.KVStore[[]byte, heldRow[V]], error) {
	return openKV[[]byte, heldRow[V]](b, name, serde.Bytes(), heldSerde[V]{vs})
}

type suppressor[K, V any] struct {
	name    string
	o       Suppression
	closeAt func(K) int64
	ks      serde.Serde[K]
	rows    *state.KVStore[[]byte, heldRow[V]]
	times   state.KV
	enc     heldSerde[V]
	cloneK  func(K) K
	next    NextChange[K, V]
	node    int32
	// clean: an aggregator that failed may have changed the value that a row
	// holds, so the row is sent as it was put.
	clean bool

	// first is not above the time of the first row: math.MaxInt64 when there is
	// none.
	first          int64
	records, bytes int64 // kept where the buffer is bounded
	key, buf       []byte
	ready          dueKeys
}

// process takes an update: it is the newest one of its row until the row is
// due, which the task asks for afterwards (Graph.Punctuate).
func (s *suppressor[K, V]) process(c *Context, k K, ch Change[V]) (err error) {
	c.node = s.node
	if s.key, err = s.ks.Append(s.key[:0], k); err != nil {
		return c.fail(KindEncode, fmt.Errorf("key: %w", err))
	}
	row, held, err := s.rows.Get(s.key)
	if err != nil {
		return err
	}
	if !ch.HasNew && s.o.Closes {
		// A row that is not there when its window closes was never sent.
		if !held {
			return nil
		}
		return s.forget(s.timeKey(row.time), row)
	}
	before := s.weight(row)
	if !held {
		before = 0
		row.time = s.timeOf(c, k)
		row.prior, row.hasPrior = ch.Old, ch.HasOld
	}
	row.ts, row.h, row.v, row.hasV = c.Timestamp, c.Headers, ch.New, ch.HasNew
	if s.o.MaxBytes > 0 {
		if s.buf, err = s.enc.Append(s.buf[:0], row); err != nil {
			return c.fail(KindEncode, fmt.Errorf("value: %w", err))
		}
		row.size = int64(len(s.buf))
	}
	if err := s.rows.Put(s.key, row); err != nil {
		return err
	}
	s.bytes += s.weight(row) - before
	if !held {
		if err := s.add(c, row.time); err != nil {
			return err
		}
	}
	return s.makeRoom(c)
}

// timeOf is the place of a new row in the order of the buffer.
func (s *suppressor[K, V]) timeOf(c *Context, k K) int64 {
	if s.o.Closes {
		return s.closeAt(k)
	}
	return clampTime(c.Timestamp)
}

func (s *suppressor[K, V]) timeKey(at int64) []byte {
	s.buf = append(appendTime(s.buf[:0], at), s.key...)
	return s.buf
}

// add notes the time of the new row in hand.
func (s *suppressor[K, V]) add(c *Context, at int64) error {
	if err := s.times.Set(s.timeKey(at), nil); err != nil {
		return s.fail("put", err)
	}
	s.records++
	if at < s.first {
		s.first = at
		c.g.timers.findDue()
	}
	return nil
}

// forget removes the row in hand.
func (s *suppressor[K, V]) forget(timeKey []byte, row heldRow[V]) error {
	if err := s.times.Delete(timeKey); err != nil {
		return s.fail("delete", err)
	}
	s.records--
	s.bytes -= s.weight(row)
	return s.rows.Delete(s.key)
}

// weight is what the row in hand takes of the bound in bytes.
func (s *suppressor[K, V]) weight(row heldRow[V]) int64 {
	if s.o.MaxBytes == 0 {
		return 0
	}
	return int64(len(s.key)) + row.size
}

func (s *suppressor[K, V]) full() bool {
	return s.o.MaxRecords > 0 && s.records > s.o.MaxRecords || s.o.MaxBytes > 0 && s.bytes > s.o.MaxBytes
}

// makeRoom deals with a full buffer: what is due goes first.
func (s *suppressor[K, V]) makeRoom(c *Context) error {
	if !s.full() {
		return nil
	}
	rec := c.leaveRecord()
	defer func() { c.RecordContext = rec }()
	if err := c.g.timers.step(c, c.StreamTime, s); err != nil || !s.full() {
		return err
	}
	if !s.o.EmitEarly {
		return fmt.Errorf("step %q: %w: it holds %d records and %d bytes of at most %d and %d (0 is no bound): raise the bounds, or leave them out and the buffer lies in its store",
			c.g.res.Node(int(s.node)).Label(), ErrBufferFull, s.records, s.bytes, s.o.MaxRecords, s.o.MaxBytes)
	}
	// One by one: each makes room.
	for s.full() && s.first < math.MaxInt64 {
		if err := s.sendRows(c, math.MaxInt64, 1); err != nil {
			return err
		}
	}
	c.g.timers.findDue()
	return nil
}

// due is the stream time at which send has something to do.
func (s *suppressor[K, V]) due() int64 {
	if s.first == math.MaxInt64 {
		return s.first
	}
	return s.first + s.o.Limit
}

// send sends the rows that are due, the oldest first.
func (s *suppressor[K, V]) send(c *Context, streamTime int64) error {
	if streamTime = clampTime(streamTime); streamTime < s.due() {
		return nil
	}
	for streamTime >= s.due() {
		if err := s.sendRows(c, streamTime-s.o.Limit, mostDue); err != nil {
			return err
		}
	}
	c.g.timers.findDue()
	return nil
}

// sendRows sends rows in their order, up to a time and at most so many. A row is
// forgotten before it is sent, so that one that fails is not sent for ever.
func (s *suppressor[K, V]) sendRows(c *Context, last int64, most int) error {
	next, err := s.ready.read(s.times, s.first, last, most, errHeldRow)
	if err != nil {
		return s.fail("scan", err)
	}
	for i := range s.ready.ends {
		if err := s.sendRow(c, s.ready.key(i)); err != nil {
			return err
		}
	}
	s.first = next
	return nil
}

// sendRow sends the row of an entry of the store of times.
func (s *suppressor[K, V]) sendRow(c *Context, timeKey []byte) error {
	if len(timeKey) < timeSize {
		return s.fail("decode a key", errHeldRow)
	}
	s.first = timeOf(timeKey)
	s.key = append(s.key[:0], timeKey[timeSize:]...)
	get := s.rows.Get
	if s.clean {
		get = s.rows.GetOld
	}
	row, ok, err := get(s.key)
	if err == nil && !ok {
		err = s.fail("get a row", errHeldRow)
	}
	if err != nil {
		return err
	}
	k, err := s.ks.Decode(s.key)
	if err != nil {
		return s.fail("decode a key", err)
	}
	if s.cloneK != nil {
		k = s.cloneK(k)
	}
	if err := s.forget(timeKey, row); err != nil {
		return err
	}
	c.Timestamp, c.Headers = row.ts, row.h
	return s.next(c, k, Change[V]{New: row.v, HasNew: row.hasV, Old: row.prior, HasOld: row.hasPrior})
}

// measure counts what a bounded buffer holds.
func (s *suppressor[K, V]) measure() (err error) {
	if !s.o.bounded() {
		return nil
	}
	it, err := s.rows.Scan(nil, nil, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		s.key = append(s.key[:0], it.Key()...)
		s.records++
		s.bytes += s.weight(it.Value())
	}
	return it.Err()
}

func (s *suppressor[K, V]) fail(what string, err error) error {
	return fmt.Errorf("store %q: %s: %w", s.o.TimesStore(s.name), what, err)
}

// SuppressGetter looks up what a suppressing step sent last: of a held row the
// value before, whose timestamp is unknown (−1).
func SuppressGetter[K, V any](
	parent *topology.Node, name string, ks serde.Serde[K], vs serde.Serde[V],
) GetterFactory {
	return func(b *Build) (any, error) {
		get, err := getter[K, V](b, parent)
		if err != nil {
			return nil, err
		}
		rows, err := openHeld(b, name, vs)
		if err != nil {
			return nil, err
		}
		var key []byte
		return Getter[K, V](func(k K) (v V, ts int64, ok bool, err error) {
			if key, err = ks.Append(key[:0], k); err != nil {
				return v, 0, false, fmt.Errorf("store %q: encode a key: %w", name, err)
			}
			row, held, err := rows.Get(key)
			switch {
			case err != nil:
				return v, 0, false, err
			case held:
				return row.prior, -1, row.hasPrior, nil
			}
			return get(k)
		}), nil
	}
}
