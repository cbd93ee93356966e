package operators

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/record"
	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/state"
	"github.com/tidegate/tidegate/topology"
)

// ForeignKeyJoin joins the rows of a left table with the row of a right table
// whose key they name. The two rows lie on different tasks, so the left side
// subscribes at the right one, which answers with its row, now and at each of
// its changes:
//
//	left change ─▶ LeftSide ─▶ [subscriptions] ─▶ Subscribe ─┐
//	                 │                             right row ├▶ [answers] ─▶ Answer ─▶ result
//	                 │             right change ─▶ RightSide ┘                            ▲
//	                 └───────────── a row without a foreign key ──────────────────────────┘
//
// A left row has a version, which each of its changes raises; subscriptions and
// answers carry it. An answer to another than the present version is stale: it
// answers a change that a later one has overtaken, whose own answer is still to
// come. So a change of a left row gives one result, that of its present foreign
// key, in whatever order the answers come; an unsubscription has no answer.
//
// Versions are counted per task, not per row: a row that was deleted and came
// back must not take an answer that was meant for its first life. The foreign key
// is compared as well, since at-least-once mode may give a version twice.
//
// Invariants: a left row has an entry in the store of rows, and a subscription
// under exactly the foreign key in that entry, as soon as what the task wrote has
// been read. Both sides' records of one row and foreign key go through one
// partition from one task, so they are taken in the order of the versions.
type ForeignKeyJoin[K, V, KO, VO, VR any] struct {
	Name        string
	Left, Right *topology.Node
	// Of returns the foreign key of a row, or false.
	Of       func(K, V) (KO, bool)
	Key      serde.Serde[K]
	RightKey serde.Serde[KO]
	RightVal serde.Serde[VO]
	Both     func(V, VO) VR
	// LeftOnly makes the result of a row without a partner; nil in an inner join.
	LeftOnly func(V) VR
}

// RowStore and SubscriptionStore are the names of the join's stores.
func (j ForeignKeyJoin[K, V, KO, VO, VR]) RowStore() string { return j.Name + "-rows" }

// SubscriptionStore is the name of the right side's store.
func (j ForeignKeyJoin[K, V, KO, VO, VR]) SubscriptionStore() string {
	return j.Name + "-subscriptions"
}

// Subscriptions is the repartition step from the left to the right side.
func (j ForeignKeyJoin[K, V, KO, VO, VR]) Subscriptions() (step string, key, value string, sink, source Factory) {
	step = j.Name + "-subscriptions"
	ks, vs := rawKeyOf(j.RightKey), subscriptionSerde{j.Key.Fingerprint()}
	return step, ks.Fingerprint(), vs.Fingerprint(),
		RepartitionSink[[]byte, subscription](step, ks, vs, nil), Source[[]byte, subscription](ks, vs)
}

// Answers is the repartition step from the right to the left side.
func (j ForeignKeyJoin[K, V, KO, VO, VR]) Answers() (step string, key, value string, sink, source Factory) {
	step = j.Name + "-answers"
	ks, vs := rawKeyOf(j.Key), answerSerde[VO]{j.RightVal}
	return step, ks.Fingerprint(), vs.Fingerprint(),
		RepartitionSink[[]byte, answer[VO]](step, ks, vs, nil), Source[K, answer[VO]](j.Key, vs)
}

// MergeAnswers passes on what both steps of the right side answer.
func (j ForeignKeyJoin[K, V, KO, VO, VR]) MergeAnswers() Factory { return Merge[[]byte, answer[VO]]() }

// foreignRows is the left side's store.
type foreignRows[K any] struct {
	*state.KVStore[K, foreignRow]
	name string
	kv   state.KV
	last uint64 // the last version given
	kept uint64 // what the KV says
}

// openRows opens the left side's store once for both its steps.
func (j ForeignKeyJoin[K, V, KO, VO, VR]) openRows(b *Build) (*foreignRows[K], error) {
	name := j.RowStore()
	if r, ok := b.stores[name+"\x00"]; ok {
		return r.(*foreignRows[K]), nil
	}
	st, err := openKV[K, foreignRow](b, name, foreignKeySerde[K]{j.Key}, foreignRowSerde{})
	if err != nil {
		return nil, err
	}
	kv, err := b.g.env.Store(name)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", name, err)
	}
	r := &foreignRows[K]{KVStore: st, name: name, kv: kv}
	enc, ok, err := kv.Get([]byte{lastVersionKey})
	switch {
	case err != nil:
		return nil, fmt.Errorf("store %q: read the last version: %w", name, err)
	case ok && len(enc) != 8:
		return nil, fmt.Errorf("store %q: read the last version: %w", name, errForeignRow)
	case ok:
		r.last = binary.BigEndian.Uint64(enc)
		r.kept = r.last
	}
	b.g.flush = append(b.g.flush, r.keepVersion)
	b.stores[name+"\x00"] = r
	return r, nil
}

