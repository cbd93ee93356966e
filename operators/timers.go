package operators

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// TimeKind is the clock of a timer.
type TimeKind uint8

const (
	// StreamTime is the task's stream time.
	StreamTime TimeKind = iota + 1
	// WallClock is the machine's clock.
	WallClock
)

// Timer is a scheduled punctuation.
type Timer struct {
	node      string
	ordinal   int // within the node's Init; −1 when made later
	every     int64
	kind      TimeKind
	due       int64
	cancelled bool
	f         func(c *Context, now int64) error
	owner     *timers
}

// Cancel stops the timer.
func (t *Timer) Cancel() {
	t.cancelled = true
	t.owner.findDue()
}

// unset is the due time of a wall-clock timer that has not seen the clock.
const unset = math.MinInt64

// never is the due time of a timer that does not fire any more.
const never = math.MaxInt64

type timers struct {
	all      []*Timer
	expiries []*expiry
	closers  []closer
	cleaners []closer
	// passed is the stream time up to which everything was sent, ahead the task's
	// stream time while steps send at an earlier one.
	passed, ahead      int64
	stepping           bool
	streamDue, wallDue int64
}

func (ts *timers) reset() { ts.streamDue, ts.wallDue = math.MaxInt64, math.MaxInt64 }

// now is the task's stream time, which never falls: c's may be an earlier one
// while steps send what a jump of time closed.
func (c *Context) now() int64 {
	if ts := &c.g.timers; ts.stepping {
		return max(c.StreamTime, ts.ahead)
	}
	return c.StreamTime
}

func (ts *timers) add(t *Timer, streamTime int64) *Timer {
	t.owner = ts
	switch {
	case t.kind == WallClock:
		t.due = unset
	case streamTime >= 0:
		t.due = floor(clampTime(streamTime), t.every) + t.every
	}
	ts.all = append(ts.all, t)
	ts.findDue()
	return t
}

func (ts *timers) expire(e *expiry) {
	ts.expiries = append(ts.expiries, e)
	ts.findDue()
}

// closer is a step with something to send when stream time passes due. Who
// changes due calls findDue.
type closer interface {
	due() int64
	send(c *Context, streamTime int64) error
}

// closeBefore lets a step send before windows are dropped.
func (ts *timers) closeBefore(x closer) {
	ts.closers = append(ts.closers, x)
	ts.findDue()
}

// cleanAfter lets a step clean up, which it does once however far time jumped:
// nothing that it sends depends on it.
func (ts *timers) cleanAfter(x closer) {
	ts.cleaners = append(ts.cleaners, x)
	ts.findDue()
}

// sendClosed lets steps send what stream time closed.
//
// Stream time may have jumped. What waited is sent in the order of its due times
// and, for the steps below, at its due time: a result that closes at 41 is not
// late for a window that closes at 60 because the next record came at 100. So a
// jump gives what time gives that goes step by step.
func (ts *timers) sendClosed(c *Context, streamTime int64) error {
	if len(ts.closers)+len(ts.cleaners) == 0 {
		return nil
	}
	rec := c.leaveRecord()
	defer func() { c.RecordContext = rec }()
	if err := ts.step(c, streamTime, ts.closers...); err != nil {
		return err
	}
	ts.passed = max(ts.passed, streamTime)
	for _, x := range ts.cleaners {
		if err := x.send(c, streamTime); err != nil {
			return err
		}
	}
	return nil
}

// step lets steps send up to a stream time, by due time.
func (ts *timers) step(c *Context, streamTime int64, closers ...closer) error {
	now, ahead, nested := c.StreamTime, ts.ahead, ts.stepping
	ts.ahead, ts.stepping = c.now(), true
	defer func() { c.StreamTime, ts.ahead, ts.stepping = now, ahead, nested }()
	for at := ts.nextStep(closers, streamTime); at <= streamTime; {
		c.StreamTime = at
		// Steps are made from the sinks up, so in this order what one sends reaches
		// the ones below it before their turn.
		for _, x := range slices.Backward(closers) {
			if err := x.send(c, at); err != nil {
				return err
			}
		}
		next := ts.nextStep(closers, streamTime)
		if next <= at && at < streamTime {
			next = streamTime // what its own time did not send goes with the last
		} else if next <= at {
			return nil
		}
		at = next
	}
	return nil
}

