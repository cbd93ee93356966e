package operators

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
)

// GroupTable writes the changes of a table's rows under a new key to the topic
// of a repartition step. Where the new key stays, one record carries the old and
// the new value; where it changes, the old value goes first, under its own key.
//
// f must be a function of its arguments alone, since the old value's key is
// found by calling it again. A row for which f fails, and the failure handler
// skips it, is in no group, so it is not taken out of one either.
func GroupTable[K, V, K2, V2 any](step string, f func(K, V) (K2, V2), ks serde.Serde[K2], vs serde.Serde[V2]) Factory {
	return func(b *Build, _ []any) (any, error) {
		out, err := b.g.env.Output(b.g.res.StepTopic(step), true)
		if err != nil {
			return nil, err
		}
		g := &groupTable[K, V, K2, V2]{
			f: f, out: out, node: b.id(), m: b.g.env.Metrics(), maySkip: b.g.env.MaySkip(),
			ks: ks, vs: vs, keyNull: nullsOf(ks), valueNull: nullsOf(vs),
		}
		g.part, _ = ks.(serde.PartitionKeyer)
		return NextChange[K, V](g.process), nil
	}
}

type groupTable[K, V, K2, V2 any] struct {
	f         func(K, V) (K2, V2)
	out       Output
	node      int32
	m         *Metrics
	maySkip   bool
	ks        serde.Serde[K2]
	vs        serde.Serde[V2]
	keyNull   nulls[K2]
	valueNull nulls[V2]
	part      serde.PartitionKeyer

	old, new groupRow
	buf      []byte
}

// groupRow is a row under its new key, serialised.
type groupRow struct {
	in         bool // it is in a group
	key, value []byte
}

func (g *groupTable[K, V, K2, V2]) process(c *Context, k K, ch Change[V]) error {
	g.old.in, g.new.in = false, false
	if ch.HasNew {
		if err := g.row(&g.new, c, k, ch.New, true); err != nil {
			return err
		}
	}
	if ch.HasOld {
		if err := g.row(&g.old, c, k, ch.Old, false); err != nil {
			return err
		}
	}
	switch {
	case g.old.in && g.new.in && string(g.old.key) == string(g.new.key):
		g.buf = appendDelta(g.buf[:0], g.old.value, g.new.value, true, true)
		return g.write(c, g.new.key, false)
	case g.old.in:
		g.buf = appendDelta(g.buf[:0], g.old.value, nil, true, false)
		if err := g.write(c, g.old.key, false); err != nil || !g.new.in {
			return err
		}
	case !g.new.in:
		return nil
	}
	half := g.old.in
	g.buf = appendDelta(g.buf[:0], nil, g.new.value, false, true)
	return g.write(c, g.new.key, half)
}

// row finds a row's group. A row that fails is in none; only the failure of a
// new one is reported, since the old one was reported when it was new.
func (g *groupTable[K, V, K2, V2]) row(r *groupRow, c *Context, k K, v V, report bool) (err error) {
	c.node = g.node
	if g.maySkip {
		defer func() {
			if p := recover(); p != nil {
				if r.in = false; report {
					err = c.g.env.Fail(c.g.RecoverError(p))
				}
			}
		}()
	}
	k2, v2 := g.f(k, v)
	if g.keyNull.is(k2) || g.valueNull.is(v2) {
		if report {
			g.m.NullDropped.Add(1)
		}
		return nil
	}
	if r.key, err = g.ks.Append(r.key[:0], k2); err == nil {
		r.value, err = g.vs.Append(r.value[:0], v2)
	}
	if err != nil {
		if !report && g.maySkip {
			return nil
		}
		return c.fail(KindEncode, err)
	}
	r.in = true
	return nil
}

// write appends the delta in g.buf. half: the first record of the change was
// written, so the second one cannot be skipped.
func (g *groupTable[K, V, K2, V2]) write(c *Context, key []byte, half bool) error {
	hashed := key
	if g.part != nil {
		hashed = g.part.PartitionKey(key)
	}
	err := g.out.Append(ids.Partition(hashed, g.out.Partitions()), key, g.buf, 0, c.Timestamp, c.Headers)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrRefused):
		return fmt.Errorf("step %q: %w", c.g.res.Node(int(g.node)).Label(), err)
	}
	c.node = g.node
	e := c.recordError(KindOutput, err)
	e.Fatal = half
	return c.g.env.Fail(e)
}

// The wire format of a change, docs/format/changes.md.
const (
	deltaVersion = 1
	deltaOld     = 1 << 0
	deltaNew     = 1 << 1
	deltaHead    = 2
)

var errDelta = errors.New("a change of a grouped table is cut short or malformed")

func appendDelta(dst, before, after []byte, hasOld, hasNew bool) []byte {
	flags := byte(0)
	if hasOld {
		flags |= deltaOld
	}
	if hasNew {
		flags |= deltaNew
	}
	dst = append(dst, deltaVersion, flags)
	if hasOld {
		dst = binary.AppendUvarint(dst, uint64(len(before)))
		dst = append(dst, before...)
	}
	return append(dst, after...)
}