// keepVersion stores the last version with the rows that have it.
func (r *foreignRows[K]) keepVersion() error {
	if r.kept == r.last {
		return nil
	}
	if err := r.kv.Set([]byte{lastVersionKey}, binary.BigEndian.AppendUint64(nil, r.last)); err != nil {
		return fmt.Errorf("store %q: write the last version: %w", r.name, err)
	}
	r.kept = r.last
	return nil
}

// foreignLeft takes the changes of the left table.
type foreignLeft[K, V, KO, VO, VR any] struct {
	j         ForeignKeyJoin[K, V, KO, VO, VR]
	rows      *foreignRows[K]
	subscribe Next[[]byte, subscription]
	next      NextChange[K, VR]
	node      int32
	maySkip   bool
	keyNull   nulls[KO]

	key, foreign, old []byte
}

// LeftSide takes the changes of the left table. Its children are the sink of
// Subscriptions and the result.
func (j ForeignKeyJoin[K, V, KO, VO, VR]) LeftSide() Factory {
	return func(b *Build, outs []any) (any, error) {
		l := &foreignLeft[K, V, KO, VO, VR]{
			j: j, node: b.id(), maySkip: b.g.env.MaySkip(), keyNull: nullsOf(j.RightKey),
		}
		for _, o := range outs {
			switch o := o.(type) {
			case Next[[]byte, subscription]:
				l.subscribe = o
			case NextChange[K, VR]:
				l.next = o
			}
		}
		if l.subscribe == nil || l.next == nil {
			return nil, errors.New("a child of the foreign-key join is missing")
		}
		var err error
		if l.rows, err = j.openRows(b); err != nil {
			return nil, err
		}
		return NextChange[K, V](l.process), nil
	}
}

func (l *foreignLeft[K, V, KO, VO, VR]) process(c *Context, k K, ch Change[V]) (err error) {
	if l.key, err = l.j.Key.Append(l.key[:0], k); err != nil {
		return c.failAt(l.node, KindEncode, fmt.Errorf("key: %w", err))
	}
	has := false
	if ch.HasNew {
		if has, err = l.foreignKey(c, k, ch.New); err != nil {
			return err
		}
	}
	row, had, err := l.rows.Get(k)
	if err != nil {
		return err
	}
	ts, h := c.Timestamp, c.Headers
	if had && (!has || row.key != string(l.foreign)) {
		l.old = append(l.old[:0], row.key...)
		if err := l.subscribe(c, l.old, subscription{unsubscribe, row.version, l.key}, 0); err != nil {
			return err
		}
		c.Timestamp, c.Headers = ts, h
	}
	if !has {
		return l.alone(c, k, ch, row, had)
	}
	l.rows.last++
	row.version = l.rows.last
	if row.key != string(l.foreign) {
		row.key = string(l.foreign)
	}
	if err := l.rows.Put(k, row); err != nil {
		return err
	}
	// Where the result has no row, an answer that would delete it is not needed.
	kind := subscribeAnswer
	if l.j.LeftOnly == nil && !row.joined {
		kind = subscribeQuiet
	}
	return l.subscribe(c, l.foreign, subscription{kind, row.version, l.key}, 0)
}

// alone takes a row without a foreign key, or its deletion: no answer will come.
func (l *foreignLeft[K, V, KO, VO, VR]) alone(c *Context, k K, ch Change[V], row foreignRow, had bool) error {
	if had {
		if err := l.rows.Delete(k); err != nil {
			return err
		}
	}
	var res Change[VR]
	if ch.HasNew && l.j.LeftOnly != nil {
		c.node = l.node
		res.New, res.HasNew = l.j.LeftOnly(ch.New), true
	} else if row.joined {
		c.Timestamp = max(c.Timestamp, row.ts)
	}
	return l.next(c, k, res)
}

// foreignKey leaves the foreign key of a row in l.foreign. A row for which that
// fails, and the failure handler skips it, has none.
func (l *foreignLeft[K, V, KO, VO, VR]) foreignKey(c *Context, k K, v V) (has bool, err error) {
	c.node = l.node
	if l.maySkip {
		defer func() {
			if p := recover(); p != nil {
				has, err = false, c.g.env.Fail(c.g.RecoverError(p))
			}
		}()
	}
	fk, has := l.j.Of(k, v)
	if !has || l.keyNull.is(fk) {
		return false, nil
	}
	if l.foreign, err = l.j.RightKey.Append(l.foreign[:0], fk); err != nil {
		return false, c.fail(KindEncode, fmt.Errorf("foreign key: %w", err))
	}
	return true, nil
}