// nextStep is the next time at which something is due, not before a time that
// has already been the steps' time; one above streamTime says nothing is.
func (ts *timers) nextStep(closers []closer, streamTime int64) int64 {
	due := int64(math.MaxInt64)
	for _, x := range closers {
		due = min(due, x.due())
	}
	return max(due, min(ts.passed, streamTime))
}

// sendWaiting lets a step send what is due before the record in hand. What fails
// there is the fault of what waited: where it is skipped, what else is due follows,
// and so does the record. REQUIRES: x forgets what it sends before user code sees
// it.
func (c *Context) sendWaiting(x closer) error {
	for clampTime(c.StreamTime) >= x.due() {
		if err := c.trySend(x); err != nil {
			return err
		}
	}
	return nil
}

func (c *Context) trySend(x closer) (err error) {
	rec := c.leaveRecord()
	defer func() {
		if p := recover(); p != nil {
			err = c.g.env.Fail(c.g.RecoverError(p))
		}
		c.RecordContext = rec
	}()
	return c.g.timers.step(c, c.StreamTime, x)
}

// findDue finds the earliest due times.
func (ts *timers) findDue() {
	ts.reset()
	for _, x := range ts.closers {
		ts.streamDue = min(ts.streamDue, x.due())
	}
	for _, x := range ts.cleaners {
		ts.streamDue = min(ts.streamDue, x.due())
	}
	for _, e := range ts.expiries {
		ts.streamDue = min(ts.streamDue, e.due)
	}
	for _, t := range ts.all {
		switch {
		case t.cancelled:
		case t.kind == StreamTime:
			ts.streamDue = min(ts.streamDue, t.due)
		default:
			ts.wallDue = min(ts.wallDue, t.due)
		}
	}
}

// NextStreamTime is the stream time at which Punctuate has something to do:
// math.MaxInt64 when never.
func (g *Graph) NextStreamTime() int64 { return g.timers.streamDue }

// NextWallClock is the wall-clock time at which PunctuateWallClock has
// something to do, in milliseconds since the epoch: math.MaxInt64 when never,
// and in the past when a timer waits to see the clock.
func (g *Graph) NextWallClock() int64 { return g.timers.wallDue }

// Punctuate sends what waited for stream time, drops expired windows and fires
// the stream-time timers that are due, in the order of due time and
// registration, each at most once. c's record is the same afterwards.
func (g *Graph) Punctuate(c *Context, streamTime int64) error {
	g.cur, c.g, c.StreamTime = c, g, streamTime
	if streamTime < g.timers.streamDue {
		return nil
	}
	if err := g.timers.sendClosed(c, streamTime); err != nil {
		return err
	}
	for _, e := range g.timers.expiries {
		if err := e.advance(streamTime); err != nil {
			return err
		}
	}
	return g.fire(c, StreamTime, streamTime)
}

// PunctuateWallClock fires the wall-clock timers that are due at a time in
// milliseconds since the epoch.
func (g *Graph) PunctuateWallClock(c *Context, now int64) error {
	g.cur, c.g = c, g
	if now < g.timers.wallDue {
		return nil
	}
	return g.fire(c, WallClock, now)
}

// ClockSetBack says that the machine's clock was set back, to a time in
// milliseconds since the epoch: wall-clock timers count from there, instead of
// being silent until the clock is again where it was.
func (g *Graph) ClockSetBack(now int64) {
	for _, t := range g.timers.all {
		if t.kind == WallClock && t.due > now+t.every {
			t.due = now + t.every
		}
	}
	g.timers.findDue()
}

