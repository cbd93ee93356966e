package operators

import (
	"math"

	"github.com/tidegate/tidegate/record"
)

// Results on close: the store holds the windows in the order of their starts,
// which is the order of their ends, and a window leaves it when its results were
// sent. So what is still there and has ended is what is still to be sent,
// however far stream time jumped and whatever restart lies in between.

// due is the stream time that closes the oldest window.
func (a *windowAgg[K, V, A, WK]) due() int64 {
	a.first, _ = a.st.Oldest() // known since the store was opened
	if a.first == math.MaxInt64 {
		return a.first
	}
	return a.w.end(a.first) + a.w.Grace
}

// send sends the results of the windows that stream time closed, by window and
// then by serialised key.
func (a *windowAgg[K, V, A, WK]) send(c *Context, streamTime int64) error {
	before, _ := a.w.ended(clampTime(streamTime) - a.w.Grace)
	oldest, err := a.st.Oldest()
	if err != nil || oldest >= before {
		return err
	}
	ts, h := c.Timestamp, c.Headers
	defer func() { c.Timestamp, c.Headers = ts, h }()
	if err := a.sendBefore(c, before); err != nil {
		return err
	}
	return a.st.ExpireBefore(before)
}

func (a *windowAgg[K, V, A, WK]) sendBefore(c *Context, before int64) error {
	it, err := a.st.Scan(math.MinInt64, before, false)
	if err != nil {
		return err
	}
	sending := false
	defer func() {
		if sending {
			// A step below panicked. If that is skipped, the next call goes on
			// behind this row; if the store fails too, the row comes again.
			_ = a.st.ExpireThrough(it.Start(), it.Key())
		}
		_ = it.Close()
	}()
	for it.Next() {
		row := it.Value()
		c.Timestamp, c.Headers = row.ts, nil
		w := record.Window{Start: it.Start(), End: a.w.end(it.Start())}
		sending = true
		if err := a.next(c, a.key(it.Key(), w), Change[A]{New: row.v, HasNew: true}); err != nil {
			return err
		}
		sending = false
	}
	return it.Err()
}