// Answer takes the answers; its child is the result.
func (j ForeignKeyJoin[K, V, KO, VO, VR]) Answer() Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, m := nextChange[K, VR](outs), b.id(), b.g.env.Metrics()
		rows, err := j.openRows(b)
		if err != nil {
			return nil, err
		}
		get, err := getter[K, V](b, j.Left)
		if err != nil {
			return nil, err
		}
		return Next[K, answer[VO]](func(c *Context, k K, a answer[VO], n record.Null) error {
			if n.Value() {
				m.NullDropped.Add(1) // not written by us
				return nil
			}
			row, ok, err := rows.Get(k)
			if err != nil || !ok || row.version != a.version || row.key != string(a.foreign) {
				return err // stale
			}
			l, ts, ok, err := get(k)
			if err != nil || !ok {
				return err // dropped with its window
			}
			c.node = node
			var res Change[VR]
			switch {
			case a.has:
				res.New, res.HasNew = j.Both(l, a.v), true
			case j.LeftOnly != nil:
				res.New, res.HasNew = j.LeftOnly(l), true
			}
			if row.joined != a.has || row.ts != a.ts {
				row.joined, row.ts = a.has, a.ts
				if err := rows.Put(k, row); err != nil {
					return err
				}
			}
			c.Timestamp = max(ts, a.ts)
			return next(c, k, res)
		}), nil
	}
}

// subscriptions is the right side's store. It is not cached: the entries of one
// foreign key are found by a scan.
type subscriptions struct {
	name    string
	kv      state.KV
	key, to []byte
}

func openSubscriptions(b *Build, name string) (*subscriptions, error) {
	kv, err := b.g.env.Store(name)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", name, err)
	}
	return &subscriptions{name: name, kv: kv}, nil
}

func (s *subscriptions) take(foreign []byte, sub subscription) (err error) {
	s.key = appendSubscriptionKey(s.key[:0], foreign, sub.key)
	if sub.kind == unsubscribe {
		err = s.kv.Delete(s.key)
	} else {
		s.to = binary.AppendUvarint(s.to[:0], sub.version)
		err = s.kv.Set(s.key, s.to)
	}
	if err != nil {
		return s.fail("write", err)
	}
	return nil
}

// each calls f for the subscriptions of a foreign key, by their keys' bytes. f
// must not change the store.
func (s *subscriptions) each(foreign []byte, f func(key []byte, version uint64) error) (err error) {
	s.key = appendSubscriptionKey(s.key[:0], foreign, nil)
	s.to = prefixEnd(append(s.to[:0], s.key...))
	it := s.kv.Scan(s.key, s.to, false)
	defer closeIterator(it, &err)
	for it.Next() {
		_, key, err := splitSubscriptionKey(it.Key())
		if err != nil {
			return s.fail("decode", err)
		}
		version, w := binary.Uvarint(it.Value())
		if w <= 0 {
			return s.fail("decode", errSubscription)
		}
		if err := f(key, version); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return s.fail("scan", err)
	}
	return nil
}

func (s *subscriptions) fail(what string, err error) error {
	return fmt.Errorf("store %q: %s: %w", s.name, what, err)
}

// Subscribe takes the subscriptions beside the right table.
func (j ForeignKeyJoin[K, V, KO, VO, VR]) Subscribe() Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node, m := next[[]byte, answer[VO]](outs), b.id(), b.g.env.Metrics()
		subs, err := openSubscriptions(b, j.SubscriptionStore())
		if err != nil {
			return nil, err
		}
		get, err := getter[KO, VO](b, j.Right)
		if err != nil {
			return nil, err
		}
		return Next[[]byte, subscription](func(c *Context, foreign []byte, sub subscription, n record.Null) error {
			if n != 0 {
				m.NullDropped.Add(1) // not written by us
				return nil
			}
			if err := subs.take(foreign, sub); err != nil || sub.kind == unsubscribe {
				return err
			}
			k, err := j.RightKey.Decode(foreign)
			if err != nil {
				return c.failAt(node, KindDecode, fmt.Errorf("foreign key: %w", err))
			}
			a := answer[VO]{version: sub.version, foreign: foreign, ts: c.Timestamp}
			v, ts, ok, err := get(k)
			switch {
			case err != nil:
				return err
			case ok:
				a.v, a.ts, a.has = v, ts, true
			case sub.kind == subscribeQuiet:
				return nil
			}
			return next(c, sub.key, a, 0)
		}), nil
	}
}

// RightSide takes the changes of the right table and answers every subscription
// of the row.
func (j ForeignKeyJoin[K, V, KO, VO, VR]) RightSide() Factory {
	return func(b *Build, outs []any) (any, error) {
		next, node := next[[]byte, answer[VO]](outs), b.id()
		subs, err := openSubscriptions(b, j.SubscriptionStore())
		if err != nil {
			return nil, err
		}
		var foreign []byte
		return NextChange[KO, VO](func(c *Context, k KO, ch Change[VO]) (err error) {
			if foreign, err = j.RightKey.Append(foreign[:0], k); err != nil {
				return c.failAt(node, KindEncode, fmt.Errorf("key: %w", err))
			}
			ts, h := c.Timestamp, c.Headers
			return subs.each(foreign, func(key []byte, version uint64) error {
				c.Timestamp, c.Headers = ts, h
				return next(c, key, answer[VO]{version: version, foreign: foreign, ts: ts, has: ch.HasNew, v: ch.New}, 0)
			})
		}), nil
	}
}