// fire runs the due timers of one kind. The due time is moved before the call,
// so that a failing timer does not fire for ever.
func (g *Graph) fire(c *Context, kind TimeKind, now int64) error {
	rec, ts := c.leaveRecord(), &g.timers
	defer func() {
		c.RecordContext = rec
		ts.compact()
	}()
	fired := false
	for {
		var t *Timer
		for _, x := range ts.all {
			if !x.cancelled && x.kind == kind && x.due <= now && x.due != never && (t == nil || x.due < t.due) {
				t = x
			}
		}
		if t == nil {
			break
		}
		first := t.due == unset
		t.next(now)
		ts.findDue()
		if first {
			continue
		}
		c.Timestamp, c.Headers = now, nil
		g.env.Metrics().Punctuations.Add(1)
		fired = true
		if err := t.f(c, now); err != nil {
			return err
		}
	}
	if !fired {
		return nil
	}
	// What a timer sent may be due at once.
	return ts.sendClosed(c, c.StreamTime)
}

// compact forgets cancelled timers and finds the earliest due times.
func (ts *timers) compact() {
	live := ts.all[:0]
	for _, t := range ts.all {
		if !t.cancelled || t.ordinal >= 0 { // a restore must know it was cancelled
			live = append(live, t)
		}
	}
	clear(ts.all[len(live):])
	ts.all = live
	ts.findDue()
}

func (t *Timer) next(now int64) {
	if t.kind == StreamTime {
		// Behind maxTime the timer has fired for the last time.
		if t.due = floor(clampTime(now), t.every) + t.every; t.due <= now {
			t.due = never
		}
		return
	}
	t.due = now + t.every
}

const timersVersion = 1

// SnapshotTimers returns the state of the stream-time timers that were
// scheduled in Init, for the task's snapshot. The format is in
// docs/format/timers.md.
func (g *Graph) SnapshotTimers() []byte {
	dst := []byte{timersVersion}
	for _, t := range g.timers.all {
		if t.kind != StreamTime || t.ordinal < 0 {
			continue
		}
		due := t.due
		if t.cancelled {
			due = never
		}
		dst = binary.AppendUvarint(dst, uint64(len(t.node)))
		dst = append(dst, t.node...)
		dst = binary.AppendUvarint(dst, uint64(t.ordinal))
		dst = binary.AppendVarint(dst, due)
	}
	return dst
}

// timerState is one entry of a snapshot.
type timerState struct {
	node    string
	ordinal int
	due     int64
}

var errTimers = errors.New("timer snapshot is cut short or malformed")

func decodeTimers(b []byte) ([]timerState, error) {
	if len(b) == 0 {
		return nil, errTimers
	}
	if b[0] != timersVersion {
		return nil, fmt.Errorf("timer snapshot has version %d, this release reads %d: use a newer release", b[0], timersVersion)
	}
	b = b[1:]
	var out []timerState
	for len(b) > 0 {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > uint64(len(b)-w) {
			return nil, errTimers
		}
		s := timerState{node: string(b[w : w+int(n)])}
		b = b[w+int(n):]
		ord, w := binary.Uvarint(b)
		if w <= 0 || ord > math.MaxInt32 {
			return nil, errTimers
		}
		s.ordinal, b = int(ord), b[w:]
		if s.due, w = binary.Varint(b); w <= 0 {
			return nil, errTimers
		}
		b = b[w:]
		out = append(out, s)
	}
	return out, nil
}

// RestoreTimers puts the due times of a snapshot back. Timers that the snapshot
// does not know begin anew; entries without a timer are ignored, and so is an
// empty snapshot, that of checkpoint 0.
func (g *Graph) RestoreTimers(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	states, err := decodeTimers(b)
	if err != nil {
		return err
	}
	for _, s := range states {
		for _, t := range g.timers.all {
			if t.kind == StreamTime && t.ordinal == s.ordinal && t.node == s.node {
				t.due = s.due
			}
		}
	}
	g.timers.findDue()
	return nil
}
