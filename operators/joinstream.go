package operators

import (
	"fmt"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// JoinWindows say which records of two streams meet, in milliseconds: a right
// record with a timestamp in [left − Before, left + After].
type JoinWindows struct {
	Before, After, Grace int64
}

// span is how far the partners of one record lie apart.
func (w JoinWindows) span() int64 { return w.Before + w.After }

// minSegment bounds the number of range deletions.
const minSegment = 60_000

// segment is the length of time whose rows lie together. The partners of a
// record lie in at most two segments, and about an eighth of what is kept is
// kept for too long.
func (w JoinWindows) segment() int64 {
	return max(w.span()+1, (w.span()+w.Grace)/8, minSegment)
}

// StreamJoin joins two streams within windows. A pair of records is joined when
// the second one arrives, if the window of the first is not closed: a record's
// window closes when stream time passed the last timestamp that a partner can
// have plus the grace.
//
// Each side keeps its records in a store of rows. Rows of an outer side that
// met no partner are also in the store of pending rows, ordered by the time at
// which their windows close; then they are sent without a partner. The formats
// are in docs/format/stores.md.
type StreamJoin[K, V, VO, VR any] struct {
	Name   string
	W      JoinWindows
	Key    serde.Serde[K]
	Left   serde.Serde[V]
	Right  serde.Serde[VO]
	Joiner func(V, VO) VR
	// LeftOnly and RightOnly make the result of a record without a partner; nil
	// on an inner side.
	LeftOnly  func(V) VR
	RightOnly func(VO) VR
	// Self: both sides are one stream and inner; one store serves both.
	Self bool
}

// Stores returns the definitions of the stores.
func (j StreamJoin[K, V, VO, VR]) Stores(key, left, right topology.Serde, site topology.Site) []topology.Store {
	rows := func(name string, value topology.Serde) topology.Store {
		return topology.Store{
			Name: name, Format: FormatJoinRows, Key: key, Value: value, Site: site,
			SizeMs: j.W.span(), GraceMs: j.W.Grace,
		}
	}
	out := []topology.Store{rows(j.leftStore(), left)}
	if !j.Self {
		out = append(out, rows(j.rightStore(), right))
	}
	if j.outer() {
		empty := topology.Serde{Fingerprint: "empty", Accepts: func(fp string) bool { return fp == "empty" }}
		out = append(out, topology.Store{
			Name: j.pendingStore(), Format: FormatJoinPending, Key: key, Value: empty, Site: site, GraceMs: j.W.Grace,
			// The sum of the two, which the sides have, does not tell them apart, and a
			// row's key here follows from one of them.
			Windows: fmt.Sprintf("rows that look %d ms back and %d ms ahead", j.W.Before, j.W.After),
		})
	}
	return out
}

func (j StreamJoin[K, V, VO, VR]) outer() bool          { return j.LeftOnly != nil || j.RightOnly != nil }
func (j StreamJoin[K, V, VO, VR]) leftStore() string    { return j.Name + "-left" }
func (j StreamJoin[K, V, VO, VR]) rightStore() string   { return j.Name + "-right" }
func (j StreamJoin[K, V, VO, VR]) pendingStore() string { return j.Name + "-pending" }

// LeftSide makes the step that takes the left records; its child is the same as
// that of RightSide.
func (j StreamJoin[K, V, VO, VR]) LeftSide() Factory {
	return func(b *Build, outs []any) (any, error) {
		r, err := j.open(b, outs)
		if err != nil {
			return nil, err
		}
		r.left.node = b.id()
		return Next[K, V](func(c *Context, k K, v V, n record.Null) error {
			return r.left.take(r.joinCore, c, k, v, n, &r.right, j.Joiner)
		}), nil
	}
}

// RightSide makes the step that takes the right records.
func (j StreamJoin[K, V, VO, VR]) RightSide() Factory {
	joiner := func(vo VO, v V) VR { return j.Joiner(v, vo) }
	return func(b *Build, outs []any) (any, error) {
		r, err := j.open(b, outs)
		if err != nil {
			return nil, err
		}
		r.right.node = b.id()
		return Next[K, VO](func(c *Context, k K, vo VO, n record.Null) error {
			return r.right.take(r.joinCore, c, k, vo, n, &r.left, joiner)
		}), nil
	}
}

// joinRun is a join in a task; its two steps share it.
type joinRun[K, V, VO, VR any] struct {
	left  joinSide[K, V, VR]
	right joinSide[K, VO, VR]
	*joinCore[K, VR]
}

// joinCore is what does not depend on the sides' types.
type joinCore[K, VR any] struct {
	grace   int64
	self    bool
	keyNull nulls[K]
	next    Next[K, VR]
	m       *Metrics
	pending *pendingRows // nil in an inner join
}

// joinSide is one of the two streams.
type joinSide[K, V, VR any] struct {
	rows rowStore[K, V]
	// Partners have timestamps in [t − back, t + ahead].
	back, ahead int64
	null        nulls[V]
	alone       func(V) VR
	node        int32
	// id is the side's byte in the store of pending rows.
	id byte
	// stores: the side stores its records; else the other side stores them for
	// both, before it looks for partners, and reports what is dropped.
	stores bool
}

// open opens the stores of the join once for both steps.
func (j StreamJoin[K, V, VO, VR]) open(b *Build, outs []any) (*joinRun[K, V, VO, VR], error) {
	if r, ok := b.stores[j.leftStore()]; ok {
		return r.(*joinRun[K, V, VO, VR]), nil
	}
	left, err := openRows(b, j.leftStore(), j.Key, j.Left, j.W.segment())
	if err != nil {
		return nil, err
	}
	rightStore := j.rightStore()
	if j.Self {
		rightStore = j.leftStore()
	}
	right, err := openRows(b, rightStore, j.Key, j.Right, j.W.segment())
	if err != nil {
		return nil, err
	}
	r := &joinRun[K, V, VO, VR]{
		left: joinSide[K, V, VR]{
			rows: left, back: j.W.Before, ahead: j.W.After, null: nullsOf(j.Left), alone: j.LeftOnly, id: 0, stores: !j.Self,
		},
		right: joinSide[K, VO, VR]{
			rows: right, back: j.W.After, ahead: j.W.Before, null: nullsOf(j.Right), alone: j.RightOnly, id: 1, stores: true,
		},
		joinCore: &joinCore[K, VR]{
			grace: j.W.Grace, self: j.Self, keyNull: nullsOf(j.Key), next: next[K, VR](outs), m: b.g.env.Metrics(),
		},
	}
	ts := &b.g.timers
	if j.outer() {
		if r.pending, err = openPending(b, j.pendingStore(), func(c *Context, side byte, row []byte) error {
			if side == r.left.id {
				return r.left.sendAlone(r.joinCore, c, row)
			}
			return r.right.sendAlone(r.joinCore, c, row)
		}); err != nil {
			return nil, err
		}
		ts.closeBefore(r.pending)
	}
	// A segment goes when the window of its last row is closed.
	keep := func(ahead int64) Windows {
		return Windows{Size: j.W.segment() + ahead, Grace: j.W.Grace, Advance: j.W.segment()}
	}
	if j.Self {
		ts.expire(newExpiry(keep(max(j.W.Before, j.W.After)), r.left.rows.dropBefore))
	} else {
		ts.expire(newExpiry(keep(r.left.ahead), r.left.rows.dropBefore))
		ts.expire(newExpiry(keep(r.right.ahead), r.right.rows.dropBefore))
	}
	b.stores[j.leftStore()] = r
	return r, nil
}

// take takes a record of the side s.
func (s *joinSide[K, A, VR]) take[B any](
	j *joinCore[K, VR], c *Context, k K, a A, n record.Null, other *joinSide[K, B, VR], joiner func(A, B) VR,
) error {
	if j.pending != nil {
		// What the record's time closes comes before what the record joins.
		if err := c.sendWaiting(j.pending); err != nil {
			return err
		}
	}
	c.node = s.node
	noKey := n.Key() || j.keyNull.is(k)
	switch {
	case n.Value() || s.null.is(a) || noKey && s.alone == nil:
		if s.stores {
			j.m.NullDropped.Add(1)
		}
		return nil
	case noKey:
		return j.next(c, k, s.alone(a), n)
	}
	at, now := clampTime(c.Timestamp), clampTime(c.StreamTime)
	if err := s.rows.encode(k, a, at); err != nil {
		return c.fail(KindEncode, err)
	}
	own := false // the record's row is stored already, so that it meets itself
	defer func() {
		if own {
			// The joiner or a step below panicked: if that is skipped, the record must
			// not meet later ones. If the store fails too, its next call tells.
			_ = s.rows.kv.Delete(s.rows.row)
		}
	}()
	if j.self && s.stores && at+max(s.ahead, s.back)+j.grace >= now {
		if err := s.rows.put(c.Timestamp, false); err != nil {
			return err
		}
		own = true
	}
	ts := c.Timestamp
	joined, err := s.match(j, c, k, a, max(at, now-j.grace)-s.back, at+s.ahead, other, joiner)
	own = false
	if err != nil {
		return err
	}
	until := at + s.ahead + j.grace
	switch {
	case until < now: // no partner can come any more
		if !joined && s.stores {
			j.m.late(now - at)
		}
		return nil
	case j.self:
		return nil
	}
	alone := s.alone != nil && !joined
	if err := s.rows.put(ts, alone); err != nil || !alone {
		return err
	}
	return j.pending.add(until, s.id, s.rows.row, &c.g.timers)
}

// match joins a record with the rows of the other side in [from, to].
func (s *joinSide[K, A, VR]) match[B any](
	j *joinCore[K, VR], c *Context, k K, a A, from, to int64, other *joinSide[K, B, VR], joiner func(A, B) VR,
) (joined bool, err error) {
	ts, h := c.Timestamp, c.Headers
	err = other.rows.scan(s.rows.key, from, to, func(row joinRow[B]) error {
		joined = true
		c.node, c.Timestamp, c.Headers = s.node, max(ts, row.ts), h
		vr := joiner(a, row.v)
		if row.alone && other.alone != nil {
			if err := other.rows.meet(row); err != nil {
				return err
			}
			if err := j.pending.remove(row.at+other.ahead+j.grace, other.id, row.key); err != nil {
				return err
			}
		}
		return j.next(c, k, vr, 0)
	})
	return joined, err
}

// sendAlone sends a row without a partner.
func (s *joinSide[K, V, VR]) sendAlone(j *joinCore[K, VR], c *Context, row []byte) error {
	k, r, err := s.rows.get(row)
	if err != nil {
		return err
	}
	if s.alone == nil {
		return fmt.Errorf("store %q has a pending row of an inner side", j.pending.name)
	}
	c.node, c.Timestamp, c.Headers = s.node, r.ts, nil
	return j.next(c, k, s.alone(r.v), 0)
}
