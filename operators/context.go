package operators

import (
	"github.com/tidegate/tidegate/record"
)

// Context is the record that runs through a graph, and what steps share. The
// task owns one per graph: it sets Ctx, Topic, Partition and StreamTime; a
// source sets the rest.
type Context struct {
	record.RecordContext
	// StreamTime is the task's stream time in milliseconds, −1 before the first
	// record; it includes the present record as far as R13 says so.
	StreamTime int64

	g *Graph
	// node is the step whose user code ran last.
	node int32
	// revert undoes what a failing aggregator did to the value it was given; nil
	// when nothing is at stake.
	revert func() (bool, error)
}

// leaveRecord puts a context without a record in place of the record in hand, which
// it returns: what is sent because time passed has no topic and no offset. Who
// calls it puts the record back.
func (c *Context) leaveRecord() record.RecordContext {
	rec := c.RecordContext
	c.RecordContext = record.RecordContext{Ctx: rec.Ctx, Partition: -1, Offset: -1}
	return rec
}

// Next takes a stream's record. What k and v are where n says null does not
// matter.
type Next[K, V any] func(c *Context, k K, v V, n record.Null) error

// Change is an update of one row of a table. Old is filled only where a step
// asked for it (topology.Node.WantsOld).
type Change[V any] struct {
	New, Old       V
	HasNew, HasOld bool
}

// NextChange takes a table's update.
type NextChange[K, V any] func(c *Context, k K, ch Change[V]) error

// SourceFunc takes a record as it was read. The record's memory may be used
// again when it returns.
type SourceFunc func(c *Context, r *record.Raw) error

// Getter looks up a row of a table: its value and the timestamp of its last
// update.
type Getter[K, V any] func(k K) (v V, timestamp int64, ok bool, err error)

// next is the function that sends to all children.
func next[K, V any](outs []any) Next[K, V] {
	if len(outs) == 0 {
		return func(*Context, K, V, record.Null) error { return nil }
	}
	fs := make([]Next[K, V], len(outs))
	for i, o := range outs {
		fs[i] = o.(Next[K, V])
	}
	if len(fs) == 1 {
		return fs[0]
	}
	return func(c *Context, k K, v V, n record.Null) error {
		ts, h := c.Timestamp, c.Headers
		for _, f := range fs {
			c.Timestamp, c.Headers = ts, h
			if err := f(c, k, v, n); err != nil {
				return err
			}
		}
		return nil
	}
}

func nextChange[K, V any](outs []any) NextChange[K, V] {
	if len(outs) == 0 {
		return func(*Context, K, Change[V]) error { return nil }
	}
	fs := make([]NextChange[K, V], len(outs))
	for i, o := range outs {
		fs[i] = o.(NextChange[K, V])
	}
	if len(fs) == 1 {
		return fs[0]
	}
	return func(c *Context, k K, ch Change[V]) error {
		ts, h := c.Timestamp, c.Headers
		for _, f := range fs {
			c.Timestamp, c.Headers = ts, h
			if err := f(c, k, ch); err != nil {
				return err
			}
		}
		return nil
	}
}