// splitDelta takes a change apart; the parts alias b.
func splitDelta(b []byte) (before, after []byte, flags byte, err error) {
	if len(b) < deltaHead {
		return nil, nil, 0, errDelta
	}
	if b[0] != deltaVersion {
		return nil, nil, 0, fmt.Errorf("a change of a grouped table has version %d, this release reads %d: use a newer release", b[0], deltaVersion)
	}
	flags, b = b[1], b[deltaHead:]
	if flags == 0 || flags > deltaOld|deltaNew {
		return nil, nil, 0, errDelta
	}
	if flags&deltaOld != 0 {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > uint64(len(b)-w) {
			return nil, nil, 0, errDelta
		}
		before, b = b[w:w+int(n)], b[w+int(n):]
	}
	if flags&deltaNew == 0 && len(b) > 0 {
		return nil, nil, 0, errDelta
	}
	return before, b, flags, nil
}

// DeltaSerde is the serde of the changes that [GroupTable] writes.
func DeltaSerde[V any](vs serde.Serde[V]) serde.Serde[Change[V]] { return deltaSerde[V]{vs} }

type deltaSerde[V any] struct{ in serde.Serde[V] }

func (s deltaSerde[V]) Append(dst []byte, ch Change[V]) ([]byte, error) {
	var before, after []byte
	var err error
	if ch.HasOld {
		if before, err = s.in.Append(nil, ch.Old); err != nil {
			return dst, err
		}
	}
	if ch.HasNew {
		if after, err = s.in.Append(nil, ch.New); err != nil {
			return dst, err
		}
	}
	return appendDelta(dst, before, after, ch.HasOld, ch.HasNew), nil
}

func (s deltaSerde[V]) Decode(b []byte) (ch Change[V], err error) {
	before, after, flags, err := splitDelta(b)
	if err != nil {
		return ch, err
	}
	if ch.HasOld = flags&deltaOld != 0; ch.HasOld {
		if ch.Old, err = s.in.Decode(before); err != nil {
			return ch, fmt.Errorf("old value: %w", err)
		}
	}
	if ch.HasNew = flags&deltaNew != 0; ch.HasNew {
		if ch.New, err = s.in.Decode(after); err != nil {
			return ch, fmt.Errorf("new value: %w", err)
		}
	}
	return ch, nil
}

func (s deltaSerde[V]) Fingerprint() string { return "change-1(" + s.in.Fingerprint() + ")" }

// TableAggregator folds rows into an aggregate and takes them out again.
type TableAggregator[K, V, A any] struct {
	agg Aggregator[K, V, A]
	sub func(K, V, A) A
}

// CountRows counts rows. vs may be nil.
func CountRows[K, V any]() TableAggregator[K, V, int64] {
	return TableAggregator[K, V, int64]{
		agg: Count[K, V](nil),
		sub: func(_ K, _ V, n int64) int64 { return n - 1 },
	}
}

// ReduceRows keeps the first row's value and combines others with it.
func ReduceRows[K, V any](add, sub func(agg, v V) V, vs serde.Serde[V]) TableAggregator[K, V, V] {
	return TableAggregator[K, V, V]{
		agg: Reduce[K](add, vs),
		sub: func(_ K, v V, a V) V { return sub(a, v) },
	}
}

// AggregateRows begins with init.
func AggregateRows[K, V, A any](init func() A, add, sub func(K, V, A) A, as serde.Serde[A]) TableAggregator[K, V, A] {
	return TableAggregator[K, V, A]{agg: Aggregate(init, add, as), sub: sub}
}

// TableAggregation keeps one aggregate per key of the rows that [GroupTable]
// sends. A record with an old and a new value is one update: subtract, then add.
func TableAggregation[K, V, A any](name string, ks serde.Serde[K], as serde.Serde[A], agg TableAggregator[K, V, A]) Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, m, sendOld := nextChange[K, A](outs), b.id(), b.g.env.Metrics(), b.node.SendOld
		st, err := openTable(b, name, ks, as)
		if err != nil {
			return nil, err
		}
		var at K // the key that revert is about
		revert := func() (bool, error) { return st.Revert(at) }
		return Next[K, Change[V]](func(c *Context, k K, d Change[V], n record.Null) error {
			if n != 0 {
				m.NullDropped.Add(1)
				return nil
			}
			var ch Change[A]
			if sendOld {
				old, ok, err := st.GetOld(k)
				if err != nil {
					return err
				}
				ch.Old, ch.HasOld = old.v, ok
			}
			cur, had, err := st.Get(k)
			if err != nil {
				return err
			}
			c.node, at, c.revert = node, k, revert
			has := cur.change(agg, c.Timestamp, had, k, d)
			c.revert = nil
			switch {
			case has:
				ch.New, ch.HasNew = cur.v, true
				err = st.Put(k, cur)
			case had:
				err = st.Delete(k)
			default:
				return nil // nothing to take out of
			}
			if err != nil {
				return err
			}
			c.Timestamp = cur.ts
			return next(c, k, ch)
		}), nil
	}
}

// change takes the old value out and the new one in, and reports whether there
// is an aggregate then. An aggregate that becomes the null of its type when a
// value is taken out begins anew.
func (s *stamped[A]) change[K, V any](agg TableAggregator[K, V, A], ts int64, had bool, k K, d Change[V]) bool {
	at, has := ts, had
	if had {
		at = max(at, s.ts)
	}
	if d.HasOld && has {
		s.v = agg.sub(k, d.Old, s.v)
		has = !agg.agg.null.is(s.v)
	}
	if d.HasNew {
		s.step(agg.agg, ts, has, k, d.New)
		has = !agg.agg.null.is(s.v)
	}
	s.ts = at
	return has
}
