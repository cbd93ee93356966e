package operators

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/tidegate/tidegate/serde"
	"github.com/tidegate/tidegate/topology"
)

// ErrorKind says what was wrong with a record.
type ErrorKind uint8

const (
	// KindDecode: key or value could not be decoded.
	KindDecode ErrorKind = iota + 1
	// KindUser: a user function returned an error.
	KindUser
	// KindPanic: a user function panicked.
	KindPanic
	// KindEncode: key or value could not be encoded.
	KindEncode
	// KindOutput: the output refused the record.
	KindOutput
	// KindTimestamp: the record has no valid event time.
	KindTimestamp
)

// String returns a word for metrics: "decode", "user", …
func (k ErrorKind) String() string {
	switch k {
	case KindDecode:
		return "decode"
	case KindUser:
		return "user"
	case KindPanic:
		return "panic"
	case KindEncode:
		return "encode"
	case KindOutput:
		return "output"
	case KindTimestamp:
		return "timestamp"
	}
	return "unknown"
}

// RecordError is a failure that is the record's fault. Topic, Partition and
// Offset name the input record; for a punctuation they are "", −1 and −1.
type RecordError struct {
	Node      string
	Site      topology.Site
	Kind      ErrorKind
	Topic     string
	Partition int32
	Offset    int64
	Err       error
	// At and Stack are where a panic happened.
	At    topology.Site
	Stack []byte
	// Fatal: skipping would leave a half-changed state behind, or the record is
	// not to blame (serde.ErrUnavailable), so the task must fail.
	Fatal bool
	// Retry: the user wants the task to start again and meet the record again.
	// Whoever runs the task sets it.
	Retry bool
}

var kindVerbs = map[ErrorKind]string{
	KindDecode: "cannot decode", KindUser: "user function failed on", KindPanic: "user function panicked on",
	KindEncode: "cannot encode the output of", KindOutput: "output refused the result of",
	KindTimestamp: "finds no valid timestamp in",
}

// Error names the step with its line of the program, and the record.
func (e *RecordError) Error() string {
	where := fmt.Sprintf("record %s-%d@%d", e.Topic, e.Partition, e.Offset)
	if e.Topic == "" {
		where = "a punctuation"
	}
	text := fmt.Sprintf("step %q %s %s: %v", e.Node, kindVerbs[e.Kind], where, e.Err)
	if e.Site != (topology.Site{}) {
		text = e.Site.String() + ": " + text
	}
	if e.At != (topology.Site{}) {
		text += " (at " + e.At.String() + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// ErrPanicked is wrapped by the error of a processor that panicked while it was
// made or closed: making it again would panic again.
var ErrPanicked = errors.New("user function panicked")

// ErrRefused is wrapped by the errors of [Output.Append] and [Env.Output] for
// which the record itself is to blame: it is too large, or names a topic that
// does not exist.
var ErrRefused = errors.New("the record cannot be written")

// fail reports the present record as failed in the node that ran last. A nil
// result means that the record is skipped.
func (c *Context) fail(kind ErrorKind, err error) error {
	return c.g.env.Fail(c.recordError(kind, err))
}

func (c *Context) failAt(node int32, kind ErrorKind, err error) error {
	c.node = node
	return c.fail(kind, err)
}

func (c *Context) recordError(kind ErrorKind, err error) *RecordError {
	n := c.g.res.Node(int(c.node))
	return &RecordError{
		Node: n.Label(), Site: n.Site, Kind: kind,
		Topic: c.Topic, Partition: c.Partition, Offset: c.Offset, Err: err,
		Fatal: errors.Is(err, serde.ErrUnavailable),
	}
}

// panicError is the error of a panic outside of any record.
func panicError(p any) error {
	if err, ok := p.(error); ok {
		return fmt.Errorf("%w: %w\n%s", ErrPanicked, err, debug.Stack())
	}
	return fmt.Errorf("%w: %v\n%s", ErrPanicked, p, debug.Stack())
}

// panickedAt returns the line that panicked: the first one outside of Go's
// runtime that the present panic interrupted.
func panickedAt() topology.Site {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for panicking := false; ; {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicking = true
		case panicking && !strings.HasPrefix(f.Function, "runtime."):
			return topology.Site{File: f.File, Line: f.Line}
		}
		if !more {
			return topology.Site{}
		}
	}
}

// RecoverError turns the value of a recovered panic into the error of the
// record that was being processed, and undoes a half-done aggregation. It must
// be called in the deferred function, so that the stack is still there.
func (g *Graph) RecoverError(p any) *RecordError {
	c := g.cur
	if c == nil {
		c = &g.idle
	}
	err, ok := p.(error)
	if !ok {
		err = fmt.Errorf("%v", p)
	}
	e := c.recordError(KindPanic, err)
	e.At, e.Stack = panickedAt(), debug.Stack()
	if revert := c.revert; revert != nil {
		c.revert = nil
		undone, rerr := revert()
		e.Fatal = e.Fatal || !undone
		if rerr != nil {
			e.Err = errors.Join(err, rerr)
		}
	}
	return e
}
